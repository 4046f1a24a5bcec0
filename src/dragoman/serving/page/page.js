// The layout, keys, dropped files and theme.

import { html, render, useEffect, useReducer, useRef, useState } from "./vendor/preact.js";
import { DocumentList } from "./documentlist.js";
import { Documents } from "./documents.js";
import { recall, store } from "./history.js";
import { icon, tulip } from "./icons.js";
import { History, Others, closeHistory, closeOthers } from "./panels.js";
import { Session } from "./session.js";
import { SourcePane } from "./source.js";
import { TargetPane } from "./target.js";
import { TermsPanel, closeTerms } from "./termspanel.js";

const THEME = "dragoman.theme"; // absent where the system decides
const darkness = matchMedia("(prefers-color-scheme: dark)");

let redraw = () => {};
const session = new Session(() => documents.follow());
const documents = new Documents(session, () => redraw());

function App() {
  const [, count] = useReducer((number) => number + 1, 0);
  const { historyOpen } = session;
  const [dropping, setDropping] = useState(false);
  redraw = count;
  useEffect(() => {
    session.load();
    const onPointerDown = (event) => {
      if (event.target.closest(".menu")) return;
      session.closeMenu();
      documents.closeMenu();
    };
    const online = () => {
      session.reconnect();
      documents.reconnect();
    };
    const listeners = { online, pointerdown: onPointerDown, keydown: onKey };
    listen({ ...listeners, ...dropListeners(setDropping) });
  }, []);
  return html`
    <header class="top">
      <h1>${tulip()}<span>Dragoman</span></h1>
      <button class="quiet" id="history" aria-expanded=${historyOpen}
        onClick=${() => session.showHistory(!historyOpen)}>
        ${icon("clock")}<span>History</span></button>
      <${ThemeSwitch} />
    </header>
    <main>
      ${session.needsKey ? html`<${KeyForm} />` : null}
      <div class=${`sheet ${dropping ? "dropping" : ""}`}>
        <${Languages} />
        <${DocumentList} documents=${documents} session=${session} />
        <div class="panes">
          <${SourcePane} session=${session} addFiles=${addFiles} />
          <${TargetPane} session=${session} />
        </div>
        <div class="model"><${Model} /><${TermsChoice} /></div>
      </div>
      ${session.others ? html`<${Others} session=${session} />` : null}
      ${session.terms.isOpen ? html`<${TermsPanel} session=${session} />` : null}
      ${historyOpen ? html`<${History} session=${session} redraw=${redraw} />` : null}
    </main>
    <footer>
      <p><kbd>Ctrl</kbd> <kbd>Enter</kbd> translates at once. Click a word of the translation to see
        alternatives. Texts and files are sent only to this server.${" "}
        <a class="link" href="lab/">Experiments</a></p>
    </footer>
    <p class="hidden" role="status" aria-live="polite"
      lang=${session.failure || session.seconds ? "en" : session.target || null}>
      ${session.announcement}</p>
    <p class="hidden" role="status" aria-live="polite" lang="en">${documents.announcement}</p>`;
}

function Languages() {
  const { source, target, sources, targets, spoken } = session;
  const detected = sources.find(({ code }) => source === "auto" && code === spoken);
  const auto = { code: "auto", name: detected ? `${detected.name} (detected)` : "Detect language" };
  const choices = sources.length > 1 ? [auto, ...sources] : sources;
  return html`<div class="languages">
    <${Select} label="Language of the text" options=${choices} value=${source}
      choose=${(code) => session.setPair(code)} />
    <button class="swap" aria-label="Swap the languages" title="Swap the languages" disabled=${!session.canSwap}
      onClick=${() => session.swap()}>${icon("swap")}</button>
    <${Select} label="Language of the translation" options=${targets} value=${target}
      choose=${(code) => session.setPair(source, code)} />
  </div>`;
}

function Select({ label, options, value, choose }) {
  return html`<span class="select">
    <select aria-label=${label} value=${value} onChange=${(event) => choose(event.target.value)}
      disabled=${!options.length}>
      ${options.map(({ code, name }) =>
        html`<option key=${code} value=${code} selected=${code === value}>${name}</option>`)}
    </select>
  </span>`;
}

/** Which model translates. */
function Model() {
  const { fitting, source, target, result } = session;
  const label = source === "auto" ? result?.model : session.model;
  const model = (session.models ?? []).find((one) => one.label === label);
  const choices = fitting.map((one) => ({ code: one.label, name: one.label }));
  if (!model) {
    return source === "auto" ? html`<span>The server chooses the model when it knows the language.</span>` : null;
  }
  const choice = source !== "auto" && choices.length > 1 && html`<${Select} label="Model"
    options=${choices} value=${session.model} choose=${(code) => session.setPair(source, target, code)} />`;
  return html`<span>Model${choice ? "" : ` ${label} ·`}</span>${choice}
    <span>${facts(model)}</span><${Inside} />`;
}

