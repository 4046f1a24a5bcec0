// The report: its head, and its views as tabs.

import { html, render, useRef, useState } from "./vendor/preact.js";
import { Attention } from "./attention.js";
import { Beam } from "./beam.js";
import { Masks } from "./masks.js";
import { Model } from "./model.js";
import { Positions } from "./positions.js";
import { Stream } from "./stream.js";
import { Facts } from "./parts.js";
import { count, fixed } from "./tokens.js";

const VIEWS = [
  ["beam", "Beam", Beam],
  ["attention", "Attention", Attention],
  ["positions", "Positions", Positions],
  ["stream", "Residual stream", Stream],
  ["masks", "Masks", Masks],
  ["model", "Model", Model],
];

function Report({ inspection, children }) {
  const [view, setView] = useState("beam");
  const tabs = useRef();
  const place = VIEWS.findIndex(([name]) => name === view);
  const [, title, View] = VIEWS[place];
  const onKeyDown = (event) => {
    const last = VIEWS.length - 1;
    const next = {
      ArrowRight: place === last ? 0 : place + 1,
      ArrowLeft: place === 0 ? last : place - 1,
      Home: 0,
      End: last,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    setView(VIEWS[next][0]);
    tabs.current.children[next].focus();
  };
  return html`
    <${Head} inspection=${inspection} />
    <main>
      <div class="tabs" role="tablist" aria-label="Views" ref=${tabs} onKeyDown=${onKeyDown}>
        ${VIEWS.map(([name, text]) => html`<button key=${name} role="tab" id=${`tab-${name}`}
          aria-selected=${name === view} aria-controls=${name === view ? "view" : null}
          tabindex=${name === view ? 0 : -1} onClick=${() => setView(name)}>${text}</button>`)}
      </div>
      <div id="view" role="tabpanel" aria-labelledby=${`tab-${view}`} key=${view}>
        <h2 class="hidden">${title}</h2>
        <${View} inspection=${inspection} />
      </div>
    </main>
    <footer>${children}</footer>`;
}

/** A text that may be too long for its place, which scrolls, is a stop of the tab key. */
function stopOf(text) {
  return text.length > 150 ? 0 : null;
}

function Head({ inspection }) {
  const { sentence, translation, search, source, target } = inspection;
  return html`<header>
    <h1>Inspection of a translation</h1>
    <div class="pair">
      <p dir="auto" tabindex=${stopOf(sentence)}>${sentence}</p>
      <p dir="auto" class="translation" tabindex=${stopOf(translation)}>${translation}</p>
    </div>
    <${Facts} facts=${[
      ["Log-probability", fixed(inspection.log_probability)],
      ["Score", fixed(inspection.score)],
      ["Beam size", count(search.beam_size)],
      ["Source tokens", count(source.tokens.length)],
      ["Target tokens", count(target.tokens.length)],
    ]} />
  </header>`;
}

/** Show an inspection, with its arrays as `decoded` gives them, and a note below it. */
export function show(inspection, note) {
  const page = document.getElementById("page");
  page.textContent = "";
  render(html`<${Report} inspection=${inspection}>${note}</${Report}>`, page);
}
