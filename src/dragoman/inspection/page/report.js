// The report: its head, and its views as tabs.

import { html, render, useRef, useState } from "./vendor/preact.js";
import { Attention } from "./attention.js";
import { AskedAttribution, AskedZeroing, useAsked } from "./asked.js";
import { Beam } from "./beam.js";
import { Embeddings } from "./embeddings.js";
import { HeatView } from "./heat_view.js";
import { Experiments } from "./lab.js";
import { Model } from "./model.js";
import { Neurons } from "./neurons.js";
import { Positions } from "./positions.js";
import { Steps } from "./steps.js";
import { Stream } from "./stream.js";
import { Training } from "./training.js";
import { WhatIf, useBench } from "./what_if.js";
import { Facts } from "./parts.js";
import { count, fixed } from "./tokens.js";
import { WindowForm, WindowOf } from "./window.js";

const VIEWS = [
  ["beam", "Beam", Beam],
  ["attention", "Attention", Attention],
  ["attribution", "Attribution", AskedAttribution], // if it was asked for, or can be
  ["value-zeroing", "Value zeroing", AskedZeroing], // likewise
  ["steps", "Decoding steps", Steps],
  ["embeddings", "Embeddings", Embeddings],
  ["positions", "Positions", Positions],
  ["stream", "Residual stream", Stream],
  ["neurons", "Neurons", Neurons],
  ["masks", "Masks", HeatView],
  ["model", "Model", Model],
  ["training", "Training", Training], // of a run that has its log
  ["what-if", "What if", WhatIf],
];
const WINDOWED = [
  "beam", "attention", "attribution", "value-zeroing", "positions", "stream", "neurons", "masks", "what-if",
];
// The views of an LSTM or GRU; a ConvS2S and an enriched model also have positions, the latter also neurons.
const RECURRENT = [
  "beam", "attention", "attribution", "embeddings", "stream", "model", "training", "what-if",
];

function viewsOf({ model, training, neurons }, { attribution, zeroing, cases }) {
  const isThere = {
    training: Boolean(training), "what-if": Boolean(cases), positions: model.positions !== "none",
    neurons: Boolean(neurons),
    attribution: Boolean(attribution.found || attribution.run),
    "value-zeroing": Boolean(zeroing.found || zeroing.run),
  };
  const known = VIEWS.filter(([name]) => isThere[name] ?? true);
  if (model.architecture === "transformer") return known;
  if (!["lstm", "gru"].includes(model.architecture)) {
    return known.filter(([name]) => [...RECURRENT, "positions", "neurons"].includes(name));
  }
  return known.filter(([name]) => RECURRENT.includes(name)).map(
    ([name, title, View]) => [name, name === "stream" ? "States" : title, View],
  );
}

