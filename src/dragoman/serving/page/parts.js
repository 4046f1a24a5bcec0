// Long texts are translated in parts, so that each request ends before the server's deadline.

export const PART = 4000; // UTF-16 units

/** A text in parts of at most `size` units, if its lines and sentences allow that. Joined they are the text, and
 * none is blank but of a blank text. */
export function parts(text, size = PART) {
  const lines = text.match(/[^\n]*\n+|[^\n]+$/g) ?? [];
  const pieces = lines.flatMap((line) => (line.length > size ? sentences(line) : [line]));
  const found = [];
  for (const piece of pieces) {
    const last = found.at(-1);
    const isBlank = !piece.trim() || !last?.trim();
    if (last !== undefined && (isBlank || last.length + piece.length <= size)) found[found.length - 1] += piece;
    else found.push(piece);
  }
  return found.length ? found : [text];
}

function sentences(line) {
  const segmenter = new Intl.Segmenter(undefined, { granularity: "sentence" });
  return [...segmenter.segment(line)].map(({ segment }) => segment);
}
