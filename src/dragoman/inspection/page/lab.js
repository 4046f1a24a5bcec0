// Experiments of the lab (dragoman lab) that try what a view shows.

import { html } from "./vendor/preact.js";

const EXPERIMENTS = {
  beam: ["wider-beam", "length-penalties"],
  attention: ["dot-product-variance", "heads-that-matter", "attention-as-explanation"],
  attribution: ["attention-as-explanation"],
  "value-zeroing": ["attention-as-explanation"],
  steps: ["training-equals-decoding", "exposure"],
  embeddings: ["neighbours-of-embeddings", "tied-embeddings"],
  positions: ["positions-are-linear", "position-dot-products", "lengths-beyond-training"],
  stream: ["residuals-off", "norm-placement", "gradient-by-layer"],
  neurons: ["feed-forward-is-convolution"],
  masks: ["who-sees-whom", "all-masked-rows", "encoder-padding"],
  model: ["shapes-of-every-step", "parameters-by-hand"],
  training: ["warmup-schedule", "label-smoothing-in-training"],
  "what-if": ["heads-that-matter", "attention-as-explanation"],
};

/** The commands that run the experiments about a view. */
export function Experiments({ view }) {
  return html`<p class="note lab">Experiments about this:${EXPERIMENTS[view].map((name, place) => html`
    <span key=${name}>${place ? ", " : " "}<code>dragoman lab ${name}</code></span>`)}</p>`;
}
