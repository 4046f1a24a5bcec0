// From words to embeddings: tokens and their numbers, and their nearest tokens in the matrices of embeddings.

import { html } from "./vendor/preact.js";
import { Numbers } from "./parts.js";
import { Token, fixed, visible } from "./tokens.js";

export function Embeddings({ inspection }) {
  return html`
    <p>The model reads and writes tokens. Each has a number, which is the row of its embedding.</p>
    ${["source", "target"].map((name) => html`<${Tokenisation} key=${name} side=${inspection[name]}
      title=${name === "source" ? "Tokens of the sentence" : "Tokens of the translation"} />`)}
    <p>For each token, these are the tokens whose embeddings have the greatest cosine with its own, nearest
      first. A cosine of 1 is the same direction. The token itself is left out.</p>
    ${inspection.neighbours.map(
      ({ parts, tokens }) => html`<${Matrix} key=${parts[0]} parts=${parts} tokens=${tokens} />`,
    )}`;
}

/** A column for each token: its word above the first of its tokens, the token, and its number. */
function Tokenisation({ title, side: { tokens, ids, words, names } }) {
  const counts = names.map((_, word) => words.filter((each) => each === word).length);
  return html`<section class="panel" aria-label=${title}>
    <h3>${title}</h3>
    <div class="scroll" tabindex="0" role="group" aria-label=${title}><table class="tokenisation"><tbody>
      <tr><th scope="row">word</th>${names.map((name, word) => counts[word]
        ? html`<td key=${word} colspan=${counts[word]}>${visible(name)}</td>` : null)}</tr>
      <tr><th scope="row">token</th>${tokens.map((token, place) => html`<td key=${place}>
        <${Token} token=${token} /></td>`)}</tr>
      <tr><th scope="row">number</th>${ids.map((id, place) => html`<td key=${place}>${id}</td>`)}</tr>
    </tbody></table></div>
  </section>`;
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
          <span class="note">${fixed(cosine, cosine < 0.995 ? 2 : 4)}</span></td>`)}
      </tr>`)}</tbody></table>
    </div>
    <${Numbers} title="Cosines as a table" head=${["Token", "Neighbour", "Cosine"]}
      rows=${() => tokens.flatMap(([token, near]) =>
        near.map(([other, cosine]) => [visible(token), visible(other), fixed(cosine, 4)]))} />
  </section>`;
}
