// The table of position encodings: its numbers, and how similar positions are by their distance.

import { html, useMemo, useState } from "./vendor/preact.js";
import { decoderKeys } from "./data.js";
import { Heat, Legend, greatest } from "./heat.js";
import { Numbers, ticks } from "./parts.js";
import { Token, fixed, visible } from "./tokens.js";
import { useWindow } from "./window.js";

const KINDS = {
  sinusoidal: "Sinusoids as in section 3.5 of the paper: sine in even dimensions, cosine in odd ones.",
  "sinusoidal-halves": "Sinusoids: sine in the first half of the dimensions, cosine in the second.",
  "sinusoidal-tensor2tensor": "Sinusoids in the layout of Tensor2Tensor.",
  learned: "A learned table (Table 3, row E of the paper).",
};

export function Positions({ inspection }) {
  const { positions, distances, model, source, wavelengths } = inspection;
  const [rows, columns] = positions.shape;
  const [start, stop] = useWindow(rows);
  const most = useMemo(() => greatest(positions.values), []);
  const isShared = model.positions !== "learned"; // else the source has a table of its own
  const sides = [isShared ? source.tokens : [], decoderKeys(inspection)];
  const tokenOf = (tokens, position) => (position < tokens.length ? visible(tokens[position]) : "");
  return html`
    <p>${KINDS[model.positions] ?? model.positions} Each row is a position, ${start} to ${stop - 1}, and each
      column a dimension.${model.positions.startsWith("sin") && model.first_position > 0
        ? ` The first token has position ${model.first_position} of the formula, not 0: add it to each row.`
        : ""} The row is${" "}
      ${model.concatenate_positions ? "concatenated with" : "added to"} the embedding of${" "}
      ${model.positions === "learned" ? "" : "the source token and of "}the decoder's input token at this
      position.${wavelengths.length ? html` The numbers of a dimension repeat after its
      wavelength: from ${wave(wavelengths[0])} (2π) to ${wave(wavelengths.at(-1))} positions.` : null}</p>
    <div class="tools"><${Legend} name="Number" scale="signed"
      marks=${[[0, fixed(-most, 2)], [0.5, "0"], [1, fixed(most, 2)]]} /></div>
    <${Table} key=${start} positions=${positions} start=${start} stop=${stop} most=${most} sides=${sides}
      wavelengths=${wavelengths} />
    <${Numbers} title="Position table as numbers"
      rows=${() => Array.from({ length: rows }, (_, position) => [
        position, ...sides.slice(isShared ? 0 : 1).map((tokens) => tokenOf(tokens, position)),
        ...Array.from(positions.values.subarray(position * columns, (position + 1) * columns),
          (value) => fixed(value, 2)),
      ])}
      head=${["Position", ...(isShared ? ["Source token"] : []), "Decoder input",
        ...Array.from({ length: columns }, (_, dimension) => String(dimension))]} />
    ${wavelengths.length ? html`<${Numbers} title="Wavelengths as a table" head=${["Dimension", "Positions"]}
      rows=${() => wavelengths.map((each, dimension) => [dimension, wave(each)])} />` : null}
    <${Distances} distances=${distances} />`;
}

/** A wavelength in positions. */
function wave(positions) {
  return positions < 100 ? fixed(positions, 2) : Math.round(positions).toLocaleString("en");
}

const NAMED = 60; // rows that have the names of their tokens

/** The heat map of the rows from a first one to the one before another, with their tokens; the number under
 * the pointer is written below. */
function Table({ positions, start, stop, most, sides, wavelengths }) {
  const [place, setPlace] = useState(null);
  const columns = positions.shape[1];
  const drawn = useMemo(() => positions.values.subarray(start * columns, stop * columns), [start, stop]);
  const follow = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const within = (share, size) => Math.min(Math.max(Math.floor(share * size), 0), size - 1);
    setPlace([
      start + within((event.clientY - box.top) / box.height, stop - start),
      within((event.clientX - box.left) / box.width, columns),
    ]);
  };
  const named = stop - start <= NAMED;
  const names = (tokens, side) => named && html`<div class=${`position-names ${side}`}>${
    Array.from({ length: stop - start }, (_, row) => html`<span key=${row}>
      ${side === "left" ? `${start + row} ` : ""}${start + row < tokens.length
        ? html`<${Token} token=${tokens[start + row]} />` : null}</span>`)}</div>`;
  const height = named ? `${stop - start}rem` : `${Math.max(6 * (stop - start), 120)}px`;
  return html`<div class="position-map">
      <span class="note">${named && sides[0].length ? "source" : ""}</span>
      <span class="note">dimension →</span>
      <span class="note">${named ? "decoder input" : ""}</span>
      ${names(sides[0], "left") || html`<span></span>`}
      <${Heat} values=${drawn} columns=${columns} scale="signed" share=${(value) => 0.5 + value / (2 * most)}
        label=${`Position table, positions ${start} to ${stop - 1}, ${columns} dimensions`}
        style=${{ height }} onPointerMove=${follow} onPointerLeave=${() => setPlace(null)} />
      ${names(sides[1], "right") || html`<span></span>`}
    </div>
    <p class="note readout">${place ? readout(positions, place, wavelengths)
      : "Point at a cell to read its number."}</p>`;
}

function readout({ values, shape }, [position, dimension], wavelengths) {
  const length = wavelengths.length ? `, wavelength ${wave(wavelengths[dimension])}` : "";
  return html`position ${position}, dimension ${dimension}${length}: ${" "}
    <b>${fixed(values[position * shape[1] + dimension])}</b>`;
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
  const labelled = all.filter(({ distance }) => (distance - first) % Math.ceil(all.length / 8) === 0);
  return html`<section class="panel" aria-label="Dot products against distance">
    <h3>Dot products against distance</h3>
    <p class="note">The line is the mean over all pairs of positions at this distance; the band extends from
      the least to the greatest. With sinusoids the product depends only on the distance.</p>
    <div class="scroll" tabindex="0" role="group" aria-label="Plot of dot products">
    <svg class="plot" viewBox=${`0 0 ${width} ${height}`} role="img"
      aria-label="Mean dot product of two positions by distance">
      ${ticks(least, most).map((value) => html`<g key=${value}>
        <line class="rule" x1=${left} x2=${width - right} y1=${y(value)} y2=${y(value)} />
        <text x=${left - 6} y=${y(value) + 4} text-anchor="end">${value.toLocaleString("en")}</text></g>`)}
      ${labelled.map(({ distance }) => html`<text key=${distance} x=${x(distance)} y=${height - bottom + 18}
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
