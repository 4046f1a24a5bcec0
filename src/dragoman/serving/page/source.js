// The left pane: the text. Behind the transparent text area lies a mirror with the same text, which gives the
// pane its height and shows aligned words.

import { html, useEffect, useRef } from "./vendor/preact.js";
import { highlight } from "./highlight.js";
import { icon } from "./icons.js";
import { countCharacters, pieces } from "./words.js";

const EXAMPLES = {
  en: "The weather is lovely today, and the train is on time.",
  de: "Das Wetter ist heute schön, und der Zug ist pünktlich.",
  fr: "Il fait beau aujourd’hui, et le train est à l’heure.",
  es: "Hoy hace buen tiempo y el tren llega puntual.",
  it: "Oggi il tempo è bello e il treno è in orario.",
  nl: "Het is mooi weer vandaag en de trein is op tijd.",
  pt: "Hoje o tempo está bom e o comboio chega a horas.",
  pl: "Dziś jest ładna pogoda, a pociąg jest punktualny.",
  ru: "Сегодня прекрасная погода, и поезд прибыл вовремя.",
  ar: "الطقس جميل اليوم والقطار في موعده.",
  he: "מזג האוויר יפה היום והרכבת מגיעה בזמן.",
  zh: "今天天气很好，火车也准点。",
  ja: "今日はいい天気で、電車も時間どおりです。",
};

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

  const clear = () => {
    session.open("");
    area.current.focus();
  };
  return html`<section class="pane source" aria-label="Text">
    <div class="stack text" onPointerEnter=${() => session.alignAgain()}
      onPointerMove=${(event) => (aligned ? lightPointer(event, mirror.current, result) : session.align())}
      onPointerLeave=${() => highlight(null)}>
      <div class="mirror" ref=${mirror} aria-hidden="true" lang=${session.spoken || null}>
        ${aligned ? pieces(result, "source").map(mirrorPiece) : text}${"\n"}
      </div>
      <textarea ref=${area} aria-label="Text to translate" dir="auto" lang=${session.spoken || null} rows="1"
        placeholder="Type or paste text, or drop files." value=${text}
        onFocus=${() => session.alignAgain()} onBlur=${() => highlight(null)}
        onInput=${(event) => session.edit(event.target.value)}></textarea>
    </div>
    ${text ? null : html`<${Example} session=${session} />`}
    <div class="foot">
      <span class="count">${characters(text)}</span>
      <span class="spring"></span>
      <label class="quiet file" title="Documents, web pages, subtitles, catalogues of messages and others">
        <input type="file" class="hidden" multiple id="files" aria-label="Translate files"
          onChange=${(event) => addFiles(event.target)} />
        ${icon("file")}<span>Files</span>
      </label>
      <button class="quiet" onClick=${clear} disabled=${!text}>${icon("cross")}<span>Clear</span></button>
    </div>
  </section>`;
}

function isAligned({ isCurrent, result }) {
  return isCurrent && result.sentences.some(({ alignment }) => alignment);
}

function characters(text) {
  const count = countCharacters(text);
  return `${count.toLocaleString("en")} ${count === 1 ? "character" : "characters"}`;
}

function mirrorPiece({ text, sentence, word }) {
  if (word === undefined) return text;
  return html`<span data-side="source" data-sentence=${sentence} data-word=${word}>${text}</span>`;
}

function Example({ session }) {
  const language = session.source === "auto" ? "en" : session.source;
  const example = EXAMPLES[language.split("-")[0]];
  if (!example) return null;
  return html`<div class="example">
    <span class="label">An example</span>
    <button lang=${language} dir="auto" onClick=${() => session.open(example)}>${example}</button>
  </div>`;
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
