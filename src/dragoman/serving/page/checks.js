// What a model cannot know, seen in a text before it is translated, and loops in a translation. All functions are
// pure.

const SCRIPTS = [
  "Latn", "Cyrl", "Grek", "Arab", "Hebr", "Hani", "Hira", "Kana", "Hang", "Thai", "Deva", "Beng", "Geor", "Armn",
  "Taml", "Telu", "Gujr", "Guru", "Knda", "Mlym", "Sinh", "Mymr", "Khmr", "Laoo", "Ethi", "Tibt", "Mong",
];
const BEGINNING = 2000; // characters that are looked at
const MANY = 0.3; // of their letters
const FEW_LETTERS = 6; // an abbreviation is no text in capitals
const MARKUP = /^\s*<(!doctype html|html|body|article|section|div|table|p|h[1-6]|ul|ol)\b[^>]*>[^]*<\/\w+>/i;
// A phrase that comes four times or more, one after another; its last coming may be shorter.
const LOOP = /(.{1,80}?)\1{3,}/gsu;
const MIN_LOOP = 20; // characters: a row of dots or a number is none

/** The script that many letters of a text have and a model does not, as a code of ISO 15924, or null. */
export function unknownScript(text, scripts) {
  if (!scripts.length) return null;
  const known = new RegExp(`[${scripts.map((script) => `\\p{scx=${script}}`).join("")}]`, "u");
  const letters = text.slice(0, BEGINNING).match(/\p{L}/gu) ?? [];
  const others = letters.filter((letter) => !known.test(letter));
  if (!others.length || others.length < MANY * letters.length) return null;
  return SCRIPTS.find((script) => new RegExp(`\\p{scx=${script}}`, "u").test(others[0])) ?? null;
}

/** Whether a line of a text is in capitals. */
export function hasCapitals(text) {
  return text.split("\n").some(isInCapitals);
}

function isInCapitals(text) {
  const letters = text.slice(0, BEGINNING).match(/\p{L}/gu) ?? [];
  const cased = letters.filter((letter) => letter.toLowerCase() !== letter.toUpperCase());
  return cased.length >= FEW_LETTERS && cased.every((letter) => letter === letter.toUpperCase());
}

/** A text whose lines in capitals are in small letters; their sentences begin with a capital. */
export function inSmallLetters(text) {
  const beginnings = /(^|[.!?]\s+)(\p{L})/gu;
  const small = (line) => line.toLowerCase().replace(beginnings, (_, before, first) => before + first.toUpperCase());
  return text.split("\n").map((line) => (isInCapitals(line) ? small(line) : line)).join("\n");
}

/** Whether a text is the source of a web page. */
export function isMarkup(text) {
  return MARKUP.test(text);
}

/** A translation whose loops are cut: a phrase stays once, before an ellipsis. null if there is none, or if the
 * source has one too. */
export function withoutLoops(text, source) {
  if (loopsOf(source).length) return null;
  let place = 0;
  let cut = "";
  for (const { 0: loop, 1: phrase, index } of loopsOf(text)) {
    cut += `${text.slice(place, index)}${phrase.trimEnd()} …`;
    place = index + loop.length;
    const rest = text.slice(place).replace(/\P{L}+$/u, "");
    if (phrase.startsWith(rest)) place = text.length; // the phrase once more, but not whole
  }
  return place ? cut + text.slice(place) : null;
}

function loopsOf(text) {
  return [...text.matchAll(LOOP)].filter(([loop, phrase]) => loop.length >= MIN_LOOP && /\p{L}/u.test(phrase));
}
