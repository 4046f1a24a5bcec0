// Words in place of tokens, as inspection/words.py defines them: the weights to the tokens of a word are
// summed, the queries of a word are averaged.

/** Word numbers without gaps: a word has no token of its own if an unknown token spans several. */
export function numbered(words) {
  const present = [...new Set(words)].sort((one, other) => one - other);
  const numbers = new Map(present.map((word, number) => [word, number]));
  return words.map((word) => numbers.get(word));
}

/** The text of each word, by its number: its tokens without SentencePiece's sign for a space. */
export function wordsOf(tokens, words) {
  const texts = [];
  tokens.forEach((token, place) => {
    texts[words[place]] = (texts[words[place]] ?? "") + token.replaceAll("▁", "");
  });
  return Array.from(texts, (text) => text ?? "");
}

/** The weights between words, from those between tokens. queries, keys: the word of each token. */
export function merged(weights, queries, keys) {
  const columns = keys.at(-1) + 1;
  const sums = new Float32Array((queries.at(-1) + 1) * columns);
  const sizes = new Float32Array(queries.at(-1) + 1);
  queries.forEach((word, query) => {
    sizes[word] += 1;
    keys.forEach((other, key) => {
      sums[word * columns + other] += weights[query * keys.length + key];
    });
  });
  return sums.map((sum, place) => sum / sizes[Math.floor(place / columns)]);
}
