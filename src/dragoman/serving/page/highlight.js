// Marks a word and those aligned with it. It changes the classes of elements directly: to draw a long text at
// each move of the pointer would be slow.

import { alignedWords } from "./words.js";

let marked = null; // {side, sentence, word}

/** Marks a word, or none. */
export function highlight(word, result) {
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
