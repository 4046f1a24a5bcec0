// The residual stream: its norms, what each sub-layer adds, and the logit lens.

import { html, useState } from "./vendor/preact.js";
import { LabelledHeat, Legend, greatest, matrixRows } from "./heat.js";
import { Bars, Choice, Facts, Grid, Numbers } from "./parts.js";
import { Token, fixed, percent, probability, visible } from "./tokens.js";
import { useWindow } from "./window.js";

const SIDES = [["encoder", "Encoder"], ["decoder", "Decoder"]];

export function Stream({ inspection }) {
  const [side, setSide] = useState("decoder");
  const drawn = useWindow(inspection.target.tokens.length);
  return html`
    <${Choice} label="Side" choices=${SIDES} value=${side} choose=${setSide} />
    <${Norms} key=${side} inspection=${inspection} side=${side} />
    ${side === "decoder" && inspection.lens.length > 0
      ? html`<${Lens} key=${drawn.join()} inspection=${inspection} drawn=${drawn} />`
      : null}`;
}

function Norms({ inspection, side }) {
  const { stream, sublayers, source, target } = inspection;
  const norms = stream[side];
  const [rows, columns] = norms.shape;
  const tokens = side === "encoder" ? source.tokens : target.tokens;
  const layers = inspection.model[`${side}_layers`];
  const first = layers - rows + 2; // 1, but for an encoder of which the last layer alone is known
  const names = ["embedding", ...Array.from({ length: rows - 1 }, (_, row) => String(first + row))];
  const most = greatest(norms.values);
  return html`
    <h3>Norm by layer and position</h3>
    <p>The Euclidean norm of the vector after the embedding and after each layer, 1 to ${layers}.
      ${rows - 1 < layers ? " PyTorch returns only the states of the last encoder layer." : ""}
      ${side === "decoder" ? " Each column is the position that predicts the token." : ""}</p>
    <div class="tools"><${Legend} name="Norm"
      marks=${[[0, "0"], [0.5, fixed(most / 2, 1)], [1, fixed(most, 1)]]} /></div>
    <${LabelledHeat} values=${norms.values} rowNames=${names} columnNames=${tokens} digits=${2}
      share=${(value) => value / most} rowsAre="layer" columnsAre=${side === "encoder" ? "token" : "predicts"}
      label=${`Norms of the ${side}'s residual stream`} />
    <${Numbers} title="Norms as a table" head=${["Layer", ...tokens.map(visible)]}
      rows=${() => matrixRows(norms.values, columns, names, 2)} />
    ${sublayers[side].shares.length > 0
      ? html`<${Shares} ...${sublayers[side]} isPost=${inspection.model.norm === "post"} />` : null}`;
}

/** names: of the sub-layers. norms, shares: means over positions of a layer's input and of what they add. */
function Shares({ names: sublayers, norms, shares, isPost }) {
  const names = ["the layer's input", ...sublayers];
  const table = (rows, digits) => rows.map((row, layer) => [
    layer + 1, ...row.map((each) => fixed(each, digits)),
  ]);
  return html`<section class="panel" aria-label="Share of each sub-layer">
    <h3>Share of each sub-layer</h3>
    <p class="note">The norm of a layer's input and of what its sub-layers add, as shares of their sum; means
      over the positions.${isPost ? ` This model normalises the sum after each sub-layer (post-norm). Norms
      after a layer are those of normalised vectors, and a share is not that of the sum to which the sub-layer
      adds: it does not compare sub-layers.` : ""}</p>
    <p class="key">${names.map(
      (name, index) => html`<span key=${name}><i class=${`share-${index}`}></i>${name}</span>`,
    )}</p>
    <table class="shares"><tbody>${shares.map((row, layer) => html`<tr key=${layer}>
      <th scope="row">Layer ${layer + 1}</th><td><div class="stack">
        ${row.map((share, index) => html`<span key=${index} class=${`share-${index}`}
          style=${{ flexBasis: `${100 * share}%` }} title=${`${names[index]}: ${percent(share)}`}>
          ${share > 0.1 ? percent(share) : ""}</span>`)}
      </div></td></tr>`)}</tbody></table>
    <${Numbers} title="Mean norms as a table" head=${["Layer", ...names]} rows=${() => table(norms, 2)} />
    <${Numbers} title="Shares as a table" head=${["Layer", ...names]} rows=${() => table(shares, 3)} />
  </section>`;
}

/** How many tokens were decided after each layer, and how many the last layer does not predict. */
function decisionsBy(decisions, layers) {
  const count = (layer) => String(decisions.filter((each) => each === layer).length);
  const facts = Array.from({ length: layers }, (_, index) =>
    [`Decided after layer ${index + 1}`, count(index + 1)]);
  if (decisions.includes(null)) facts.push(["Not the likeliest after the last layer", count(null)]);
  return facts;
}

/** drawn: the first target token that the grid has, and the one after the last. */
function Lens({ inspection, drawn: [start, stop] }) {
  const { lens, decisions, target: { tokens } } = inspection;
  const columns = stop - start;
  const [chosen, setChosen] = useState((lens.length - 1) * columns);
  const placeOf = (cell) => [Math.floor(cell / columns), start + (cell % columns)];
  const [layer, position] = placeOf(chosen);
  const cell = (place) => {
    const [row, column] = placeOf(place);
    const predicted = tokens[column];
    const [token, logProbability] = lens[row][column][0];
    const share = probability(logProbability);
    const agrees = token === predicted;
    const decided = decisions[column] === row + 1;
    return {
      name: `${visible(token)}, ${percent(share)}${agrees ? ", the token of the translation" : ""}${
        decided ? ", where the decision fell" : ""}`,
      content: html`<span class=${`${agrees ? "agrees" : ""} ${decided ? "decided" : ""}`}>
          <${Token} token=${token} /></span>
        <span class="under"><span style=${{ width: `${100 * share}%` }}></span></span>`,
    };
  };
  return html`<section class="panel" aria-label="Logit lens">
    <h3>Logit lens</h3>
    <p class="note">The likeliest token if the decoder ended after this layer; the bar is its probability.
      Bold tokens are those of the translation. A thick frame is where the decision fell: from this layer on,
      every layer predicts the token of the translation.</p>
    <${Facts} facts=${decisionsBy(decisions, lens.length)} />
    <div class="scroll"><${Grid} label="Logit lens" kind="lens" rows=${lens.length} columns=${columns}
      rowNames=${lens.map((_, index) => `Layer ${index + 1}`)} chosen=${chosen} choose=${setChosen}
      columnNames=${tokens.slice(start, stop).map((token) => html`<${Token} token=${token} />`)}
      cell=${cell} /></div>
    <${Bars} tokens=${lens[layer][position]}
      caption=${html`After layer ${layer + 1}, where the translation has <${Token}
        token=${tokens[position]} />`} />
    <${Numbers} title="Logit lens as a table"
      head=${["Layer", "Token of the translation", "Decided after layer", "Likeliest tokens"]}
      rows=${() => lens.flatMap((row, index) => row.map((likeliest, place) => [
        index + 1,
        visible(tokens[place]),
        decisions[place] ?? "",
        likeliest.map(([token, value]) => `${visible(token)} ${percent(probability(value))}`).join(", "),
      ]))} />
  </section>`;
}
