// A translation as a file: a text, a web page, or both languages side by side. All functions are pure.

export const FORMATS = {
  txt: { ending: "txt", type: "text/plain", write: ({ text }) => text },
  html: { ending: "html", type: "text/html", write: toHtml },
  tsv: { ending: "tsv", type: "text/tab-separated-values", write: toTsv },
  tmx: { ending: "tmx", type: "application/xml", write: toTmx },
};

/** The translation as a file {name, content}. */
export function fileOf(result, { ending, type, write }) {
  const content = new Blob([write(result)], { type: `${type};charset=utf-8` });
  return { name: `translation.${result.target}.${ending}`, content };
}

/** A paragraph for each line that is not blank. */
function toHtml({ text, target }) {
  const lines = text.split("\n").filter((line) => line.trim());
  const body = lines.map((line) => `<p dir="auto">${escaped(line)}</p>\n`).join("");
  return `<!doctype html>\n<html lang="${escaped(target)}">\n<meta charset="utf-8">\n<title>${
    escaped(lines[0]?.slice(0, 80) ?? "")}</title>\n${body}</html>\n`;
}

/** The sentences, each with its translation. */
export function pairs({ sentences, sourceText, text }) {
  return sentences.map(({ sourceStart, sourceEnd, start, end }) => [
    sourceText.slice(sourceStart, sourceEnd),
    text.slice(start, end),
  ]);
}

/** A line for each sentence; its own tabs and line ends are spaces. */
function toTsv(result) {
  const line = (pair) => `${pair.map((side) => side.replace(/\s+/g, " ").trim()).join("\t")}\n`;
  return pairs(result).map(line).join("");
}

function toTmx(result) {
  const { source, target } = result;
  const side = (code, text) => `<tuv xml:lang="${escaped(code)}"><seg>${escaped(text)}</seg></tuv>`;
  const units = pairs(result).map(([from, to]) => `<tu>${side(source, from)}${side(target, to)}</tu>\n`);
  return `<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n<header creationtool="Dragoman" \
creationtoolversion="1" segtype="sentence" o-tmf="plain" adminlang="en" srclang="${escaped(source)}" \
datatype="plaintext"/>\n<body>\n${units.join("")}</body>\n</tmx>\n`;
}

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** A text for markup, without the control characters that XML does not have. */
function escaped(text) {
  return text
    .replace(/[^\t\n\r -\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd")
    .replace(/[&<>"]/g, (character) => ENTITIES[character]);
}
