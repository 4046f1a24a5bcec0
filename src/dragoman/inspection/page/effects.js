// What each head contributes: the change of the translation's log-probability without it, in one table.

import { html, useState } from "./vendor/preact.js";
import { greatest } from "./heat.js";
import { fixed } from "./tokens.js";

const USES = [
  ["encoder", "Encoder self-attention"],
  ["decoder", "Decoder self-attention"],
  ["cross", "Encoder-decoder attention"],
];

/** The effects of all heads, and `run`, which asks for them.
 * ask: a promise of them; absent if no model can be asked. */
export function useEffects(inspection, ask) {
  const [effects, setEffects] = useState(inspection.head_effects);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState("");
  const run = async () => {
    setBusy(true);
    try {
      setEffects(await ask());
      setFailure("");
    } catch (error) {
      setFailure(error.message);
    }
    setBusy(false);
  };
  return { effects, busy, failure, run: ask && run };
}

export function Effects({ effects, busy, failure, run }) {
  return html`<section class="panel" aria-label="All heads">
    <h3>All heads</h3>
    <p class="note">The change of the translation's log-probability, in nats, if one head contributes
      nothing, by forced decoding. A negative number: without the head the translation is less
      probable.${effects ? ` With all heads it is ${fixed(effects.log_probability)}.` : ""}</p>
    ${effects ? html`<${Table} effects=${effects} />`
      : html`<p><button class="try" disabled=${busy} onClick=${run}>
          Switch each head off in turn</button></p>`}
    <p role="status">${busy ? "The model is computing …" : ""}</p>
    ${failure ? html`<p role="alert" class="failure">${failure}</p>` : null}
  </section>`;
}

function Table({ effects }) {
  const most = greatest(USES.flatMap(([use]) => effects[use].flat()));
  const heads = effects.cross[0].length;
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Change without each head">
    <table class="effects">
      ${USES.map(([use, name]) => html`<tbody key=${use}>
        <tr><th scope="rowgroup">${name}</th>${Array.from({ length: heads }, (_, head) =>
          html`<th key=${head} scope="col">Head ${head + 1}</th>`)}</tr>
        ${effects[use].map((row, layer) => html`<tr key=${layer}>
          <th scope="row">Layer ${layer + 1}</th>
          ${row.map((change, head) => html`<td key=${head} class=${change < 0 ? "loss" : "gain"}
            style=${{ "--share": Math.abs(change) / most }}>${change > 0 ? "+" : ""}${fixed(change)}</td>`)}
        </tr>`)}
      </tbody>`)}
    </table>
  </div>`;
}
