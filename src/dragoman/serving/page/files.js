// Files that are saved, sizes of files, and the clipboard.

import { number, plural, t } from "./i18n.js";

/** Saves a file under a name. */
export function save(content, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Bytes in words: 950 bytes, 24 kB, 1.5 MB. */
export function sizeInWords(bytes) {
  if (bytes < 1000) return plural(bytes, "{n} byte", "{n} bytes");
  const inUnits = (value) => number(value, { maximumFractionDigits: value < 10 ? 1 : 0 });
  if (bytes < 999_500) return t("{size} kB", { size: inUnits(bytes / 1e3) });
  return t("{size} MB", { size: inUnits(bytes / 1e6) });
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
