// Earlier translations, in this browser only (localStorage). Without storage there is no history.

import { recall, store } from "./storage.js";

const ENTRIES = "dragoman.history";
const OFF = "dragoman.history.off";
const MAX_ENTRIES = 50;
const MAX_CHARACTERS = 20_000; // of an entry: longer texts are not kept

export const isOn = () => recall(OFF) === null;

/** Switching the history off also clears it. */
export function switchTo(on) {
  store(OFF, on ? null : "1");
  if (!on) clear();
}

export const clear = () => store(ENTRIES, null);

/** Entries {text, translation, source, target}, the latest first. */
export function entries() {
  try {
    const stored = JSON.parse(recall(ENTRIES) ?? "[]");
    return Array.isArray(stored) ? stored : [];
  } catch {
    return [];
  }
}

/** Adds an entry. former: the entry of the text before it was typed on or shortened, or null; it goes. */
export function add(entry, former) {
  if (!isOn() || entry.text.length + entry.translation.length > MAX_CHARACTERS) return;
  const samePair = former?.source === entry.source && former.target === entry.target;
  if (samePair && (entry.text.startsWith(former.text) || former.text.startsWith(entry.text))) remove(former);
  const kept = entries().filter((old) => old.text !== entry.text || old.target !== entry.target);
  store(ENTRIES, JSON.stringify([entry, ...kept].slice(0, MAX_ENTRIES)));
}

/** Removes an entry, which may have another place by now: other tabs have the same history. */
export function remove({ text, target }) {
  const kept = entries().filter((old) => old.text !== text || old.target !== target);
  store(ENTRIES, JSON.stringify(kept));
}
