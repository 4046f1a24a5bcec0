// The data of the report: docs/inspection-data.md describes the JSON. Arrays are decoded where they are read.

/** The table of an inspection, with its arrays as {shape, values}. */
export function decoded(table) {
  const all = (arrays) =>
    Object.fromEntries(Object.entries(arrays).map(([name, array]) => [name, decode(array)]));
  const { attention, projections, stream, positions, masks, neurons, attribution, value_zeroing } = table;
  return {
    ...table,
    attention: all(attention),
    projections: Object.fromEntries(Object.entries(projections).map(
      ([kind, { layers, heads, ...arrays }]) => [kind, { layers, heads, ...all(arrays) }],
    )),
    stream: all(stream),
    positions: decode(positions),
    attribution: attribution && Object.fromEntries(Object.entries(attribution).map(
      ([name, each]) => [name, each?.float16 === undefined ? each : decode(each)],
    )),
    value_zeroing: value_zeroing && all(value_zeroing),
    neurons: neurons && Object.fromEntries(Object.entries(neurons).map(
      ([side, table]) => [side, Object.assign(decode(table), { active: decode(table.active) })],
    )),
    masks: masks && { ...masks, ...Object.fromEntries(MASKS.map((name) => [name, decodeBits(masks[name])])) },
  };
}

export const KINDS = [ // of attention
  ["encoder", "Encoder self-attention"],
  ["decoder", "Decoder self-attention"],
  ["cross", "Encoder-decoder attention"],
];
const MASKS = ["encoder", "cross", "decoder"];

/** {shape, values} of shares of 1, which have a byte each in base64. */
function decodeShares({ shape, uint8 }) {
  const text = atob(uint8);
  return { shape, values: Float32Array.from(text, (byte) => byte.charCodeAt(0) / 255) };
}

/** {shape, values} of a mask: 1 where attending is allowed. It has a bit for each cell, in base64. */
function decodeBits({ shape, bits }) {
  const text = atob(bits);
  const bit = (_, place) => (text.charCodeAt(place >> 3) >> (7 - (place & 7))) & 1;
  return { shape, values: Float32Array.from({ length: shape[0] * shape[1] }, bit) };
}

/** {shape, values} and what else the table has: the numbers of a base64 text of float16, little-endian, in
 * row-major order. They are decoded when they are read. */
function decode({ float16, overview, mean, words, ...others }) {
  let values = null;
  return {
    ...others,
    overview: overview ? decode(overview) : null,
    mean: mean ? decode(mean) : null,
    words: words && decodeShares(words),
    get values() {
      values ??= numbersOf(float16);
      return values;
    },
  };
}

function numbersOf(base64) {
  const text = atob(base64);
  const values = new Float32Array(text.length / 2);
  for (let place = 0; place < values.length; place++) {
    values[place] = HALVES[text.charCodeAt(2 * place) | (text.charCodeAt(2 * place + 1) << 8)];
  }
  return values;
}

const HALVES = Float32Array.from({ length: 65536 }, (_, bits) => fromHalf(bits));

function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** The part of an array at these first indices: its matrix or row. */
export function part({ shape, values }, ...indices) {
  const size = shape.slice(indices.length).reduce((product, length) => product * length, 1);
  let place = 0;
  indices.forEach((index, axis) => {
    place = place * shape[axis] + index;
  });
  return values.subarray(place * size, (place + 1) * size);
}

/** The names of the decoder's keys: START and the tokens before each query. */
export function decoderKeys({ beam, target }) {
  return [beam.nodes[0].token, ...target.tokens.slice(0, -1)];
}
