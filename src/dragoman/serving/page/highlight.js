// Marks a word and those aligned with it. It changes the classes of elements directly: to draw a long text at
// each move of the pointer would be slow.

import { alignedWords } from "./words.js";

let pointed = null; // the word at the pointer, the focus or the caret: {side, sentence, word}
let held = null; // the one whose alternatives are shown
let marked = null; // one of them

/** Marks a word, or none, unless one is held. */
export function highlight(word, result) {
  pointed = word;
  show(result);
}

/** Marks a word whatever else is pointed at, until null is held. */
export function hold(word, result) {
  held = word;
  show(result);
}

function show(result) {
  const word = held ?? pointed;
  if (JSON.stringify(word) === JSON.stringify(marked)) return;
  marked = word;
  draw(result);
}

/** Marks again, after the page has been drawn or the alignment has come. */
export function draw(result) {
  for (const element of document.querySelectorAll(".marked, .aligned")) {
    element.classList.remove("marked", "aligned");
  }
  const sentence = marked && result?.sentences[marked.sentence];
  if (!sentence) return;
  const other = marked.side === "source" ? "target" : "source";
  mark(marked.side, marked.sentence, new Set([marked.word]), "marked");
  mark(other, marked.sentence, alignedWords(sentence, marked.side, marked.word), "aligned");
}

function mark(side, sentence, words, name) {
  for (const element of document.querySelectorAll(`[data-side="${side}"][data-sentence="${sentence}"]`)) {
    if (words.has(Number(element.dataset.word))) element.classList.add(name);
  }
}
