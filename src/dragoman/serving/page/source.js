// The left pane: the text. Behind the transparent text area lies a mirror with the same text, which gives the
// pane its height and shows aligned words.

import { html, useEffect, useRef } from "./vendor/preact.js";
import { hasCapitals, inSmallLetters, isMarkup, unknownScript } from "./checks.js";
import { highlight } from "./highlight.js";
import { languageName, plural, scriptName, t } from "./i18n.js";
import { icon } from "./icons.js";
import { keepFromAfar, type } from "./typing.js";
import { countCharacters, pieces } from "./words.js";

export function SourcePane({ session, addFiles }) {
  const area = useRef();
  const mirror = useRef();
  const { text, result } = session;
  const aligned = isAligned(session);
  useEffect(() => {
    if (matchMedia("(hover: hover)").matches) area.current.focus(); // a phone would show its keyboard
  }, []);
  useEffect(() => {
    const onCaret = () => {
      if (document.activeElement !== area.current) return;
      session.align(); // once for a result, which may have come while the area had the focus
      lightCaret(area.current, session);
    };
    if (aligned && !document.querySelector(".stack:hover, .words:hover")) onCaret(); // it has come
    document.addEventListener("selectionchange", onCaret);
    return () => document.removeEventListener("selectionchange", onCaret);
  }, [session, aligned]);

  const clear = () => type(area.current, "");
  const placeholder = t("Type or paste text, or drop files.");
  return html`<section class="pane source" aria-label=${t("Text")}>
    <div class="stack text" onPointerEnter=${() => session.alignAgain()}
      onPointerMove=${(event) => (aligned ? lightPointer(event, mirror.current, result) : session.align())}
      onPointerLeave=${() => highlight(null)}>
      <div class="mirror" ref=${mirror} aria-hidden="true" lang=${session.spoken || null}>
        ${aligned ? pieces(result, "source").map(mirrorPiece) : text || html`<i>${placeholder}</i>`}${"\n"}
      </div>
      <textarea ref=${area} aria-label=${t("Text to translate")} dir="auto" lang=${session.spoken || null} rows="1"
        placeholder=${placeholder} value=${text}
        onFocus=${() => session.alignAgain()} onBlur=${() => highlight(null)}
        onBeforeInput=${keepFromAfar} onInput=${(event) => session.edit(event.target.value)}></textarea>
    </div>
    ${text ? html`<${Notices} session=${session} addFiles=${addFiles} />`
      : html`<${Introduction} session=${session} /><${Example} session=${session} />`}
    <div class="foot">
      <span class="count">${characters(text)}</span>
      <span class="spring"></span>
      <label class="quiet file" title=${t("Documents, web pages, subtitles, catalogues of messages and others")}>
        <input type="file" class="hidden" multiple id="files" aria-label=${t("Translate files")}
          onChange=${(event) => addFiles(event.target)} />
        ${icon("file")}<span>${t("Files")}</span>
      </label>
      <button class="quiet" onClick=${clear} disabled=${!text}>${icon("cross")}<span>${t("Clear")}</span></button>
    </div>
  </section>`;
}

function isAligned({ isCurrent, result }) {
  return isCurrent && result.sentences.some(({ alignment }) => alignment);
}

function characters(text) {
  return plural(countCharacters(text), "{n} character", "{n} characters");
}

function mirrorPiece({ text, sentence, word }) {
  if (word === undefined) return text;
  return html`<span data-side="source" data-sentence=${sentence} data-word=${word}>${text}</span>`;
}

/** What a model does whose languages are unknown. */
function Introduction({ session }) {
  const { source, target, source_name, target_name } = session.described ?? {};
  if (source !== "und" && target !== "und") return null;
  const isSpelling = source_name === "Spelling" && target_name === "Phonemes";
  const sides = { source: languageName(source, source_name), target: languageName(target, target_name) };
  return html`<p class="introduction">${isSpelling
    ? t("This model spells English words in phonemes, as a dictionary of pronunciation does. Write a word on each line.")
    : t("This model reads: {source}. It writes: {target}.", sides)}</p>`;
}

/** A sentence of the validation text, if the server shows one. */
function Example({ session }) {
  const { example } = session.described ?? session.fitting[0] ?? {};
  if (!example) return null;
  return html`<div class="example">
    <span class="label">${t("An example")}</span>
    <button lang=${session.spoken || null} dir="auto" onClick=${() => session.open(example)}>${example}</button>
  </div>`;
}

/** What the model has not learnt to read, and what can be done about it. */
function Notices({ session, addFiles }) {
  const { text, described: model } = session;
  const script = model && unknownScript(text, model.scripts ?? []);
  const isCapital = model?.reads_capitals === false && hasCapitals(text);
  const addPage = () => {
    addFiles({ files: [new File([text], "page.html", { type: "text/html" })] });
    session.open("");
  };
  return html`
    ${script && html`<p class="notice">${t("The model has learnt no text in this script: {script}.",
      { script: scriptName(script) })}</p>`}
    ${!script && isCapital && html`<p class="notice">
      ${t("The model has hardly learnt texts in capitals.")}${" "}
      <button class="link" onClick=${() => session.open(inSmallLetters(text))}>${t("Write it in small letters")}</button>
    </p>`}
    ${isMarkup(text) && html`<p class="notice">${t("This is the source of a web page.")}${" "}
      <button class="link" onClick=${addPage}>${t("Translate it as a file")}</button></p>`}`;
}

/** The text area receives the pointer; the word is the mirror's one at that place. */
function lightPointer(event, mirror, result) {
  const within = ({ left, right, top, bottom }) =>
    left <= event.clientX && event.clientX < right && top <= event.clientY && event.clientY < bottom;
  const word = [...mirror.children].find((child) => [...child.getClientRects()].some(within));
  const place = (name) => Number(word.dataset[name]);
  highlight(word ? { side: "source", sentence: place("sentence"), word: place("word") } : null, result);
}

/** Reads the session when the caret moves: a listener of the last drawing could have an older result. */
function lightCaret(area, session) {
  if (!isAligned(session)) return;
  const { result } = session;
  const caret = area.selectionStart;
  const index = result.sentences.findIndex((one) => one.sourceStart <= caret && caret <= one.sourceEnd);
  let place = 0;
  const piece = pieces(result, "source").find(({ text }) => (place += text.length) >= caret);
  const found = index >= 0 && piece?.word !== undefined;
  highlight(found ? { side: "source", sentence: piece.sentence, word: piece.word } : null, result);
}
