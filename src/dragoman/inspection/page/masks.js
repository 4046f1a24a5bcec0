// The masks of this call. A mask is 1 where attending is allowed.

import { html, useState } from "./vendor/preact.js";
import { decoderKeys } from "./data.js";
import { Heat, LabelledHeat, matrixRows } from "./heat.js";
import { Numbers, Slider } from "./parts.js";
import { visible } from "./tokens.js";

const MOST_PADDING = 8;
const [ALLOWED, MASKED] = [Float32Array.of(1), Float32Array.of(0)];
const shade = (value) => 0.04 + 0.7 * value;

export function Masks({ inspection }) {
  const [padding, setPadding] = useState(0);
  const { source, model } = inspection;
  const pad = (tokens) => [...tokens, ...Array.from({ length: padding }, () => "PAD")];
  const keys = { source: pad(source.tokens), target: pad(decoderKeys(inspection)) };
  const real = { source: source.tokens.length, target: inspection.target.tokens.length };
  const readable = model.source_end === false ? real.source - 1 : real.source;
  const radius = model.neighbourhood == null ? Infinity : Math.floor(model.neighbourhood / 2);
  const near = (query, key) => Math.abs(query - key) <= radius;
  const masks = [
    ["Padding: encoder self-attention", keys.source, keys.source,
      (query, key) => near(query, key) && key < readable],
    ["Padding: encoder-decoder attention", keys.target, keys.source, (_, key) => key < readable],
    ["Causal", keys.target, keys.target, (query, key) => near(query, key) && key <= query],
    ["Both: decoder self-attention", keys.target, keys.target,
      (query, key) => near(query, key) && key <= query && key < real.target],
  ];
  return html`
    <p>A query attends to the filled cells of its row. The call has one sentence, and so no padding; the
      slider adds the padding that a longer sentence in the same batch would bring.${radius < Infinity
        ? ` Self-attention is restricted to a neighbourhood of ${model.neighbourhood} positions.` : ""}</p>
    <div class="tools">
      <${Slider} label="Padding tokens" least=${0} most=${MOST_PADDING} value=${padding}
        change=${setPadding} />
      <p class="key">
        <${Swatch} values=${ALLOWED} name="attends" />
        <${Swatch} values=${MASKED} name="masked" />
      </p>
    </div>
    <div class="masks">${masks.map(
      ([title, queries, columns, allowed]) => html`<${Mask} key=${title} title=${title} queries=${queries}
        keys=${columns} allowed=${allowed} />`,
    )}</div>`;
}

function Swatch({ values, name }) {
  return html`<span>
    <span class="swatch"><${Heat} values=${values} columns=${1} share=${shade} /></span>${name}
  </span>`;
}

function Mask({ title, queries, keys, allowed }) {
  const values = Float32Array.from(
    { length: queries.length * keys.length },
    (_, place) => (allowed(Math.floor(place / keys.length), place % keys.length) ? 1 : 0),
  );
  return html`<section class="panel" aria-label=${title}>
    <h3>${title}</h3>
    <${LabelledHeat} values=${values} rowNames=${queries} columnNames=${keys}
      share=${shade} rowsAre="query" columnsAre="key" digits=${0} label=${title} />
    <${Numbers} title="The mask as a table" head=${["Query", ...keys.map(visible)]}
      rows=${() => matrixRows(values, keys.length, queries, 0)} />
  </section>`;
}
