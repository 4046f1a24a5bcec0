// The nearest tokens of the sentence's tokens in the matrices of embeddings.

import { html } from "./vendor/preact.js";
import { Numbers } from "./parts.js";
import { Token, fixed, visible } from "./tokens.js";

export function Embeddings({ inspection }) {
  return html`
    <p>For each token, these are the tokens whose embeddings have the greatest cosine with its own, nearest
      first. A cosine of 1 is the same direction. The token itself is left out.</p>
    ${inspection.neighbours.map(
      ({ parts, tokens }) => html`<${Matrix} key=${parts[0]} parts=${parts} tokens=${tokens} />`,
    )}`;
}

function Matrix({ parts, tokens }) {
  const names = parts.join(", ");
  const title = names[0].toUpperCase() + names.slice(1);
  return html`<section class="panel" aria-label=${title}>
    <h3>${title}</h3>
    ${parts.length > 1 ? html`<p class="note">These parts of the model share one matrix: they are tied.</p>`
      : null}
    <div class="scroll" tabindex="0" role="group" aria-label=${`Nearest tokens: ${names}`}>
      <table class="nearest"><tbody>${tokens.map(([token, near], row) => html`<tr key=${row}>
        <th scope="row"><${Token} token=${token} /></th>
        ${near.map(([other, cosine], place) => html`<td key=${place}><${Token} token=${other} />
          <span class="note">${fixed(cosine, 2)}</span></td>`)}
      </tr>`)}</tbody></table>
    </div>
    <${Numbers} title="Cosines as a table" head=${["Token", "Neighbour", "Cosine"]}
      rows=${() => tokens.flatMap(([token, near]) =>
        near.map(([other, cosine]) => [visible(token), visible(other), fixed(cosine, 4)]))} />
  </section>`;
}
