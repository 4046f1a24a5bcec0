// The table of position encodings: its numbers, and how similar positions are by their distance.

import { html, useMemo } from "./vendor/preact.js";
import { Heat, Legend, greatest, matrixRows } from "./heat.js";
import { Numbers } from "./parts.js";
import { fixed } from "./tokens.js";
import { useWindow } from "./window.js";

const KINDS = {
  sinusoidal: "Sinusoids as in section 3.5 of the paper: sine in even dimensions, cosine in odd ones.",
  "sinusoidal-halves": "Sinusoids: sine in the first half of the dimensions, cosine in the second.",
  "sinusoidal-tensor2tensor": "Sinusoids in the layout of Tensor2Tensor.",
  learned: "A learned table (Table 3, row E of the paper).",
};

export function Positions({ inspection }) {
  const { positions, distances, model } = inspection;
  const [rows, columns] = positions.shape;
  const [start, stop] = useWindow(rows);
  const drawn = useMemo(() => positions.values.subarray(start * columns, stop * columns), [start, stop]);
  const most = useMemo(() => greatest(positions.values), []);
  const names = Array.from({ length: rows }, (_, position) => String(position));
  return html`
    <p>${KINDS[model.positions] ?? model.positions} Each row is a position, ${start} to ${stop - 1}, and each
      column a dimension.</p>
    <div class="tools"><${Legend} name="Number" scale="signed"
      marks=${[[0, fixed(-most, 2)], [0.5, "0"], [1, fixed(most, 2)]]} /></div>
    <div class="wide"><${Heat} values=${drawn} columns=${columns} scale="signed"
      share=${(value) => 0.5 + value / (2 * most)}
      label=${`Position table, positions ${start} to ${stop - 1}, ${columns} dimensions`}
      style=${{ height: `${Math.max(6 * (stop - start), 120)}px` }} /></div>
    <${Numbers} title="Position table as numbers"
      rows=${() => matrixRows(positions.values, columns, names, 2)}
      head=${["Position", ...Array.from({ length: columns }, (_, dimension) => String(dimension))]} />
    <${Distances} distances=${distances} />`;
}

const PLOT = { width: 640, height: 240, left: 52, bottom: 36, top: 10, right: 12 };

/** distances: of each distance the least, the mean and the greatest dot product. */
function Distances({ distances }) {
  const [first, stop] = useWindow(distances.length);
  const all = distances.map(([low, mean, high], distance) => ({ distance, low, mean, high }))
    .slice(first, stop);
  const least = Math.min(0, ...all.map(({ low }) => low));
  const most = Math.max(...all.map(({ high }) => high));
  const { width, height, left, bottom, top, right } = PLOT;
  const x = (distance) => left + ((distance - first) / Math.max(all.length - 1, 1)) * (width - left - right);
  const y = (value) => top + ((most - value) / (most - least || 1)) * (height - top - bottom);
  const line = all.map(({ distance, mean }) => `${x(distance)},${y(mean)}`).join(" ");
  const band = [
    ...all.map(({ distance, high }) => `${x(distance)},${y(high)}`),
    ...all.map(({ distance, low }) => `${x(distance)},${y(low)}`).reverse(),
  ].join(" ");
  const ticks = all.filter(({ distance }) => (distance - first) % Math.ceil(all.length / 8) === 0);
  return html`<section class="panel" aria-label="Dot products against distance">
    <h3>Dot products against distance</h3>
    <p class="note">The line is the mean over all pairs of positions at this distance; the band extends from
      the least to the greatest. With sinusoids the product depends only on the distance.</p>
    <div class="scroll" tabindex="0" role="group" aria-label="Plot of dot products">
    <svg class="plot" viewBox=${`0 0 ${width} ${height}`} role="img"
      aria-label="Mean dot product of two positions by distance">
      ${[least, 0, (least + most) / 2, most].filter((value, place, list) => list.indexOf(value) === place)
        .map((value) => html`<g key=${value}>
          <line class="rule" x1=${left} x2=${width - right} y1=${y(value)} y2=${y(value)} />
          <text x=${left - 6} y=${y(value) + 4} text-anchor="end">${fixed(value, 1)}</text></g>`)}
      ${ticks.map(({ distance }) => html`<text key=${distance} x=${x(distance)} y=${height - bottom + 18}
        text-anchor="middle">${distance}</text>`)}
      <text x=${(left + width - right) / 2} y=${height - 3} text-anchor="middle">distance in tokens</text>
      <polygon class="band" points=${band} />
      <polyline class="curve" points=${line} />
      ${all.map(({ distance, mean }) => html`<circle class="dot" key=${distance} cx=${x(distance)}
        cy=${y(mean)} r="2.5" />`)}
    </svg></div>
    <${Numbers} title="Dot products as a table" head=${["Distance", "Least", "Mean", "Greatest"]}
      rows=${() => distances.map((row, distance) => [distance, ...row.map((each) => fixed(each))])} />
  </section>`;
}
