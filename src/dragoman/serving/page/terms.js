// Terms: words and phrases with their translations. They come from a glossary of the server and from the reader,
// and belong to a pair of languages; to a language that is to be detected, and to two that a third
// one joins, belong none.

import * as api from "./api.js";
import { recall, store } from "./storage.js";

const GLOSSARY = "dragoman.glossary"; // the one chosen last
const ROWS = "dragoman.terms"; // the reader's rows by languages: {"en-de": [["dog", "Hund"]]}
export const PAGE = 50; // terms of a glossary that are shown at once

export class Terms {
  glossaries = []; // the server's: {id, name, dictionaries: [{source, target, terms}]}
  glossary = recall(GLOSSARY) ?? ""; // the id of the chosen one, or ""
  terms = []; // the reader's, [term, translation]; another array if they are others
  isOpen = false; // the panel
  list = null; // terms of the chosen glossary: {start, first, terms, total, message}; first: of `terms`

  #changed;
  #source = "auto";
  #target = "";
  #isDirect = true;
  #rows = storedRows(); // of all languages
  #request = new AbortController();

  constructor(changed) {
    this.#changed = changed;
  }

  /** What a request says of terms. */
  get chosen() {
    const { glossary, terms } = this;
    return { glossary: glossary || undefined, terms: terms.length ? terms : undefined };
  }

  /** Whether there can be terms: the languages are known, and a model has both. */
  get isPair() {
    return this.#isDirect && this.#source !== "auto" && this.#target !== "";
  }

  /** The glossaries with terms of the chosen languages. */
  get fitting() {
    const fits = ({ source, target }) => isSameLanguage(source, this.#source) && isSameLanguage(target, this.#target);
    return this.isPair ? this.glossaries.filter(({ dictionaries }) => dictionaries.some(fits)) : [];
  }

  get name() {
    return this.glossaries.find(({ id }) => id === this.glossary)?.name ?? "";
  }

  /** Other languages have their own rows, and drop a glossary without terms of them. */
  setPair(source, target, isDirect = true) {
    const isOther = source !== this.#source || target !== this.#target || isDirect !== this.#isDirect;
    this.#isDirect = isDirect;
    this.#source = source;
    this.#target = target;
    if (isOther) this.#complete();
    if (!this.fitting.some(({ id }) => id === this.glossary)) this.choose("");
    else if (isOther) this.#list();
  }

  choose(glossary) {
    this.glossary = glossary;
    store(GLOSSARY, glossary || null);
    this.#list();
  }

  // The reader's terms

  get #languages() {
    return `${this.#source}-${this.#target}`;
  }

  /** The reader's rows for the languages: [term, translation] as they are typed. */
  get rows() {
    return (this.isPair && this.#rows[this.#languages]) || [];
  }

  set rows(rows) {
    this.#rows[this.#languages] = rows.length ? rows : undefined;
  }

  /** Changes a side of a row; the row after the last one is a new one. */
  edit(number, side, text) {
    const row = this.rows[number] ?? ["", ""];
    this.rows = this.rows.toSpliced(number, 1, row.with(side, text));
    this.#changed();
  }

  remove(number) {
    this.rows = this.rows.toSpliced(number, 1);
  }

  /** Takes the rows as they are, without blank ones. Returns whether the terms are others than before. */
  take() {
    this.rows = this.rows.filter((row) => row.some((text) => text.trim()));
    const all = { ...storedRows(), [this.#languages]: this.#rows[this.#languages] }; // also of other tabs
    store(ROWS, Object.values(all).some(Boolean) ? JSON.stringify(all) : null);
    return this.#complete();
  }

  #complete() {
    const trimmed = this.rows.map((row) => row.map((text) => text.trim()));
    const terms = trimmed.filter((row) => row.every(Boolean));
    if (JSON.stringify(terms) === JSON.stringify(this.terms)) return false;
    this.terms = terms;
    return true;
  }

  // The glossary's terms

  open(isOpen) {
    this.isOpen = isOpen;
    this.#list();
  }

  #list() {
    this.list = null;
    this.show(0);
  }

  /** Shows terms of the chosen glossary. Others of it stay until these come; a later call replaces this. */
  async show(start) {
    this.#request.abort();
    this.#request = new AbortController();
    const { signal } = this.#request;
    const { glossary, isOpen } = this;
    const list = { first: 0, terms: null, total: 0, ...this.list, start, message: "" };
    this.list = isOpen && glossary ? list : null;
    this.#changed();
    if (!this.list) return;
    try {
      const request = () => api.fetchTerms(glossary, this.#source, this.#target, start, PAGE, signal);
      const { terms, terms_total: total } = await api.patiently(request, signal);
      if (this.list === list) this.list = { ...list, first: start, terms, total };
    } catch (error) {
      if (this.list === list) this.list = { ...list, message: error.message };
    }
    this.#changed();
  }
}

/** Whether two codes are of the same language, regions aside; that of a model may be unknown. */
function isSameLanguage(code, other) {
  const [one, another] = [code, other].map((each) => each.toLowerCase().split(/[-_]/)[0]);
  return one === another || one === "und" || another === "und";
}

/** The stored rows by languages. */
function storedRows() {
  try {
    const isRow = (row) => row.length === 2 && row.every((text) => typeof text === "string");
    const stored = Object.entries(JSON.parse(recall(ROWS) ?? "{}"));
    return Object.fromEntries(stored.filter(([, rows]) => rows.length && rows.every(isRow)));
  } catch {
    return {};
  }
}
