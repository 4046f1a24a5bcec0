// The masks of this call, as inspection/record/masks.py records them. A mask is 1 where attending is allowed.

import { html, useState } from "./vendor/preact.js";
import { MASKS, decoderKeys } from "./data.js";
import { Heat, LabelledHeat, matrixRows } from "./heat.js";
import { Numbers, Slider } from "./parts.js";
import { visible } from "./tokens.js";
import { WindowOf, useWindow } from "./window.js";

const [ALLOWED, MASKED] = [Float32Array.of(1), Float32Array.of(0)];
const shade = (value) => 0.04 + 0.7 * value;
const TITLES = {
  encoder: "Padding: encoder self-attention",
  cross: "Padding: encoder-decoder attention",
  causal: "Causal",
  decoder: "Both: decoder self-attention",
};

export function Masks({ inspection }) {
  const [padding, setPadding] = useState(0);
  const { source, masks, model } = inspection;
  const pad = (tokens) => [...tokens, ...Array.from({ length: padding }, () => "PAD")];
  const [sources, targets] = [pad(source.tokens), pad(decoderKeys(inspection))];
  const near = model.neighbourhood;
  return html`
    <p>Each query attends to the filled cells of its row. One sentence alone has no padding; the slider adds
      the padding that a longer sentence in the same batch would cause.${near == null
        ? "" : ` Self-attention is restricted to a neighbourhood of ${near} positions.`}</p>
    <div class="tools">
      <${Slider} label="Padding tokens" least=${0} most=${masks.padding} value=${padding}
        change=${setPadding} />
      <p class="key">
        <${Swatch} values=${ALLOWED} name="attends" />
        <${Swatch} values=${MASKED} name="masked" />
      </p>
    </div>
    <div class="masks">${MASKS.map((name) => html`<${Mask} key=${name} title=${TITLES[name]}
      mask=${masks[name]} padding=${padding} queries=${name === "encoder" ? sources : targets}
      keys=${name === "encoder" || name === "cross" ? sources : targets} />`)}</div>`;
}

function Swatch({ values, name }) {
  return html`<span>
    <span class="swatch"><${Heat} values=${values} columns=${1} share=${shade} /></span>${name}
  </span>`;
}

/** The places of the tokens in the window, then those of the padding, which follows the last token. */
function useShown(names, padding) {
  const tokens = names.length - padding;
  const [first, stop] = useWindow(tokens);
  return [...names.keys()].filter((place) => (place >= first && place < stop) || place >= tokens);
}

/** The first rows and columns of a mask: those of these queries and keys, the padding included. */
function Mask({ title, mask, queries, keys, padding }) {
  const [rows, columns] = [useShown(queries, padding), useShown(keys, padding)];
  const part = (rows, columns) =>
    Float32Array.from(rows.flatMap((row) =>
      columns.map((column) => mask.values[row * mask.shape[1] + column])));
  return html`<section class="panel" aria-label=${title}>
    <h3>${title}</h3>
    <${WindowOf} value=${null}>
      <${LabelledHeat} values=${part(rows, columns)} rowNames=${rows.map((row) => queries[row])}
        columnNames=${columns.map((column) => keys[column])}
        share=${shade} rowsAre="query" columnsAre="key" digits=${0} label=${title} />
    <//>
    <${Numbers} title="The mask as a table" head=${["Query", ...keys.map(visible)]}
      rows=${() => matrixRows(part([...queries.keys()], [...keys.keys()]), keys.length, queries, 0)} />
  </section>`;
}
