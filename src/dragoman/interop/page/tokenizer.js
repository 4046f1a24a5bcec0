// Text to ids and back, as SentencePiece does it with the same model file (Kudo and Richardson 2018).
//
// The file is a protocol buffer: pieces with their scores and types, the algorithm, and the rules of normalisation,
// which are a double-array trie of UTF-8 sequences and the texts that replace them.
// Oracle: text/tokenizer.py. Tested: tests/test_web.py::test_ids_and_texts_are_those_of_sentencepiece.

export const [PAD, UNKNOWN, START, END] = [0, 1, 2, 3]; // as model/symbols.py
const [NORMAL, CONTROL, USER_DEFINED, UNUSED, BYTE] = [1, 3, 4, 5, 6]; // types of pieces
const [UNIGRAM, BPE, WORD] = [1, 2, 3]; // algorithms; the fourth is characters
const SPACE = "▁";
const REPLACEMENT = "\ufffd";
const UNKNOWN_PENALTY = 10; // of an unknown character in unigram models, below the least score of a piece

const utf8 = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** The fields [number, value] of a message: numbers, or the bytes of strings, messages and floats. */
function* fields(bytes) {
  let place = 0;
  const varint = () => {
    for (let value = 0, factor = 1; ; factor *= 128) {
      if (place >= bytes.length) throw new Error("The vocabulary is cut off.");
      const byte = bytes[place++];
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  };
  while (place < bytes.length) {
    const key = varint();
    if (key % 8 === 0) {
      yield [key >>> 3, varint()];
      continue;
    }
    const size = { 1: 8, 5: 4 }[key % 8] ?? varint();
    yield [key >>> 3, bytes.subarray(place, (place += size))];
  }
}

const messageOf = (bytes) => Object.fromEntries(fields(bytes)); // of repeated fields the last
const textOf = (bytes) => decoder.decode(bytes ?? new Uint8Array());
const floatOf = (bytes) => (bytes ? new DataView(bytes.buffer, bytes.byteOffset).getFloat32(0, true) : 0);
const isContinuation = (byte) => (byte & 0xc0) === 0x80;

/** A vocabulary, with the way in which it splits text into tokens. */
export class Tokenizer {
  pieces = []; // {text, score, type} by ids
  #ids = new Map(); // of pieces of text
  #reserved = new Map(); // of special tokens and bytes, which no text is
  #symbols = []; // user-defined pieces, the longest first
  #longest = 1; // code points of a piece

  constructor(model) {
    let trainer = {};
    let rules = {};
    for (const [number, value] of fields(model)) {
      if (number === 1) this.#add(messageOf(value));
      if (number === 2) trainer = messageOf(value);
      if (number === 3) rules = messageOf(value);
    }
    this.kind = trainer[3] ?? UNIGRAM;
    this.hasByteFallback = Boolean(trainer[35]);
    this.unknownText = trainer[44] ? textOf(trainer[44]) : " ⁇ ";
    this.addsSpace = Boolean(rules[3] ?? true);
    this.trims = Boolean(rules[4] ?? true); // and joins adjacent spaces
    this.#symbols.sort((one, other) => other.length - one.length);
    const scores = this.pieces.filter(({ type }) => type === NORMAL).map(({ score }) => score);
    this.most = scores.reduce((most, score) => Math.max(most, score), 2 ** -126); // C++'s FLT_MIN
    this.least = scores.reduce((least, score) => Math.min(least, score), Infinity);
    const map = rules[2]?.length ? rules[2].slice() : new Uint8Array(4); // aligned
    const size = new DataView(map.buffer).getUint32(0, true);
    this.trie = new Uint32Array(map.buffer.slice(4, 4 + size));
    this.replacements = map.subarray(4 + size); // each ends with a 0
  }

  #add({ 1: bytes, 2: score, 3: type = NORMAL }) {
    const text = textOf(bytes);
    const id = this.pieces.push({ text, score: floatOf(score), type }) - 1;
    (type === NORMAL || type === USER_DEFINED || type === UNUSED ? this.#ids : this.#reserved).set(text, id);
    if (type === USER_DEFINED) this.#symbols.push(text);
    this.#longest = Math.max(this.#longest, [...text].length);
  }

  /** The ids of a line, without END. A vocabulary of words has one unknown token for each unknown word. */
  encode(line) {
    const isOfWords = this.unknownText === ` ${REPLACEMENT}`;
    const parts = isOfWords ? line.split(" ") : [line];
    return parts.flatMap((part) => this.#idsOf(this.#split(this.normalize(part))));
  }

  /** The text of ids without END; PAD and START are passed over. */
  decode(ids) {
    const tokens = ids.filter((id) => id !== PAD && id !== START);
    let text = "";
    let bytes = [];
    const endBytes = () => {
      text += textOfBytes(bytes);
      bytes = [];
    };
    let isFirst = true; // nothing, or spaces alone, have been before
    for (const id of tokens) {
      const { text: piece, type } = this.pieces[id];
      if (type === BYTE) {
        bytes.push(parseInt(piece.slice(3, 5), 16));
        continue;
      }
      endBytes();
      if (text) isFirst = false;
      if (type === CONTROL) continue;
      if (id === UNKNOWN) text += this.unknownText;
      else {
        const isSpaced = isFirst && (this.addsSpace || this.trims) && piece.startsWith(SPACE);
        text += (isSpaced ? piece.slice(1) : piece).replaceAll(SPACE, " ");
        if (isSpaced && !this.trims) isFirst = false;
      }
    }
    endBytes();
    return tokens[0] === UNKNOWN ? text.replace(/^ /, "") : text;
  }

  /** The normalised text, with ▁ for spaces. */
  normalize(line) {
    const bytes = utf8.encode(line);
    let text = "";
    let isAfterSpace = this.trims;
    for (let place = 0; place < bytes.length; ) {
      const [length, prefix] = this.#normalizePrefix(bytes, place);
      place += length;
      const more = isAfterSpace ? prefix.replace(/^ +/, "") : prefix;
      text += more;
      if (more) isAfterSpace = this.trims && more.endsWith(" ");
    }
    text = text.replaceAll(" ", SPACE);
    if (this.trims) text = text.replace(/▁+$/, "");
    return this.addsSpace && (this.trims ? text : line) ? SPACE + text : text;
  }

  /** How many bytes from a place on are replaced together, and by what. */
  #normalizePrefix(bytes, start) {
    if (this.#symbols.length) {
      const symbol = this.#symbolAt(textOf(bytes.subarray(start, start + 4 * this.#longest)));
      if (symbol) return [utf8.encode(symbol).length, symbol];
    }
    const { trie } = this;
    let [length, value] = [0, 0];
    const offset = (unit) => (unit >>> 10) << ((unit & 512) >>> 6);
    for (let place = start, node = offset(trie[0]); place < bytes.length && trie.length; place++) {
      node = (node ^ bytes[place]) >>> 0;
      const unit = trie[node] ?? 0;
      if (((unit & 0x800000ff) >>> 0) !== bytes[place]) break;
      node = (node ^ offset(unit)) >>> 0;
      if (unit & 256) [length, value] = [place + 1 - start, trie[node] & 0x7fffffff];
    }
    if (length) return [length, textOf(this.replacements.subarray(value, this.replacements.indexOf(0, value)))];
    for (length = 1; isContinuation(bytes[start + length]); ) length++;
    return [length, textOf(bytes.subarray(start, start + length))];
  }

  #symbolAt(text) {
    return this.#symbols.find((symbol) => text.startsWith(symbol));
  }

  /** The ids of pieces: unknown ones are their bytes, or, if several are adjacent, one unknown token. */
  #idsOf(pieces) {
    const ids = [];
    let isAfterUnknown = false;
    for (const piece of pieces) {
      const id = this.#idOf(piece);
      const isUnknown = id === UNKNOWN;
      if (isUnknown && this.hasByteFallback) ids.push(...[...utf8.encode(piece)].map((byte) => this.#idOfByte(byte)));
      else if (!isUnknown || !isAfterUnknown) ids.push(id);
      isAfterUnknown = isUnknown;
    }
    return ids;
  }

  #idOf(piece) {
    return this.#reserved.get(piece) ?? this.#ids.get(piece) ?? UNKNOWN;
  }

  #idOfByte(byte) {
    return this.#reserved.get(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`) ?? UNKNOWN;
  }

  #split(text) {
    if (this.kind === UNIGRAM) return this.#likeliest([...text]);
    if (this.kind === BPE) return this.#merged(this.#characters(text));
    if (this.kind === WORD) return text.match(/▁?[^▁]+|▁/g) ?? [];
    return this.#characters(text);
  }

  /** Characters, and symbols in one. */
  #characters(text) {
    if (!this.#symbols.length) return [...text];
    const characters = [];
    for (let place = 0; place < text.length; place += characters.at(-1).length)
      characters.push(this.#symbolAt(text.slice(place)) ?? String.fromCodePoint(text.codePointAt(place)));
    return characters;
  }

  /** The pieces of the highest score in sum (Viterbi), in float32 where SentencePiece has it. */
  #likeliest(characters) {
    const unknownScore = Math.fround(this.least - UNKNOWN_PENALTY);
    const best = characters.map(() => null); // for each end the best last piece: {start, score}
    best.push(null);
    best[0] = { start: 0, score: 0 };
    const offer = (start, end, score) => {
      if (!best[end] || score > best[end].score) best[end] = { start, score: Math.fround(score) };
    };
    for (let start = 0; start < characters.length; start++) {
      const { score: before } = best[start];
      let piece = "";
      let hasOne = false;
      for (let end = start + 1; end <= Math.min(characters.length, start + this.#longest); end++) {
        piece += characters[end - 1];
        const { score, type } = this.pieces[this.#ids.get(piece)] ?? { type: UNUSED };
        if (type === UNUSED) continue;
        hasOne ||= end === start + 1;
        const isSymbol = type === USER_DEFINED;
        offer(start, end, before + (isSymbol ? Math.fround(utf8.encode(piece).length * this.most) - 0.1 : score));
      }
      if (!hasOne) offer(start, start + 1, Math.fround(before + unknownScore));
    }
    const pieces = [];
    for (let end = characters.length; end > 0; end = best[end].start)
      pieces.push(characters.slice(best[end].start, end).join(""));
    return pieces.reverse();
  }

  /** Adjacent parts are joined as long as a piece of the vocabulary results, of the highest score first. */
  #merged(parts) {
    const next = parts.map((_, index) => index + 1);
    const before = parts.map((_, index) => index - 1);
    const isSymbol = parts.map((part) => this.#symbols.includes(part));
    const halves = new Map(); // of unused pieces, which are not kept
    const queue = new Queue();
    const consider = (left, right) => {
      if (left < 0 || right >= parts.length || isSymbol[left] || isSymbol[right]) return;
      const joined = parts[left] + parts[right];
      const id = this.#ids.get(joined);
      if (id === undefined) return;
      queue.push({ left, right, joined, score: this.pieces[id].score });
      if (this.pieces[id].type === UNUSED) halves.set(joined, [parts[left], parts[right]]);
    };
    for (let right = 1; right < parts.length; right++) consider(right - 1, right);
    for (let pair = queue.pop(); pair; pair = queue.pop()) {
      const { left, right, joined } = pair;
      if (!parts[left] || !parts[right] || parts[left].length + parts[right].length !== joined.length) continue;
      parts[left] = joined;
      parts[right] = "";
      next[left] = next[right];
      if (next[left] < parts.length) before[next[left]] = left;
      consider(before[left], left);
      consider(left, next[left]);
    }
    const whole = (part) => (halves.has(part) ? halves.get(part).flatMap(whole) : [part]);
    return parts.filter(Boolean).flatMap(whole);
  }
}

/** Pairs, of which the highest score comes first, of equal ones the leftmost: a binary heap. */
class Queue {
  #pairs = [];

  push(pair) {
    const pairs = this.#pairs;
    let place = pairs.push(pair) - 1;
    for (let above; place && isBefore(pair, pairs[(above = (place - 1) >> 1)]); place = above) {
      pairs[place] = pairs[above];
      pairs[above] = pair;
    }
  }

  pop() {
    const pairs = this.#pairs;
    const [first] = pairs;
    const last = pairs.pop();
    if (!pairs.length) return first;
    pairs[0] = last;
    for (let place = 0, below; (below = 2 * place + 1) < pairs.length; place = below) {
      if (below + 1 < pairs.length && isBefore(pairs[below + 1], pairs[below])) below++;
      if (!isBefore(pairs[below], last)) break;
      pairs[place] = pairs[below];
      pairs[below] = last;
    }
    return first;
  }
}

function isBefore(one, other) {
  return one.score > other.score || (one.score === other.score && one.left < other.left);
}

/** The text of bytes; each that is of no character is U+FFFD. */
function textOfBytes(bytes) {
  let text = "";
  for (let place = 0; place < bytes.length; ) {
    const first = bytes[place];
    const length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    const own = new Uint8Array(bytes.slice(place, place + length));
    const character = textOf(own);
    const isOne = own.length === length && utf8.encode(character).length === length && [...character].length === 1;
    text += isOne ? character : REPLACEMENT;
    place += isOne ? length : 1;
  }
  return text;
}
