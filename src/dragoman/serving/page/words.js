// Words, sentences and alignments of a translation. All functions are pure.
//
// A result is {model, adapter, pivot, source, target, sourceText, text, sentences, unusedTerms}; one by way of a third
// language, its pivot, has no model. The server counts code points; a result counts UTF-16 units, as JavaScript does.

import { withoutLoops } from "./checks.js";
import { t } from "./i18n.js";

// Python's str.split() separates words: its whitespace differs from \s by \x1c-\x1f, \x85 and \ufeff.
const WORD = /[^\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/g;
const UNSURE = 0.4; // the probability below which the model is very unsure
const UNSPACED = /\p{sc=Han}|\p{sc=Hira}|\p{sc=Kana}|\p{sc=Thai}|\p{sc=Laoo}|\p{sc=Khmr}|\p{sc=Mymr}/u;

/** The result that an answer of /v1/translate to one text means. Loops are cut. */
export function toResult(answer, sourceText) {
  const { unusedTerms, ...result } = asAnswered(answer, sourceText);
  const cut = result.sentences.reduce((former, { text, source }, index) => {
    const shorter = withoutLoops(text, source);
    return shorter === null ? former : withHypothesis(former, index, { ...unscored(shorter), isLoop: true });
  }, result);
  return { ...cut, unusedTerms };
}

/** A hypothesis of which only the text is known. */
export function unscored(text) {
  return { text, tokens: null, score: null, logProbability: null, isLoop: false };
}

function asAnswered(answer, sourceText) {
  const { text, sentences, unused_terms: unusedTerms = [] } = answer.translations[0];
  const inSource = unitsOfCodePoints(sourceText);
  const inTarget = unitsOfCodePoints(text);
  return {
    model: answer.pivot ? undefined : answer.model,
    adapter: answer.adapter || undefined, // which a request then leaves out
    pivot: answer.pivot || undefined,
    source: answer.source,
    target: answer.target,
    sourceText,
    text,
    unusedTerms,
    sentences: sentences.map((sentence) => ({
      ...toHypothesis(sentence),
      isLoop: false,
      source: sentence.source,
      nBest: (sentence.n_best ?? []).map(toHypothesis),
      alignment: sentence.alignment ?? null,
      sourceStart: inSource(sentence.source_start),
      sourceEnd: inSource(sentence.source_end),
      start: inTarget(sentence.start),
      end: inTarget(sentence.end),
    })),
  };
}

function toHypothesis({ text, tokens, score, log_probability: logProbability }) {
  return { text, tokens, score, logProbability };
}

function unitsOfCodePoints(text) {
  if (!/[\ud800-\udfff]/.test(text)) return (place) => place ?? null;
  const units = [0];
  for (const character of text) units.push(units.at(-1) + character.length);
  return (place) => units[place] ?? null;
}

/** The text cut into words {text, sentence, word, start} and what lies between them {text}. start: in the
 * sentence. In scripts without spaces a word is cut further; its parts have one word number. */
export function pieces(result, side) {
  const whole = side === "source" ? result.sourceText : result.text;
  const [from, to] = side === "source" ? ["sourceStart", "sourceEnd"] : ["start", "end"];
  const found = [];
  let place = 0;
  const gapUntil = (end) => end > place && found.push({ text: whole.slice(place, end) });
  result.sentences.forEach((sentence, index) => {
    wordsOf(whole.slice(sentence[from], sentence[to])).forEach(({ text, word, start }) => {
      gapUntil(sentence[from] + start);
      found.push({ text, sentence: index, word, start });
      place = sentence[from] + start + text.length;
    });
  });
  gapUntil(whole.length);
  return found;
}

function wordsOf(text) {
  return [...text.matchAll(WORD)].flatMap((match, word) => {
    if (!UNSPACED.test(match[0])) return [{ text: match[0], word, start: match.index }];
    const segments = [...new Intl.Segmenter(undefined, { granularity: "word" }).segment(match[0])];
    return segments.map((part) => ({ text: part.segment, word, start: match.index + part.index }));
  });
}

/** What another translation of a sentence has after a prefix: the words that differ from `text`, one at least,
 * and the tail that both have. */
export function difference(other, text, prefix) {
  const restOf = (whole) => (whole.startsWith(prefix) ? whole.slice(prefix.length) : whole);
  const rest = restOf(other);
  const words = wordsOf(rest);
  const formerWords = wordsOf(restOf(text));
  let equal = 0;
  while (equal < words.length - 1 && words.at(-1 - equal).text === formerWords.at(-1 - equal)?.text) equal++;
  const end = equal ? words.at(-equal).start : rest.length;
  return { differing: rest.slice(0, end), tail: rest.slice(end) };
}

/** The first words of a text, with an ellipsis if there are more. */
export function firstWords(text, count) {
  const words = wordsOf(text);
  return words.length > count ? `${text.slice(0, words[count].start).trimEnd()} …` : text;
}

/** Numbers of the words on the other side that are aligned with a word. */
export function alignedWords(sentence, side, word) {
  const own = side === "source" ? 0 : 1;
  return new Set(
    (sentence.alignment ?? []).filter((pair) => pair[own] === word).map((pair) => pair[1 - own]),
  );
}

/** The result with the alignments of another result of the same text, where the sentences are the same. */
export function withAlignments(result, aligned) {
  const sentences = result.sentences.map((sentence, index) => {
    const other = aligned.sentences[index];
    const same = other?.text === sentence.text && other.source === sentence.source;
    return same && !sentence.alignment ? { ...sentence, alignment: other.alignment } : sentence;
  });
  return { ...result, sentences };
}

/** The result with another hypothesis of a sentence; later sentences move. Which terms it uses is not known. */
export function withHypothesis(result, index, hypothesis) {
  const old = result.sentences[index];
  const shift = hypothesis.text.length - (old.end - old.start);
  const sentences = result.sentences.map((sentence, other) => {
    if (other < index) return sentence;
    if (other === index) return { ...sentence, alignment: null, ...hypothesis, end: sentence.end + shift };
    return { ...sentence, start: sentence.start + shift, end: sentence.end + shift };
  });
  const text = result.text.slice(0, old.start) + hypothesis.text + result.text.slice(old.end);
  return { ...result, text, sentences, unusedTerms: [] };
}

/** The result of a text from those of its parts. */
export function joined(results) {
  let inSource = 0;
  let inTarget = 0;
  const sentences = results.flatMap(({ sentences, sourceText, text }) => {
    const moved = sentences.map((sentence) => ({
      ...sentence,
      sourceStart: sentence.sourceStart + inSource,
      sourceEnd: sentence.sourceEnd + inSource,
      start: sentence.start + inTarget,
      end: sentence.end + inTarget,
    }));
    inSource += sourceText.length;
    inTarget += text.length;
    return moved;
  });
  const terms = new Map(results.flatMap(({ unusedTerms }) => unusedTerms).map((term) => [term[0], term]));
  return {
    ...results[0],
    sourceText: results.map(({ sourceText }) => sourceText).join(""),
    text: results.map(({ text }) => text).join(""),
    sentences,
    unusedTerms: [...terms.values()],
  };
}

/** The result after its whole text has been changed at one place. The change belongs to the last sentence that
 * begins before it; others lose what was removed. */
export function withEdit(result, text) {
  const former = result.text;
  const most = Math.min(former.length, text.length);
  let first = 0; // of what is replaced
  while (first < most && former[first] === text[first]) first++;
  let same = 0; // after it
  while (same < most - first && former.at(-1 - same) === text.at(-1 - same)) same++;
  const last = former.length - same;
  const shift = text.length - former.length;
  const moved = (place) => (place <= first ? place : Math.max(place, last) + shift);
  const owner = Math.max(0, result.sentences.findLastIndex(({ start }) => start <= first));
  const sentences = result.sentences.map((sentence, index) => {
    const from = index === owner ? Math.min(sentence.start, first) : moved(sentence.start);
    const to = index === owner ? Math.max(moved(sentence.end), last + shift) : moved(sentence.end);
    const changed = text.slice(from, to).trim();
    const start = from + Math.max(0, text.slice(from, to).search(/\S/));
    const place = { start, end: start + changed.length };
    if (changed === sentence.text) return { ...sentence, ...place };
    return { ...sentence, ...unscored(changed), alignment: null, isEdited: true, ...place };
  });
  return { ...result, text, sentences, unusedTerms: [] };
}

/** The result with the reader's translations of its sentences, by their sources. */
export function withEdits(result, edits) {
  return result.sentences.reduce((former, { source }, index) => {
    const text = edits.get(source);
    const isSame = text === undefined || text === former.sentences[index].text;
    return isSame ? former : withHypothesis(former, index, { ...unscored(text), isEdited: true });
  }, result);
}

/** The geometric mean of the probabilities of all tokens, ends of sentences included; null without tokens. */
export function meanProbability(sentences) {
  let logProbability = 0;
  let tokens = 0;
  for (const sentence of sentences) {
    if (!sentence.tokens?.length || !Number.isFinite(sentence.logProbability)) continue;
    logProbability += sentence.logProbability;
    tokens += sentence.tokens.length + 1;
  }
  return tokens ? Math.exp(logProbability / tokens) : null;
}

export function sureness(probability) {
  const shown = Number(probability.toFixed(2));
  if (shown >= 0.8) return t("Very sure");
  if (shown >= 0.6) return t("Fairly sure");
  return shown >= UNSURE ? t("Unsure") : t("Very unsure");
}

/** Whether the model is very unsure of a sentence. */
export function isUnsure(sentence) {
  const probability = meanProbability([sentence]);
  return probability !== null && Number(probability.toFixed(2)) < UNSURE;
}

export function countCharacters(text) {
  let count = 0;
  for (const _ of text) count++;
  return count;
}
