// The page: a text, and its translation, which the worker computes. Clicking a sentence shows its alternatives.

import { html, render, useEffect, useRef } from "./vendor/preact.js";
import { copy } from "./files.js";
import { ThemeSwitch } from "./header.js";
import { LANGUAGES, chooseLanguage, language, plural, preferredLanguage, t, useLanguage } from "./i18n.js";
import { icon, tulip } from "./icons.js";
import { Menu } from "./menu.js";

const PAUSE = 250; // milliseconds without typing before a translation begins

const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
const root = document.getElementById("page");
const state = {
  languages: null, // null until the model is loaded
  text: "",
  sentences: [], // of the translation, each as {gap, source, text}
  number: 0, // of the latest text that was given to the worker
  isWorking: false,
  failure: "",
  menu: null, // alternatives of a sentence: {index, others}; others are null until they come
  isCopied: false,
};
let typing = null;

function change(values) {
  Object.assign(state, values);
  render(html`<${App} />`, root);
}

worker.onmessage = ({ data }) => {
  if (data.languages) change({ languages: data.languages });
  else if (data.sentence) showAlternatives(data);
  else if ((data.number ?? state.number) !== state.number) return;
  else if (data.failure) change({ failure: data.failure, isWorking: false });
  else if (data.isDone) change({ isWorking: false });
  else change({ sentences: [...state.sentences, data.next] });
};
worker.onerror = () => change({ failure: "This browser cannot run the model.", isWorking: false });

/** A text as it is being typed; it is translated after a pause. */
function edit(text) {
  clearTimeout(typing);
  typing = setTimeout(() => {
    change({ sentences: [], number: state.number + 1 });
    worker.postMessage({ number: state.number, text });
  }, text.trim() ? PAUSE : 0);
  change({ text, menu: null, failure: state.languages ? "" : state.failure, isWorking: Boolean(text.trim()) });
}

function openMenu(index) {
  change({ menu: { index, others: null } });
  worker.postMessage({ sentence: state.sentences[index].source });
}

function showAlternatives({ sentence, others }) {
  if (state.menu && state.sentences[state.menu.index].source === sentence) change({ menu: { ...state.menu, others } });
}

function choose(text) {
  const sentences = state.sentences.with(state.menu.index, { ...state.sentences[state.menu.index], text });
  change({ sentences, menu: null });
}

async function copyTranslation() {
  try {
    await copy(state.sentences.map(({ gap, text }) => gap + text).join(""));
    change({ isCopied: true });
    setTimeout(() => change({ isCopied: false }), 2000);
  } catch {
    change({ failure: t("The browser did not allow copying.") });
  }
}

function App() {
  return html`
    <header class="top"><a class="name" href="./">${tulip()}<span>Dragoman</span></a>
      <span class="spring"></span><${ThemeSwitch} /></header>
    <main>
      <h1 class="hidden">Dragoman</h1>
      <div class="sheet">
        <${LanguageBar} />
        <div class="panes"><${Source} /><${Target} /></div>
      </div>
    </main>
    <${Footer} />`;
}

function LanguageBar() {
  const { source, target } = state.languages ?? {};
  const names = new Intl.DisplayNames(language, { type: "language" });
  const nameOf = (code, side) => (code && code !== "und" ? names.of(code) : side);
  return html`<div class="languages">
    <span class="fixed">${nameOf(source, t("Source"))}</span>
    <span aria-hidden="true">${document.documentElement.dir === "rtl" ? "←" : "→"}</span>
    <span class="fixed">${nameOf(target, t("Target"))}</span>
  </div>`;
}

function Source() {
  const area = useRef();
  const { text, languages } = state;
  useEffect(() => {
    if (matchMedia("(hover: hover)").matches) area.current.focus(); // a phone would show its keyboard
  }, []);
  const placeholder = t("Type or paste text.");
  const clear = () => {
    edit("");
    area.current.focus();
  };
  return html`<section class="pane source" aria-label=${t("Text")}>
    <div class="stack text">
      <div class="mirror" aria-hidden="true">${text || html`<i>${placeholder}</i>`}${"\n"}</div>
      <textarea ref=${area} aria-label=${t("Text to translate")} dir="auto" lang=${languages?.source ?? null} rows="1"
        placeholder=${placeholder} value=${text} onInput=${(event) => edit(event.target.value)}></textarea>
    </div>
    <div class="foot">
      <span class="count">${plural([...text].length, "{n} character", "{n} characters")}</span>
      <span class="spring"></span>
      <button class="quiet" onClick=${clear} disabled=${!text}>${icon("cross")}<span>${t("Clear")}</span></button>
    </div>
  </section>`;
}

function Target() {
  const pane = useRef();
  const { languages, sentences, failure, isWorking, menu, isCopied } = state;
  const anchor = () => pane.current.querySelectorAll("[data-word]")[menu.index];
  return html`<section class="pane target" aria-label=${t("Translation")} aria-busy=${isWorking} ref=${pane}>
    ${failure ? html`<p class="failure" role="alert"><bdi lang="en">${failure}</bdi></p>` : null}
    ${languages || failure ? null : html`<p class="note example">${t("The model is being loaded …")}</p>`}
    <div class="text words" dir="auto" lang=${languages?.target ?? null} aria-live="polite">
      ${sentences.map(({ gap, text }, index) => html`${gap}<${Sentence} key=${index} text=${text}
        open=${() => openMenu(index)} isOpen=${menu?.index === index} />`)}
      ${isWorking && languages ? html`<span class="caret"></span>` : null}
    </div>
    ${menu && html`<${Menu} label=${t("Alternatives")} anchor=${anchor} pane=${pane} back=${() => anchor().focus()}
      close=${() => change({ menu: null })} content=${menu.others} isBusy=${!menu.others}>
      <${Alternatives} ...${menu} /><//>`}
    <div class="foot">
      <span class="spring"></span>
      <button class="quiet" disabled=${!sentences.length || isWorking} onClick=${copyTranslation}>
        ${icon(isCopied ? "check" : "copy")}<span>${isCopied ? t("Copied") : t("Copy")}</span></button>
    </div>
  </section>`;
}

function Sentence({ text, open, isOpen }) {
  const onKey = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    open();
  };
  return html`<span data-word role="button" tabindex="0" aria-haspopup="menu" aria-expanded=${isOpen}
    onClick=${open} onKeyDown=${onKey}>${text}</span>`;
}

function Alternatives({ index, others }) {
  if (!others) return html`<p class="note">${t("Looking for alternatives …")}</p>`;
  const { text } = state.sentences[index];
  const items = others.filter((other) => other !== text);
  if (!items.length) return html`<p class="note">${t("There is no alternative here.")}</p>`;
  return items.map((other) => html`<button role="menuitem" tabindex="-1" class="whole" dir="auto"
    lang=${state.languages.target} onClick=${() => choose(other)}>${other}</button>`);
}

function Footer() {
  const chooseOne = async (event) => {
    await chooseLanguage(event.target.value);
    change({});
  };
  return html`<footer>
    <p>${t("Nothing that you write leaves this device.")}</p>
    <p class="language"><label><span>${t("Language of this page")}</span><span class="select">
      <select value=${language} onChange=${chooseOne}>${Object.entries(LANGUAGES).map(([code, name]) =>
        html`<option value=${code} lang=${code} selected=${code === language}>${name}</option>`)}</select>
    </span></label></p>
  </footer>`;
}

addEventListener("pointerdown", (event) => {
  if (state.menu && !event.target.closest(".menu, [data-word]")) change({ menu: null });
});
await useLanguage(preferredLanguage());
root.textContent = "";
change({});