/** The glossaries with terms of the languages, if there are any, and the button of the panel. */
function TermsChoice() {
  const { fitting, glossary, terms, isOpen } = session.terms;
  if (!session.target) return null;
  const choices = [{ code: "", name: "None" }, ...fitting.map(({ id, name }) => ({ code: id, name }))];
  return html`<span class="choice">
    ${fitting.length ? html`<span>Glossary</span><${Select} label="Glossary" options=${choices} value=${glossary}
      choose=${(id) => session.chooseGlossary(id)} />` : null}
    <button class="quiet" id="terms" aria-expanded=${isOpen} onClick=${() => session.showTerms(!isOpen)}>
      ${icon("book")}<span>Terms${terms.length ? ` · ${terms.length}` : ""}</span></button>
  </span>`;
}

/** A link to the inspector, in a tab that gets the key from its opener. */
function Inside() {
  const { result, isCurrent } = session;
  const sentence = isCurrent && result.sentences[0]?.source;
  if (!sentence) return null;
  const asked = new URLSearchParams({ text: sentence, model: result.model, adapter: result.adapter ?? "" });
  const first = result.sentences.length > 1 ? " the first sentence" : "";
  return html`<a class="link" href=${`inspect#${asked}`} target="_blank" rel="opener">Look inside${first}</a>`;
}

function facts({ architecture, parameters, precision }) {
  const millions = (parameters / 1e6).toLocaleString("en", { maximumSignificantDigits: 2 });
  return `${architecture} · ${millions} million parameters · ${precision}`;
}

function KeyForm() {
  const field = useRef();
  useEffect(() => field.current.focus(), []);
  const submit = (event) => {
    event.preventDefault();
    session.useKey(field.current.value.trim());
  };
  return html`<form class="key" onSubmit=${submit}>
    <label for="key">API key</label>
    <input id="key" type="password" autocomplete="off" required ref=${field} />
    <button>Use this key</button>
    <span class="note">It is kept until this tab is closed.</span>
  </form>`;
}

function ThemeSwitch() {
  const [, redraw] = useReducer((count) => count + 1, 0);
  useEffect(() => {
    darkness.addEventListener("change", redraw);
    return () => darkness.removeEventListener("change", redraw);
  }, []);
  const system = darkness.matches ? "dark" : "light";
  const theme = document.documentElement.dataset.theme ?? system;
  const change = () => {
    const chosen = theme === "dark" ? "light" : "dark";
    store(THEME, chosen === system ? null : chosen);
    if (chosen === system) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    redraw();
  };
  return html`<button class="quiet" aria-pressed=${theme === "dark"} onClick=${change}>
    ${icon("moon")}<span>Dark</span></button>`;
}

/** The files of an input, or those that were dropped. */
function addFiles(input) {
  documents.add(input.files);
  if ("value" in input) input.value = ""; // the same file can be chosen again
}

/** Files may be dropped anywhere. */
function dropListeners(setDropping) {
  const hasFile = (event) => event.dataTransfer?.types.includes("Files");
  return {
    dragover: (event) => {
      if (!hasFile(event)) return;
      event.preventDefault();
      setDropping(true);
    },
    dragleave: (event) => event.relatedTarget ?? setDropping(false),
    drop: (event) => {
      setDropping(false);
      if (!hasFile(event)) return;
      event.preventDefault();
      addFiles({ files: event.dataTransfer.files });
    },
  };
}

/** Escape closes what was opened last, or ends a translation. */
function onKey(event) {
  if (event.isComposing) return; // an input method's own keys
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    if (event.target.closest(".target, .panel")) document.querySelector(".source textarea").focus();
    session.translate();
  }
  if (event.key !== "Escape") return;
  if (session.menu) session.closeMenu();
  else if (documents.menu) documents.closeMenu();
  else if (session.others) closeOthers(session);
  else if (session.terms.isOpen) closeTerms(session);
  else if (session.historyOpen) closeHistory(session);
  else if (session.working || session.seconds) session.stop();
}

function listen(listeners) {
  for (const [name, listener] of Object.entries(listeners)) window.addEventListener(name, listener);
}

const root = document.getElementById("page");
root.textContent = "";
render(html`<${App} />`, root);