function Report({ inspection, ask, top, children }) {
  const [chosen, setChosen] = useState(top?.view);
  const [window, setWindow] = useState(null);
  const tabs = useRef();
  const bench = useBench(inspection, ask);
  const askTransformer = inspection.model.architecture === "transformer" ? ask : null;
  const effects = useAsked(inspection, "head_effects", askTransformer, { heads: true });
  const attribution = useAsked(inspection, "attribution", ask, { attribution: true });
  const zeroing = useAsked(inspection, "value_zeroing", askTransformer, { value_zeroing: true });
  const cases = ask || bench.cases.length || effects.found;
  const views = viewsOf(inspection, { attribution, zeroing, cases });
  const view = views.some(([name]) => name === chosen) ? chosen : "beam";
  const choose = (name) => {
    setChosen(name);
    top?.keep(name);
  };
  const longest = Math.max(inspection.source.tokens.length, inspection.target.tokens.length);
  const place = views.findIndex(([name]) => name === view);
  const [, title, View] = views[place];
  const tryOut = ask && ((changes) => {
    choose("what-if");
    bench.run(changes);
  });
  const onKeyDown = (event) => {
    const last = views.length - 1;
    const next = {
      ArrowRight: place === last ? 0 : place + 1,
      ArrowLeft: place === 0 ? last : place - 1,
      Home: 0,
      End: last,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    choose(views[next][0]);
    tabs.current.children[next].focus();
  };
  return html`
    <main><${Head} inspection=${inspection} />
      <div class="sheet">
      <div class="tabs" role="tablist" aria-label="Views" ref=${tabs} onKeyDown=${onKeyDown}>
        ${views.map(([name, text]) => html`<button key=${name} role="tab" id=${`tab-${name}`}
          aria-selected=${name === view} aria-controls=${name === view ? "view" : null}
          tabindex=${name === view ? 0 : -1} onClick=${() => choose(name)}>${text}</button>`)}
      </div>
      <div id="view" role="tabpanel" aria-labelledby=${`tab-${view}`} key=${view}>
        <h2 class="hidden">${title}</h2>
        ${WINDOWED.includes(view)
          ? html`<${WindowForm} count=${longest} value=${window} change=${setWindow} />` : null}
        <${WindowOf} value=${window}><${View} name=${view} inspection=${inspection} bench=${bench}
          effects=${effects} attribution=${attribution} zeroing=${zeroing} tryOut=${tryOut} /><//>
        <${Experiments} view=${view} architecture=${inspection.model.architecture} results=${ask && "lab/"} />
      </div>
      </div>
    </main>
    <footer>In tokens, ▁ marks the beginning of a word. ${children}</footer>`;
}

/** A text that may be too long for its place, which scrolls, is a stop of the tab key. */
function stopOf(text) {
  return text.length > 150 ? 0 : null;
}

function Head({ inspection }) {
  const { sentence, translation, search, source, target, origin } = inspection;
  return html`<header>
    <h1>Inspection of a translation</h1>
    <div class="pair">
      <p dir="auto" tabindex=${stopOf(sentence)}>${sentence}</p>
      <p dir="auto" class="translation" tabindex=${stopOf(translation)}>${translation}</p>
    </div>
    <${Facts} facts=${[
      ["Log-probability, nats", fixed(inspection.log_probability)],
      ["Score", fixed(inspection.score)],
      search.temperature ? ["Samples", count(search.n_best)] : ["Beam size", count(search.beam_size)],
      ["Source tokens", count(source.tokens.length)],
      ["Target tokens", count(target.tokens.length)],
    ]} />
    ${origin ? html`<p class="note origin">${modelText(inspection)}
      ${" "}<time datetime=${origin.date}>${origin.date.slice(0, 16).replace("T", " ")} UTC</time>,
      Dragoman ${origin.version}.</p>` : null}
  </header>`;
}

/** The name, the languages and the sizes of the model. */
function modelText({ origin, model, parameters }) {
  const pair = [origin.source, origin.target].map(languageName).join(" to ");
  const hasHeads = !["lstm", "gru", "conv"].includes(model.architecture);
  return `Model ${origin.model || "in memory"}, ${pair}: ${model.architecture}, ${[
    `${model.encoder_layers} encoder and ${model.decoder_layers} decoder layers`,
    `d_model ${model.d_model}`,
    ...(hasHeads ? [`${model.heads} heads`] : []),
    `${count(parameters)} parameters`,
  ].join(", ")}.`;
}

function languageName(code) {
  if (code === "und") return "an unknown language";
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code; // it is no tag of BCP 47
  }
}

/** Show an inspection, with its arrays as `decoded` gives them, and a note below.
 * ask: of options, a promise of the inspection with them; absent where no model can be asked.
 * top: of links.js; absent without a server. */
export function show(inspection, note, ask, top) {
  const page = document.getElementById("page");
  page.textContent = "";
  render(html`${top?.form}<${Report} inspection=${inspection} ask=${ask} top=${top}>${note}<//>`, page);
}
