// Files that are translated, one after another.
//
// Each run of a file has a controller. A file that is cancelled or started again gets another one, and what the
// former run still brings is dropped.

import * as api from "./api.js";
import { save } from "./files.js";
import { plural, t } from "./i18n.js";

export const PAGE = 50; // sentences that are shown at once

export class Documents {
  list = []; // each is made by `add`
  menu = null; // alternatives of a word: {file, sentence, start, prefix, items, message}
  announcement = "";

  #session;
  #changed;
  #added = 0;
  #alternatives = new AbortController();

  constructor(session, changed) {
    this.#session = session;
    this.#changed = changed;
  }

  #change(announcement) {
    if (announcement) this.announcement = announcement;
    this.#changed();
  }

  /** Says something of a file to those who hear the page. */
  #tell({ name }, text) {
    this.#change(`${name}: ${text}.`);
  }

  add(files) {
    for (const content of files) {
      this.list.push({
        number: ++this.#added,
        name: content.name,
        content,
        state: "waiting", // "running", "done", "failed" or "cancelled"
        pair: null, // what the run's request says of languages, model and terms
        controller: null, // of the run
        status: null, // the server's, when it has the file
        failure: null, // {message, again, unreachable}
        isOpen: false, // its sentences are shown
        start: 0, // the number of the first one to show
        first: 0, // the number of the first of `sentences`
        sentences: null, // {source, translation, is_changeable}; null until they are known
        requests: 0, // for sentences
        answered: 0, // the latest of them that has been answered
        changes: 0, // under way
        isSaved: false, // as it is
      });
    }
    this.follow();
  }

  /** Starts the next file; starts the running one again if other languages or terms have been chosen. */
  follow() {
    const { pair, target } = this.#session;
    const running = this.list.find(({ state }) => state === "running");
    const isSame = JSON.stringify(running?.pair) === JSON.stringify(pair);
    const next = running ?? this.list.find(({ state }) => state === "waiting");
    if (next && target && !(running && isSame)) this.#run(next, pair);
    else this.#changed();
  }

  async #run(file, pair) {
    this.#leave(file, "running");
    const controller = new AbortController();
    const { signal } = controller;
    Object.assign(file, { pair, controller });
    this.#change();
    const isCurrent = () => file.controller === controller;
    try {
      await checkReadable(file.content);
      signal.throwIfAborted();
      const status = await api.patiently(() => api.sendDocument(file.content, pair), signal);
      if (!isCurrent()) return remove(status); // the server has it all the same
      file.status = status;
      this.#tell(file, countInWords(status.sentences_total));
      this.#show(file);
      const onStatus = (later) => isCurrent() && this.#note(file, later);
      const last = await api.followDocument(status.id, onStatus, signal);
      if (!isCurrent()) return;
      if (last.error) throw api.serverError(500, last.error);
      this.#note(file, last);
      Object.assign(file, { state: "done", controller: null });
      this.#change(t("{name} is translated.", { name: file.name }));
    } catch (error) {
      if (!isCurrent()) return;
      this.#leave(file, "failed");
      this.#refuse(file, error);
    }
    this.follow();
  }

  /** The progress is told at each quarter. */
  #note(file, status) {
    const quarters = ({ sentences_done, sentences_total }) => Math.floor((4 * sentences_done) / sentences_total);
    const isTold = quarters(status) > quarters(file.status) && quarters(status) < 4;
    file.status = status;
    if (file.sentences?.some(({ translation }) => translation === undefined)) this.#show(file);
    if (isTold) this.#tell(file, t("{n} %", { n: 25 * quarters(status) }));
    else this.#changed();
  }

  #refuse(file, error) {
    const known = error instanceof api.ApiError;
    const message = known ? error.message : t("The server’s answer could not be read.");
    const again = !known || [0, 404, 429].includes(error.status) || error.status >= 500;
    const { language, code } = error;
    file.failure = { message, again, language, unreachable: code === "unreachable" };
    this.#change(`${file.name}: ${message}`);
  }

  /** Ends the run of a file, and removes it from the server. */
  #leave(file, state) {
    file.controller?.abort();
    if (file.status) remove(file.status);
    if (this.menu?.file === file) this.menu = null;
    Object.assign(file, { state, controller: null, status: null, failure: null });
    Object.assign(file, { start: 0, first: 0, sentences: null, changes: 0, isSaved: false });
  }

  cancel(file) {
    this.#leave(file, "cancelled");
    this.announcement = t("{name} is cancelled.", { name: file.name });
    this.follow();
  }

  /** Translates a file once more, when its turn in the list comes. */
  again(file) {
    this.#leave(file, "waiting");
    this.follow();
  }

  remove(file) {
    this.#leave(file, "cancelled");
    this.list = this.list.filter((other) => other !== file);
    this.announcement = t("{name} is removed.", { name: file.name });
    this.follow();
  }

  reconnect() {
    for (const file of this.list) if (file.failure?.unreachable) this.again(file);
  }

  /** Whether translations would be lost with the page. */
  get isUnsaved() {
    return this.list.some(({ state, isSaved }) => ["waiting", "running", "done"].includes(state) && !isSaved);
  }

  /** Whether a file was translated as the menus now say. */
  isCurrent({ pair }) {
    return JSON.stringify(pair) === JSON.stringify(this.#session.pair);
  }

  async download(file) {
    const { status } = file;
    try {
      const content = await api.fetchDocument(status.id);
      if (file.status !== status) return;
      save(content, status.name);
      file.isSaved = true;
    } catch (error) {
      if (file.status === status) this.#refuse(file, error);
    }
  }

  // Sentences

  toggle(file) {
    file.isOpen = !file.isOpen;
    if (file.isOpen) this.#show(file);
    else this.closeMenu();
    this.#change();
  }

  turn(file, start) {
    this.closeMenu();
    file.start = start;
    this.#show(file);
  }

  /** Asks for the sentences that are shown. An answer before a later one is dropped. */
  async #show(file) {
    const { status, start, isOpen } = file;
    if (!isOpen || !status) return;
    const request = ++file.requests;
    const isWanted = () =>
      file.status?.id === status.id && file.start === start && file.answered < request && !file.changes;
    try {
      const sentences = await api.fetchSentences(status.id, start, PAGE);
      if (!isWanted()) return;
      Object.assign(file, { first: start, sentences, answered: request });
      this.#change();
    } catch (error) {
      if (isWanted()) this.#refuse(file, error);
    }
  }

  /** Alternatives from a word on; sentence: its number among those that are shown. */
  async openMenu(file, sentence, start) {
    const { source, translation } = file.sentences[sentence];
    const prefix = translation.slice(0, start).trimEnd();
    const menu = { file, sentence, start, prefix, items: null, message: "" };
    this.#alternatives.abort();
    this.#alternatives = new AbortController();
    this.menu = menu;
    this.#change();
    const { model, adapter, pivot, source: from, target } = file.status;
    const { glossary, terms } = file.pair;
    const used = { model: pivot ? undefined : model, adapter: adapter || undefined };
    const settings = { ...used, source: from, target, glossary, terms };
    const body = { ...settings, text: source, prefix };
    const items = await api.menuItems(body, this.#alternatives.signal);
    if (this.menu !== menu) return;
    this.menu = { ...menu, ...items };
    this.#change();
  }

  closeMenu() {
    if (!this.menu) return;
    this.menu = null;
    this.#change();
  }

  /** Shows another translation of a sentence at once, and sends it to the server, whose file then has it. */
  async adopt(file, sentence, text) {
    const { status, first, sentences } = file;
    file.sentences = sentences.with(sentence, { ...sentences[sentence], translation: text });
    file.failure = null;
    file.isSaved = false;
    file.changes++;
    this.#change();
    let failure = null;
    try {
      await api.changeSentence(status.id, first + sentence, text);
    } catch (error) {
      failure = error;
    }
    if (file.status !== status) return;
    file.changes--;
    if (failure) this.#refuse(file, failure);
    this.#show(file); // what the server has
    this.#change(!failure && t("The sentence is changed."));
  }
}

/** A file of the browser that is a folder, or has gone, fails here with a sentence. */
async function checkReadable(content) {
  try {
    await content.slice(0, 1).arrayBuffer();
  } catch {
    throw new api.ApiError(0, "unreadable", t("“{name}” cannot be read. It may be a folder.", { name: content.name }));
  }
}

/** Removes a document from the server, which does so later by itself if it cannot be reached. */
function remove({ id }) {
  api.removeDocument(id).catch(() => {});
}

export function countInWords(sentences) {
  return plural(sentences, "{n} sentence", "{n} sentences");
}
