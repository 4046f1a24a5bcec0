// Names of the statistics of heads, which inspection/analyse/statistics.py computes and defines.

/** The statistics of a kind: {key, name, unit}. */
export function statisticNames(kind) {
  const edge = kind === "decoder" ? "START" : "END";
  const names = [
    { key: "entropy", name: "Entropy", unit: "nats" },
    { key: "distance", name: "Mean distance", unit: "tokens" },
    { key: "previous", name: "Share on the previous position", unit: "" },
    { key: "same", name: "Share on the same position", unit: "" },
    { key: "next", name: "Share on the next position", unit: "" },
    { key: "edge", name: `Share on ${edge}`, unit: "" },
    { key: "punctuation", name: "Share on punctuation", unit: "" },
  ];
  const alignment = { key: "alignment", name: "Agreement with the word alignment", unit: "" };
  return kind === "cross" ? [...names, alignment] : names;
}
