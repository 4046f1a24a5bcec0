// One query of a head in numbers: each step of equation 1 (section 3.2.1).

import { html, useState } from "./vendor/preact.js";
import { part } from "./data.js";
import { PAGE, Pager } from "./parts.js";
import { Token, fixed, visible } from "./tokens.js";

const FIRST = 4; // numbers of a vector that are shown at first

/** The layers and heads of which an array has numbers. */
export function nameOfHeld({ layers, heads }) {
  return `${heads.length === 1 ? `head ${heads[0]} of ` : ""}layer ${layers.join(", ")}`;
}

export function ChosenByOption({ layer, head }) {
  return html`<code>dragoman inspect --layer ${layer + 1} --head ${head + 1}</code>`;
}

/** kind, layer and head: counted from 0. weights: of the head [queries, keys]. */
export function HeadNumbers({ projections, kind, layer, head, queries, keys, weights, bias }) {
  const held = projections[kind];
  if (!held) return null; // the model has no multi-head attention
  const place = [held.layers.indexOf(layer + 1), held.heads.indexOf(head + 1)];
  const title = html`<h3>One query in numbers</h3>`;
  if (place.includes(-1) || weights === null) {
    return html`<section class="panel" aria-label="One query in numbers">${title}
      <p class="note">There is room only for the queries, keys and values of ${nameOfHeld(held)}.${" "}
        <${ChosenByOption} layer=${layer} head=${head} /> writes those of this head; a .json file has
        all.</p></section>`;
  }
  return html`<section class="panel" aria-label="One query in numbers">${title}
    <${Steps} held=${held} place=${place} queries=${queries} keys=${keys} weights=${weights}
      kind=${kind} plus=${bias ? " + b" : ""} /></section>`;
}

function Steps({ held, place, queries, keys, weights, kind, plus }) {
  const [chosen, setQuery] = useState(0);
  const [full, setFull] = useState(false);
  const [start, setStart] = useState(0);
  const query = Math.min(chosen, queries.length - 1);
  const width = held.queries.shape[3];
  const shown = keys.slice(start, start + PAGE);
  const vector = (array, position) => numbersOf(part(array, ...place, position), full);
  const rows = shown.map((key, row) => stepsOf(held, place, query, start + row, weights, keys.length));
  return html`
    <p class="formula">Attention(Q, K, V) = softmax(Q K<sup>T</sup> / √d<sub>k</sub>) V</p>
    <p class="note">Section 3.2.1, for one row of Q: q is 1 × ${width}, K is ${keys.length} × ${width}, V is
      ${" "}${keys.length} × ${held.values.shape[3]}, √d<sub>k</sub> is ${fixed(Math.sqrt(width))}. The
      numbers are those of the call that translated, rounded to 16 bits.${kind === "decoder" ? LATER : ""}</p>
    <div class="tools">
      <label>${kind === "encoder" ? "Query" : "Query that predicts"}${" "}
        <select value=${query} onChange=${(event) => setQuery(Number(event.currentTarget.value))}>
        ${queries.map((token, index) => html`<option key=${index} value=${index}>
          ${index + 1}: ${visible(token)}</option>`)}
      </select></label>
      <div class="choice"><button aria-pressed=${full} onClick=${() => setFull(!full)}>
        All ${width} numbers</button></div>
      <${Pager} label="Keys" start=${start} total=${keys.length} move=${setStart} />
    </div>
    <div class="scroll" tabindex="0" role="group" aria-label="Steps of equation 1">
      <table class="equation">
        <thead><tr>${headOf(plus).map(([name, formula]) => html`<th key=${name} scope="col">${name}
          <small>${formula}</small></th>`)}</tr></thead>
        <tbody>
          <tr class="total"><th scope="row">q<small>x W<sup>Q</sup>${plus}</small></th>
            <td class="vector">${vector(held.queries, query)}</td><td colspan="5"></td></tr>
          ${rows.map(({ score, scaled, allowed, weight }, row) => html`<tr key=${start + row}>
            <th scope="row"><${Token} token=${shown[row]} /></th>
            <td class="vector">${vector(held.keys, start + row)}</td>
            <td>${fixed(score)}</td><td>${fixed(scaled)}</td><td>${allowed ? fixed(scaled) : "−∞"}</td>
            <td>${fixed(weight, 4)}<span class="under">
              <span style=${{ width: `${100 * weight}%` }}></span></span></td>
            <td class="vector">${vector(held.values, start + row)}</td>
          </tr>`)}
          <tr class="total"><th scope="row">Output<small>Σ softmax · v</small></th><td colspan="5"></td>
            <td class="vector">${vector(held.outputs, query)}</td></tr>
        </tbody>
      </table>
    </div>`;
}

const LATER = " Later keys are masked; during the search they do not exist yet.";

const headOf = (plus) => [
  ["Key", ""],
  ["k", html`x W<sup>K</sup>${plus}`],
  ["q · k", ""],
  ["Scaled", html`q · k / √d<sub>k</sub>`],
  ["Masked", "−∞ if not allowed"],
  ["Softmax", "over all keys"],
  ["v", html`x W<sup>V</sup>${plus}`],
];

/** The numbers of a query and a key. */
function stepsOf(held, place, query, key, weights, keys) {
  const { shape } = held.allowed; // a row for all queries, or one for each
  return {
    score: part(held.scores, ...place, query)[key],
    scaled: part(held.scores, ...place, query)[key] / Math.sqrt(held.queries.shape[3]),
    allowed: part(held.allowed, shape[0] === 1 ? 0 : query)[key] > 0,
    weight: weights[query * keys + key],
  };
}

function numbersOf(vector, full) {
  const numbers = Array.from(full ? vector : vector.subarray(0, FIRST), (value) => fixed(value));
  return numbers.join("  ") + (full || vector.length <= FIRST ? "" : "  …");
}
