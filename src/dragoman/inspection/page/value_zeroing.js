// Value zeroing: how much the attention of a layer mixes each token into the others.

import { html, useState } from "./vendor/preact.js";
import { KINDS, decoderKeys, part } from "./data.js";
import { LabelledHeat, Legend, WEIGHT_MARKS, matrixRows, weightShare } from "./heat.js";
import { Choice, Numbers } from "./parts.js";
import { visible } from "./tokens.js";

export function ValueZeroing({ inspection, zeroing }) {
  const { source, target } = inspection;
  const [kind, setKind] = useState("cross");
  const layers = zeroing[kind].shape[0];
  const [chosen, setLayer] = useState(layers);
  const layer = Math.min(chosen, layers); // the encoder may have fewer layers
  const queries = kind === "encoder" ? source.tokens : target.tokens;
  const keys = kind === "decoder" ? decoderKeys(inspection) : source.tokens;
  const scores = part(zeroing[kind], layer - 1);
  const rowsAre = kind === "encoder" ? "query" : "predicts";
  const name = Object.fromEntries(KINDS)[kind];
  return html`
    <p>Each row is a query, each column a key. The number is the cosine distance between the layer's output at
      the query and this output with the values of the key set to 0, divided by the sum of the query's
      distances.</p>
    <div class="tools">
      <${Choice} label="Kind of attention" choices=${KINDS} value=${kind} choose=${setKind} />
      <label>Layer <select value=${layer} onChange=${(event) => setLayer(Number(event.currentTarget.value))}>
        ${Array.from({ length: layers }, (_, place) => html`<option key=${place} value=${place + 1}>
          ${place + 1}</option>`)}
      </select></label>
      <${Legend} name="Score" marks=${WEIGHT_MARKS} />
    </div>
    <h3>${name}, layer ${layer}</h3>
    <${LabelledHeat} key=${kind} values=${scores} rowNames=${queries} columnNames=${keys} share=${weightShare}
      rowsAre=${rowsAre} columnsAre="key" label=${`Value zeroing of ${name.toLowerCase()}, layer ${layer}`} />
    <${Numbers} title="Value zeroing as a table"
      head=${[kind === "encoder" ? "Query" : "Predicts", ...keys.map(visible)]}
      rows=${() => matrixRows(scores, keys.length, queries, 4)} />`;
}
