// What each head contributes: the change of the translation's log-probability without it, in one table.

import { html } from "./vendor/preact.js";
import { Ask } from "./asked.js";
import { KINDS } from "./data.js";
import { greatest } from "./heat.js";
import { fixed } from "./tokens.js";

/** The effects of all heads, or a button that asks for them. */
export function Effects({ found: effects, ...others }) {
  return html`<section class="panel" aria-label="All heads">
    <h3>All heads</h3>
    <p class="note">The change of the translation's log-probability, in nats, if one head contributes
      nothing, by forced decoding. A negative number: without the head the translation is less
      probable.${effects ? ` With all heads it is ${fixed(effects.log_probability)}.` : ""}</p>
    ${effects ? html`<${Table} effects=${effects} />`
      : html`<${Ask} name="Switch each head off in turn" ...${others} />`}
  </section>`;
}

function Table({ effects }) {
  const most = greatest(KINDS.flatMap(([use]) => effects[use].flat()));
  const heads = effects.cross[0].length;
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Change without each head">
    <table class="effects">
      ${KINDS.map(([use, name]) => html`<tbody key=${use}>
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
