// Tokens and numbers as people read them.

import { html } from "./vendor/preact.js";

// Characters without a glyph of their own: controls and formats (zero-width, bidirectional), separators,
// fillers, and selectors of variants.
const UNSEEN = /[\p{C}\p{Z}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\ufe00-\ufe0f]/u;

/** A token's text in which every character can be seen: U+200B for a zero-width space, ␣ for a space. */
export function visible(token) {
  return parts(token)
    .map(({ text }) => text)
    .join("");
}

const WORD_BEGIN = "▁"; // SentencePiece's mark of a space

/** A token in parts {text, kind}: names of characters that cannot be seen, marks of the beginning of a word,
 * and other text, whose kind is null. */
function parts(token) {
  if (token === "") return [{ text: "(empty)", kind: "code-point" }];
  const found = [];
  for (const character of /^\p{M}/u.test(token) ? `◌${token}` : token) {
    const kind = kindOf(character);
    const text = kind === "code-point" ? codePoint(character) : character === " " ? "␣" : character;
    if (kind === null && found.at(-1)?.kind === null) found.at(-1).text += text;
    else found.push({ text, kind });
  }
  return found;
}

function kindOf(character) {
  if (character === WORD_BEGIN) return "word-begin";
  return character !== " " && UNSEEN.test(character) ? "code-point" : null;
}

function codePoint(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** A token as an element that is written in its own direction. */
export function Token({ token }) {
  return html`<bdi class="token" dir="auto">${parts(token).map(
    ({ text, kind }) => (kind ? html`<span class=${kind}>${text}</span>` : text),
  )}</bdi>`;
}

export function fixed(number, digits = 3) {
  if (number === null) return "−∞";
  const text = number.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

export function percent(share) {
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  if (share < 1 && share >= 0.9995) return "> 99.9 %";
  const isNearAnEnd = (share > 0 && share < 0.0995) || (share >= 0.995 && share < 1);
  return `${(100 * share).toFixed(isNearAnEnd ? 1 : 0)} %`;
}

/** The probability of a log-probability; null stands for minus infinity. */
export function probability(logProbability) {
  return logProbability === null ? 0 : Math.exp(logProbability);
}

export function count(number) {
  return number.toLocaleString("en");
}
