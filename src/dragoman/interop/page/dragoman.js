// A model in the browser, for pages of one's own, workers and Node.js:
//
//   import { alternatives, load, translate } from "./dragoman.js";
//   const model = await load();
//   await translate(model, "A man rides a bike.");     a text, of any number of lines and sentences
//   alternatives(model, "A man rides a bike.");        the best translations of a sentence, the best first
//
// All of it is computed here: `load` fetches the model's files, and nothing else is ever sent or fetched. Errors are
// sentences. Oracle: translation/translator.py, without its options. Tested: tests/test_web.py.

import { END, Tokenizer } from "./tokenizer.js";

const SPACE = "▁";
const PAUSES = /[.!?;:,]$/; // before a space
const WIDE_PAUSES = /[。！？；，、]$/; // no space follows these
const FIRST_WIDE = "\u2e80"; // from here on: Chinese and Japanese, without spaces; Korean
const UNSPACED = /[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]/;
const LINE_BREAKS = "\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029";
const LINE = new RegExp(`[^${LINE_BREAKS}]+`, "g");
const LINE_BREAK = new RegExp(`\\r\\n|[${LINE_BREAKS}]`, "g");
const INVISIBLE = new RegExp(
  "[\\xad\\u061c\\u180e\\u200e\\u200f\\u202a-\\u202e\\u2060-\\u206f\\ufeff]" +
    "|\\u200b(?![\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff])",
  "g",
); // as text/invisible.py
const REMEMBERED = 1000; // sentences whose translations are kept, for texts that are being written

/** The model of a folder: "model/" beside this module, or another URL. Rejects with an `Error`, a sentence. */
export async function load(folder = new URL("model/", import.meta.url), fetchFile = fetchBytes) {
  const base = new URL(folder, globalThis.location?.href);
  const [about, weights, runtime] = await Promise.all([
    fetchFile(new URL("about.json", base)),
    fetchFile(new URL("weights.bin", base)),
    fetchFile(new URL("dragoman.wasm", import.meta.url)),
  ]);
  const settings = parsed(about);
  const sides = settings.sharesVocabulary ? ["source"] : ["source", "target"];
  const vocabularies = await Promise.all(sides.map((side) => fetchFile(new URL(`${side}.model`, base))));
  const [source, target = source] = vocabularies.map((bytes) => refuseDamaged(() => new Tokenizer(bytes)));
  const model = { ...settings, source, target, known: new Map(), decoder: await instantiate(runtime) };
  refuseDamaged(() => {
    writeInput(model, weights);
    call(model, "load");
  });
  return model;
}

/** The translation of a text. After each sentence `onSentence` gets it as {gap, source, text}, with what stands
 * before it, and is awaited; what it throws ends the translation. */
export async function translate(model, text, onSentence = () => {}) {
  let whole = "";
  let end = 0;
  let former = null;
  for (const [start, source] of sentences(model, text)) {
    const next = { source, text: refuseDamaged(() => translateSentence(model, source)) };
    const gap = former ? gapBetween(text.slice(end, start), former, next) : "";
    whole += gap + next.text;
    [former, end] = [next, start + source.length];
    await onSentence({ gap, ...next });
  }
  return whole;
}

/** The translations of a sentence in the beam, the best first; of one that is translated in parts, one. */
export function alternatives(model, sentence) {
  return refuseDamaged(() => {
    const parts = partsOf(model, sentence);
    if (parts.length !== 1 || parts[0].length === 1) return [translateSentence(model, sentence)];
    return [...new Set(search(model, parts[0], model.beamSize))];
  });
}

async function fetchBytes(url) {
  const answer = await fetch(url).catch(() => null);
  if (!answer?.ok) throw new Error(`The file ${url.pathname} cannot be fetched; is it where the page is?`);
  return new Uint8Array(await answer.arrayBuffer());
}

function parsed(bytes) {
  const about = refuseDamaged(() => JSON.parse(new TextDecoder().decode(bytes)));
  if (about.format === 1) return about;
  throw new Error("The model is of another version of Dragoman than this page; export it again.");
}

/** What a damaged file leads to becomes a sentence; an `Error` of this module is one. */
function refuseDamaged(work) {
  try {
    return work();
  } catch (cause) {
    if (cause.constructor === Error) throw cause;
    throw new Error("A file of the model is damaged; export it again.", { cause });
  }
}

// The decoder

async function instantiate(bytes) {
  const module = await WebAssembly.compile(bytes).catch((cause) => {
    throw new Error("This browser cannot run the model: it lacks WebAssembly with SIMD.", { cause });
  });
  const imports = {}; // of an operating system; the decoder needs none
  for (const { module: name, name: field } of WebAssembly.Module.imports(module))
    (imports[name] ??= {})[field] = () => 0;
  const { exports } = await WebAssembly.instantiate(module, imports);
  exports._initialize();
  return exports;
}

/** The place of what a function of native/web.cpp returns. Throws its sentence if it fails. */
function call({ decoder }, name, ...values) {
  const place = decoder[name](...values);
  if (place) return place;
  const bytes = new Uint8Array(decoder.memory.buffer, decoder.error());
  throw new Error(new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0))));
}

function writeInput(model, bytes) {
  const place = call(model, "input", bytes.length);
  new Uint8Array(model.decoder.memory.buffer, place, bytes.length).set(bytes);
}

