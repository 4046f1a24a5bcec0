// Statistics of one head's attention weights, as means over its queries.

/** The statistics: {key, name, unit}. edge: START for the decoder's self-attention, else END. */
export function statisticNames(kind) {
  const edge = kind === "decoder" ? "START" : "END";
  return [
    { key: "entropy", name: "Entropy", unit: "nats" },
    { key: "distance", name: "Mean distance", unit: "tokens" },
    { key: "previous", name: "Share on the previous token", unit: "" },
    { key: "same", name: "Share on the same token", unit: "" },
    { key: "next", name: "Share on the next token", unit: "" },
    { key: "edge", name: `Share on ${edge}`, unit: "" },
  ];
}

/** Of the weights of a head [queries, keys]: entropy in nats, |query − key| in tokens, shares from 0 to 1.
 * edge: the place of START or END among the keys. */
export function statistics(weights, keys, edge) {
  const queries = weights.length / keys;
  const sums = { entropy: 0, distance: 0, previous: 0, same: 0, next: 0, edge: 0 };
  weights.forEach((weight, place) => {
    const query = Math.floor(place / keys);
    const key = place % keys;
    if (weight > 0) sums.entropy -= weight * Math.log(weight);
    sums.distance += weight * Math.abs(query - key);
    if (key === query - 1) sums.previous += weight;
    if (key === query) sums.same += weight;
    if (key === query + 1) sums.next += weight;
    if (key === edge) sums.edge += weight;
  });
  return Object.fromEntries(Object.entries(sums).map(([name, sum]) => [name, sum / queries]));
}
