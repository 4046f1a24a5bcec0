// Earlier translations, in this browser only (localStorage). Without storage there is no history.

const ENTRIES = "dragoman.history";
const OFF = "dragoman.history.off";
const MOST_ENTRIES = 50;
const MOST_CHARACTERS = 20_000; // of an entry: longer texts are not kept

/** The stored string, or null; also null where storage is switched off. */
export function recall(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** Stores a string; null removes it. A full or disabled storage keeps nothing. */
export function store(name, value) {
  try {
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch {
    // Nothing is kept.
  }
}

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

/** Adds an entry. continues: it replaces the latest one if that text was typed on or shortened. */
export function add(entry, continues) {
  if (!isOn() || entry.text.length + entry.translation.length > MOST_CHARACTERS) return;
  const kept = entries().filter((old) => old.text !== entry.text || old.target !== entry.target);
  const latest = kept[0];
  const samePair = latest?.source === entry.source && latest?.target === entry.target;
  if (continues && samePair && (entry.text.startsWith(latest.text) || latest.text.startsWith(entry.text))) kept.shift();
  store(ENTRIES, JSON.stringify([entry, ...kept].slice(0, MOST_ENTRIES)));
}

/** Removes an entry, which may have another place by now: other tabs have the same history. */
export function remove({ text, target }) {
  const kept = entries().filter((old) => old.text !== text || old.target !== target);
  store(ENTRIES, JSON.stringify(kept));
}
