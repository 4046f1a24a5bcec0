// How sure the model is of a translation.

import { html, useState } from "./vendor/preact.js";
import { number, t } from "./i18n.js";
import { meanProbability, sureness } from "./words.js";

export function Sureness({ sentences }) {
  const [closed, setClosed] = useState(false);
  const probability = meanProbability(sentences);
  if (probability === null) return null;
  const onKey = (event) => {
    if (event.key !== "Escape" || closed) return;
    setClosed(true);
    event.stopPropagation();
  };
  const shown = number(probability, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  return html`<span class=${`sure ${closed ? "closed" : ""}`} onPointerEnter=${() => setClosed(false)}>
    <button class="quiet" aria-describedby="sure-tip" onKeyDown=${onKey} onBlur=${() => setClosed(false)}
      onClick=${() => setClosed(false)}>
      <span class="dial" aria-hidden="true" data-level=${Math.max(Math.round(5 * probability), 1)}>
        <i/><i/><i/><i/><i/></span>
      <span>${sureness(probability)}<span class="wide"> · ${shown}</span></span>
    </button>
    <span class="tip" role="tooltip" id="sure-tip">
      ${t("Mean probability per token: {probability} (geometric mean, with ends of sentences).",
        { probability: shown })}${" "}${t("It says how sure the model is, not if it is right.")}</span>
  </span>`;
}
