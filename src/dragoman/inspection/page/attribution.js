// Attribution: what each token contributes to the log-probability of each target token.

import { html, useState } from "./vendor/preact.js";
import { decoderKeys, part } from "./data.js";
import { LabelledHeat, Legend, greatest, matrixRows } from "./heat.js";
import { Choice, Numbers } from "./parts.js";
import { fixed, visible } from "./tokens.js";

const METHODS = [
  ["integrated-gradients", "Integrated gradients"],
  ["gradient-input", "Gradient × input"],
  ["saliency", "Saliency"],
  ["occlusion", "Occlusion"],
  ["sequential-integrated-gradients", "Sequential integrated gradients"],
  ["discretized-integrated-gradients", "Discretized integrated gradients"],
  ["gradient-shap", "Gradient SHAP"],
  ["deeplift", "DeepLIFT"],
  ["lime", "LIME"],
  ["reagent", "ReAGent"],
];
const ABOUT = {
  "integrated-gradients": `A row sums to the token's log-probability minus that with embeddings of 0, but for
    the error of the integral.`,
  "gradient-input": `The gradient of the token's log-probability times the embedding, summed over its
    features.`,
  saliency: `The Euclidean norm of the gradient of the token's log-probability with respect to the embedding.
    It has no sign.`,
  occlusion: "The token's log-probability minus that with an embedding of 0 in place of one token's.",
  "sequential-integrated-gradients": `Integrated gradients of each token alone: the token's log-probability
    minus that with an embedding of 0 in place of its own.`,
  "discretized-integrated-gradients": `Integrated on a path from token to token in the space of embeddings,
    in place of a straight line from embeddings of 0. The sum of a row may be far from the difference of
    log-probabilities.`,
  "gradient-shap": `A row sums to the token's log-probability minus its mean over sentences of random
    tokens, but for the error of the integrals, which can exceed 1 nat. The random tokens depend on a seed.`,
  deeplift: `DeepLIFT's rescale rule in the feed-forward sub-layers; other functions have their gradients at
    the input, so a row does not sum to the difference of log-probabilities.`,
  lime: `The weights of a linear model that predicts the token's log-probability from which tokens have an
    embedding of 0.`,
  reagent: `The shares of a row sum to 1, even if the target token does not depend on these tokens: the
    importance by random replacements. Shares near 1 / number of tokens may be chance.`,
};
const UNITS = { saliency: "Norm, nats per unit", reagent: "Share of importance" }; // without a sign

const CONTRAST = `Each row is a contrast, token ≠ other token: the log-probability of the target token minus
  that of the other token after the same tokens.`;
const ABOUT_LAYER = `The gradient of the token's log-probability with respect to the output of the layer,
  times this output, summed over its features.`;

export function Attribution({ inspection }) {
  const { source, target, attribution } = inspection;
  const [method, setMethod] = useState("integrated-gradients");
  const [layer, setLayer] = useState(0); // an encoder layer, or 0 for the embeddings
  const layers = attribution.layers.shape[0];
  const ofLayer = method === "gradient-input" && layer > 0;
  const { shape, values } = ofLayer
    ? { shape: attribution.layers.shape.slice(1), values: part(attribution.layers, layer - 1) }
    : attribution[method];
  const size = source.tokens.length;
  const prefix = shape[1] > size ? decoderKeys(inspection) : [];
  const most = greatest(values);
  const signed = !(method in UNITS);
  const share = signed ? (value) => (value / most + 1) / 2 : (value) => value / most;
  const marks = signed ? [[0, `−${fixed(most, 2)}`], [0.5, "0"], [1, fixed(most, 2)]]
    : [[0, "0"], [1, fixed(most, 2)]];
  const shown = { share, scale: signed ? "signed" : "weight", rowNames: target.tokens, rowsAre: "target" };
  const { other } = attribution;
  const about = ofLayer ? ABOUT_LAYER : ABOUT[method];
  if (other.length) shown.rowNames = target.tokens.map((token, row) => `${token}≠${other[row]}`);
  const sourceValues = columnsOf(values, shape, 0, size);
  return html`
    <p>Each row is a token of the translation; each column is a token that the model reads. The number is
      ${signed ? " what the column contributes to the row" : " how much the row depends on the column"}.</p>
    <${Choice} label="Method" value=${method} choose=${setMethod}
      choices=${METHODS.filter(([name]) => name in attribution)} />
    <p class="note">${other.length ? `${CONTRAST} ${ofContrast(about)}` : about}</p>
    ${method === "gradient-input" && layers ? html`<div class="tools"><label>Input <select value=${layer}
      onChange=${(event) => setLayer(Number(event.currentTarget.value))}>
      <option value="0">embeddings</option>
      ${Array.from({ length: layers }, (_, place) => html`<option key=${place} value=${place + 1}>
        output of encoder layer ${place + 1}</option>`)}
    </select></label></div>` : null}
    <div class="tools"><${Legend} scale=${shown.scale} marks=${marks}
      name=${UNITS[method] ?? "Contribution, nats"} /></div>
    <h3>Source tokens</h3>
    <${LabelledHeat} key=${[method, layer].join()} ...${shown} values=${sourceValues}
      columnNames=${source.tokens} columnsAre="source" label="Contributions of source tokens" />
    <${Numbers} title="Contributions of source tokens as a table"
      head=${["Target", ...source.tokens.map(visible)]}
      rows=${() => matrixRows(sourceValues, size, shown.rowNames, 4)} />
    ${prefix.length ? html`<${Prefix} key=${`prefix-${method}`} shown=${shown} prefix=${prefix}
      values=${columnsOf(values, shape, size, shape[1])} />` : null}`;
}

function Prefix({ shown, prefix, values }) {
  return html`
    <h3>Earlier target tokens</h3>
    <${LabelledHeat} ...${shown} values=${values} columnNames=${prefix} columnsAre="earlier target token"
      label="Contributions of target tokens" />
    <${Numbers} title="Contributions of target tokens as a table" head=${["Target", ...prefix.map(visible)]}
      rows=${() => matrixRows(values, prefix.length, shown.rowNames, 4)} />`;
}

/** A text about the token's log-probability as one about a contrast. */
function ofContrast(text) {
  return text.replace(/(t|T)he\s+token's\s+log-probability/g, "$1his difference");
}

/** The columns of a matrix from a first one to the one before another, by rows. */
function columnsOf(values, [rows, columns], first, stop) {
  const part = new Float32Array(rows * (stop - first));
  for (let row = 0; row < rows; row++) {
    part.set(values.subarray(row * columns + first, row * columns + stop), row * (stop - first));
  }
  return part;
}
