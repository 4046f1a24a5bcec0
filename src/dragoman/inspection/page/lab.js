// Experiments of the lab (dragoman lab) that try what a view shows.

import { html } from "./vendor/preact.js";
import { CLAIMS } from "./claims.js";

const EXPERIMENTS = {
  beam: ["wider-beam", "length-penalties"],
  attention: ["dot-product-variance", "heads-that-matter", "attention-as-explanation"],
  attribution: ["attention-as-explanation"],
  "value-zeroing": ["attention-as-explanation"],
  steps: ["training-equals-decoding"],
  embeddings: ["neighbours-of-embeddings", "tied-embeddings"],
  positions: ["positions-are-linear", "position-dot-products", "lengths-beyond-training"],
  stream: ["residuals-off", "norm-placement", "gradient-by-layer"],
  neurons: ["feed-forward-is-convolution"],
  masks: ["who-sees-whom", "all-masked-rows", "encoder-padding"],
  model: ["shapes-of-every-step", "parameters-by-hand"],
  training: ["warmup-schedule", "label-smoothing-in-training"],
  "what-if": ["heads-that-matter", "attention-as-explanation"],
};

// Those that fit a model without self-attention, where they differ.
const OTHERS = { attention: ["attention-as-explanation"], stream: [] };

/** The claims of the experiments about a view, their verdicts, and the commands that run them.
 * results: the address of the recorded results; absent where no server has them. */
export function Experiments({ view, architecture, results }) {
  const names = (architecture === "transformer" ? null : OTHERS[view]) ?? EXPERIMENTS[view];
  if (!names.length) return null;
  return html`<section class="note lab">
    <h3>Experiments about this</h3>
    <ul>${names.map((name) => html`<li key=${name}>
      ${results ? html`<a href=${results + name}>${CLAIMS[name].title}</a>` : CLAIMS[name].title}.
      Claim: “${CLAIMS[name].claim}” Verdict: <b>${CLAIMS[name].verdict}</b>.${" "}
      <code>dragoman lab ${name}</code></li>`)}</ul>
  </section>`;
}