/** The texts of the best translations of ids that end with END. */
function search(model, source, count) {
  const { beamSize, minLength, longestTarget } = model;
  const maxLength = Math.min(source.length - 1 + model.maxExtraTokens, longestTarget - 1);
  const head = [beamSize, count, minLength, maxLength, source.length, 0];
  const penalties = Float32Array.from({ length: maxLength + 2 }, (_, n) => ((5 + n) / 6) ** model.lengthPenalty);
  const request = new Uint8Array(4 * (head.length + source.length) + penalties.byteLength);
  request.set(new Uint8Array(Int32Array.from([...head, ...source]).buffer));
  request.set(new Uint8Array(penalties.buffer), 4 * (head.length + source.length));
  writeInput(model, request);
  const place = call(model, "translate"); // it may move the memory
  const answer = new Int32Array(model.decoder.memory.buffer, place);
  if (!answer[0]) throw new Error("The model is damaged: its probabilities are not finite.");
  const texts = [];
  for (let hypothesis = 0, at = 1; hypothesis < answer[0]; hypothesis++, at += 1 + answer[at])
    texts.push(oneLine(model.target.decode([...answer.subarray(at + 1, at + 1 + answer[at])])));
  return texts;
}

// Sentences

function translateSentence(model, sentence) {
  const { known } = model;
  if (known.has(sentence)) return known.get(sentence);
  const parts = partsOf(model, sentence);
  const isOwn = parts.length === 1 && parts[0].length === 1; // blank, or without letters
  const text = isOwn ? oneLine(sentence) : join(parts.map((ids) => search(model, ids, 1)[0]).filter(Boolean));
  if (known.size >= REMEMBERED) known.clear();
  known.set(sentence, text);
  return text;
}

/** The ids of a sentence in parts that the model can read, each with END; END alone if no search is needed. */
function partsOf(model, sentence) {
  const isOwn = !/\p{L}/u.test(sentence) && model.hasLetters;
  if (isOwn || !sentence.trim()) return [[END]];
  return split([...model.source.encode(sentence.replace(INVISIBLE, "")), END], model.source, model.longestPart);
}

/** As translation/segmentation.py: a part ends after punctuation if its second half contains any, else between
 * words, else between any two characters. */
function split(ids, tokenizer, longest) {
  const pieces = ids.map((id) => tokenizer.pieces[id].text);
  const parts = [];
  let first = 0;
  while (ids.length - first > longest) {
    const last = bestSplit(pieces, first, first + longest - 1);
    parts.push([...ids.slice(first, last), END]);
    first = last;
  }
  return [...parts, ids.slice(first)];
}

function bestSplit(pieces, first, last) {
  const isInside = (piece) => /^<0x[89AB][0-9A-F]>$/.test(piece); // a byte that continues a character
  const all = Array.from({ length: last - first }, (_, index) => first + 1 + index);
  const places = all.filter((place) => !isInside(pieces[place]));
  const words = places.filter((place) => pieces[place].startsWith(SPACE));
  const pauses = places.filter((place) => 2 * (place - first) >= last - first && isPause(pieces, place));
  return [pauses, words, places, [last]].find((candidates) => candidates.length).at(-1);
}

function isPause(pieces, place) {
  const before = textOfPieces(pieces.slice(Math.max(place - 4, 0), place));
  const after = textOfPieces(pieces.slice(place, place + 4));
  const isEndOfWord = after.startsWith(SPACE) || after.slice(0, 1) >= FIRST_WIDE;
  return WIDE_PAUSES.test(before) || (PAUSES.test(before) && isEndOfWord);
}

/** The text of pieces, without bytes that are not a whole character. */
function textOfPieces(pieces) {
  const bytes = pieces.flatMap((piece) => {
    const byte = piece.match(/^<0x([0-9A-F]{2})>$/);
    return byte ? [parseInt(byte[1], 16)] : [...new TextEncoder().encode(piece)];
  });
  return new TextDecoder().decode(Uint8Array.from(bytes)).replaceAll("\ufffd", "");
}

function join(texts) {
  const isLast = (index) => index === texts.length - 1;
  return texts.map((text, index) => (isLast(index) || WIDE_PAUSES.test(text) ? text : `${text} `)).join("");
}

/** A text with spaces in the place of line breaks; "" for a blank one. */
function oneLine(text) {
  return text.trim() ? text.replace(new RegExp(`(?:${LINE_BREAK.source})$`), "").replace(LINE_BREAK, " ") : "";
}

// Texts

/** The sentences of a text, each with its place. A model that knows texts of several sentences reads lines whole. */
function* sentences({ cutsSentences, languages }, text) {
  const segmenter = new Intl.Segmenter(languages.source, { granularity: "sentence" });
  for (const { 0: line, index } of text.matchAll(LINE)) {
    const parts = cutsSentences ? [...segmenter.segment(line)] : [];
    if (parts.length < 2 && line.trim()) yield [index, line];
    else
      for (const part of parts) {
        const sentence = part.segment.trim();
        if (sentence) yield [index + part.index + part.segment.indexOf(sentence), sentence];
      }
  }
}

/** What stands between the translations of two sentences. Scripts without spaces between words have none between
 * sentences either. */
function gapBetween(gap, former, next) {
  if (!["", " "].includes(gap)) return gap;
  if (!next.text) return "";
  const isUnspaced = (one, other) => [one.at(-1), other[0]].map((letter) => UNSPACED.test(letter ?? ""));
  const count = isUnspaced(former.text, next.text).filter(Boolean).length;
  if (!gap && count === 0 && isUnspaced(former.source, next.source).some(Boolean)) return " ";
  return count === 2 ? "" : gap;
}
