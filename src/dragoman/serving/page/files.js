// Files that are dropped on the page or opened, and the download of a translation.

const MAX_BYTES = 2_000_000;
const FORMATS = new Map([["txt", "text"], ["html", "html"], ["htm", "html"]]);

/** {name, text, format} of a file; throws an Error whose message is a sentence. */
export async function readFile(file) {
  const format = FORMATS.get(file.name.split(".").pop().toLowerCase());
  if (!format) throw new Error(`“${file.name}” is neither a text file (.txt) nor a web page (.html).`);
  if (file.size > MAX_BYTES)
    throw new Error(`“${file.name}” is larger than 2 MB, the limit of this page.`);
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    return { name: file.name, text: text.replace(/\r\n?/g, "\n"), format };
  } catch {
    throw new Error(`“${file.name}” is not a text file in UTF-8.`);
  }
}

/** Saves a translation beside its source: page.html becomes page.de.html. */
export function download(name, language, text, format) {
  const blob = new Blob([text], { type: format === "html" ? "text/html" : "text/plain" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replace(/(\.\w+)$/, `.${language}$1`);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** navigator.clipboard is missing where the page does not come by HTTPS or from this machine. */
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const before = document.activeElement;
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  before?.focus();
  if (!copied) throw new Error("The browser did not allow copying.");
}
