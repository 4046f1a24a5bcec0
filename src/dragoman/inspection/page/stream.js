// The residual stream: its norms, what each sub-layer adds, and the logit lens.

import { html, useMemo, useState } from "./vendor/preact.js";
import { part } from "./data.js";
import { LabelledHeat, Legend, matrixRows } from "./heat.js";
import { Bars, Choice, Grid, Numbers } from "./parts.js";
import { Token, fixed, percent, probability, visible } from "./tokens.js";

const SIDES = [["encoder", "Encoder"], ["decoder", "Decoder"]];
const SUBLAYERS = {
  encoder: ["self-attention", "feed-forward"],
  decoder: ["self-attention", "encoder-decoder attention", "feed-forward"],
};
const CONVOLUTIONAL = {
  encoder: ["convolution"],
  decoder: ["convolution", "encoder-decoder attention"],
};

export function Stream({ inspection }) {
  const [side, setSide] = useState("decoder");
  return html`
    <${Choice} label="Side" choices=${SIDES} value=${side} choose=${setSide} />
    <${Norms} key=${side} inspection=${inspection} side=${side} />
    ${side === "decoder" && inspection.lens.length > 0
      ? html`<${Lens} inspection=${inspection} />`
      : null}`;
}

function Norms({ inspection, side }) {
  const { stream, source, target } = inspection;
  const norms = stream[side];
  const [rows, columns] = norms.shape;
  const tokens = side === "encoder" ? source.tokens : target.tokens;
  const layers = inspection.model[`${side}_layers`];
  const first = layers - rows + 2; // 1, but for an encoder of which the last layer alone is known
  const names = ["embedding", ...Array.from({ length: rows - 1 }, (_, row) => String(first + row))];
  const most = norms.values.reduce((all, value) => Math.max(all, value), 1e-6);
  return html`
    <h3>Norm by layer and position</h3>
    <p>The Euclidean norm of the vector after the embedding and after each layer, 1 to ${layers}.
      ${rows - 1 < layers ? " PyTorch gives the states of the last encoder layer alone." : ""}
      ${side === "decoder" ? " A column is the position that predicts the token." : ""}</p>
    <div class="tools"><${Legend} name="Norm"
      marks=${[[0, "0"], [0.5, fixed(most / 2, 1)], [1, fixed(most, 1)]]} /></div>
    <${LabelledHeat} values=${norms.values} rowNames=${names} columnNames=${tokens} digits=${2}
      share=${(value) => value / most} rowsAre="layer" columnsAre=${side === "encoder" ? "token" : "predicts"}
      label=${`Norms of the ${side}'s residual stream`} />
    <${Numbers} title="Norms as a table" head=${["Layer", ...tokens.map(visible)]}
      rows=${() => matrixRows(norms.values, columns, names, 2)} />
    ${stream[`${side}_sublayers`].shape[0] > 0
      ? html`<${Shares} stream=${stream} side=${side}
          sublayers=${(inspection.model.architecture === "conv" ? CONVOLUTIONAL : SUBLAYERS)[side]} />`
      : null}`;
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Of each layer: the mean norms of its input and of what each sub-layer adds. */
function additions(stream, side, sublayers) {
  const parts = stream[`${side}_sublayers`];
  return Array.from({ length: parts.shape[0] }, (_, layer) => [
    mean(part(stream[side], layer)),
    ...sublayers.map((__, index) => mean(part(parts, layer, index))),
  ]);
}

function Shares({ stream, side, sublayers }) {
  const layers = useMemo(() => additions(stream, side, sublayers), [side]);
  const names = ["the layer's input", ...sublayers];
  return html`<section class="panel" aria-label="Share of each sub-layer">
    <h3>Share of each sub-layer</h3>
    <p class="note">The norm of a layer's input and of what its sub-layers add, as shares of their sum; means
      over the positions.</p>
    <p class="key">${names.map(
      (name, index) => html`<span key=${name}><i class=${`share-${index}`}></i>${name}</span>`,
    )}</p>
    <table class="shares"><tbody>${layers.map((norms, layer) => {
      const sum = norms.reduce((total, norm) => total + norm, 0) || 1;
      return html`<tr key=${layer}><th scope="row">Layer ${layer + 1}</th><td><div class="stack">
        ${norms.map((norm, index) => html`<span key=${index} class=${`share-${index}`}
          style=${{ flexBasis: `${(100 * norm) / sum}%` }} title=${`${names[index]}: ${fixed(norm, 2)}`}>
          ${norm / sum > 0.1 ? percent(norm / sum) : ""}</span>`)}
      </div></td></tr>`;
    })}</tbody></table>
    <${Numbers} title="Mean norms as a table" head=${["Layer", ...names]}
      rows=${() => layers.map((norms, layer) => [layer + 1, ...norms.map((norm) => fixed(norm, 2))])} />
  </section>`;
}

function Lens({ inspection }) {
  const { lens, target } = inspection;
  const tokens = target.tokens;
  const [chosen, setChosen] = useState((lens.length - 1) * tokens.length);
  const [layer, position] = [Math.floor(chosen / tokens.length), chosen % tokens.length];
  const cell = (place) => {
    const predicted = tokens[place % tokens.length];
    const [token, logProbability] = lens[Math.floor(place / tokens.length)][place % tokens.length][0];
    const share = probability(logProbability);
    const agrees = token === predicted;
    return {
      name: `${visible(token)}, ${percent(share)}${agrees ? ", the token of the translation" : ""}`,
      content: html`<span class=${agrees ? "agrees" : ""}><${Token} token=${token} /></span>
        <span class="under"><span style=${{ width: `${100 * share}%` }}></span></span>`,
    };
  };
  return html`<section class="panel" aria-label="Logit lens">
    <h3>Logit lens</h3>
    <p class="note">The likeliest token if the decoder ended after this layer; the bar is its probability.
      Bold tokens are those of the translation.</p>
    <div class="scroll"><${Grid} label="Logit lens" kind="lens" rows=${lens.length} columns=${tokens.length}
      rowNames=${lens.map((_, index) => `Layer ${index + 1}`)} chosen=${chosen} choose=${setChosen}
      columnNames=${tokens.map((token) => html`<${Token} token=${token} />`)} cell=${cell} /></div>
    <${Bars} tokens=${lens[layer][position]}
      caption=${html`After layer ${layer + 1}, in place of <${Token} token=${tokens[position]} />`} />
    <${Numbers} title="Logit lens as a table"
      head=${["Layer", "Token of the translation", "Likeliest tokens"]}
      rows=${() => lens.flatMap((row, index) => row.map((likeliest, place) => [
        index + 1,
        visible(tokens[place]),
        likeliest.map(([token, value]) => `${visible(token)} ${percent(probability(value))}`).join(", "),
      ]))} />
  </section>`;
}
