// What is being translated: the text, the languages, the requests under way and their answers.
//
// Every translation has a turn. A new turn aborts the former request, and whatever an older turn still brings
// is dropped: answers never appear out of order.

import * as api from "./api.js";
import * as history from "./history.js";
import { language, t } from "./i18n.js";
import { takeLink } from "./link.js";
import { PART, parts } from "./parts.js";
import { recall, recallInTab, store, storeInTab } from "./storage.js";
import { Terms } from "./terms.js";
import { joined, toResult, unscored, withAlignments, withEdit, withEdits, withHypothesis } from "./words.js";

const PAUSE = 250; // milliseconds without typing before a request
const MODEL = "dragoman.model"; // the one chosen last
const TEXT = "dragoman.text"; // in the tab: the text and what it was translated with
const N_BEST = 4;
const LEAST_PART = 500; // UTF-16 units; a smaller part that takes too long is an error

export class Session {
  models = null; // null until they are known
  maxNBest = N_BEST; // translations of a sentence that the server gives
  hasDocs = false; // the server describes its APIs
  source = ""; // a language's code, or "auto"
  target = "";
  model = ""; // a model's label
  text = "";
  result = null; // the latest complete translation
  partial = null; // what has been streamed of the next one
  progress = null; // of a long text: {done, total}, in parts, and the text of those that are done
  isEditing = false; // the translation
  working = false;
  failure = null; // {message, again}: a sentence, and whether trying again can help
  refusal = ""; // why the latest action of a button failed
  seconds = 0; // until a busy server is asked again
  needsKey = false;
  menu = null; // alternatives of a word: {sentence, word, start, prefix, items, message}
  others = null; // n-best lists: {sentences, isBusy, message}; sentences: those that have come
  announcement = "";
  isSaving = false; // the menu of files and the link is open
  historyOpen = false;
  helpOpen = false;
  terms; // which ones a request names

  #changed;
  #wanted = null; // what a link or the tab says of languages and model, until there are models
  #edits = new Map(); // the reader's translations by their sources, for the chosen languages
  #answers = new Map(); // to the parts of the latest long text
  #partSize = PART;
  #turn = 0;
  #recorded = null; // the text's entry in the history, which typing on replaces
  #loads = 0;
  #reloaded = false; // since the last translation
  #requests = {}; // the AbortController of the latest request of each kind
  #pause = null;
  #countdown = null;
  #saved = ""; // the translation that was copied or saved last
  #alignment = ""; // of the current result: "asked" or "failed"
  #aligned = []; // its parts that have been aligned

  constructor(changed) {
    this.#changed = changed;
    this.terms = new Terms(changed);
  }

  #change(values) {
    Object.assign(this, values);
    this.#changed();
  }

  /** Begins with the text of a link, or with that of the tab before it was reloaded. */
  begin() {
    this.#wanted = takeLink() ?? fromTab();
    this.text = this.#wanted?.text ?? this.text;
    return this.load();
  }

  /** A link has been followed on the open page. */
  follow() {
    const link = takeLink();
    if (link) this.restore(link);
  }

  /** The tab keeps the text for a reload. */
  #keep() {
    if (!this.models) return;
    const { text, source, target, model } = this;
    storeInTab(TEXT, JSON.stringify({ text, source, target, model, edits: [...this.#edits] }));
  }

  // Models and languages

  /** A later load replaces this one. */
  async load() {
    const load = ++this.#loads;
    try {
      const [answer, glossaries] = await Promise.all([api.fetchModels(), api.fetchGlossaries()]);
      if (load !== this.#loads) return;
      this.terms.glossaries = glossaries;
      const { models, maxNBest, hasDocs } = answer;
      Object.assign(this, { maxNBest, hasDocs });
      const wanted = this.#wanted ?? { source: this.source };
      const known = modelFor(wanted, models);
      const failure = known ? null : { message: t("The server has no model loaded."), again: true };
      this.#change({ models, failure, working: false, needsKey: false });
      if (!known) return;
      const source = wanted.source === "auto" && models.length > 1 ? "auto" : known.source;
      const isTarget = source === "auto" && models.some(({ target }) => target === wanted.target);
      const edits = this.#wanted && new Map(this.#wanted.edits);
      this.#wanted = null;
      this.setPair(source, isTarget ? wanted.target : known.target, known.label, edits);
    } catch (error) {
      if (load === this.#loads) this.#fail(error);
    }
  }

  get sources() {
    return languages(this.models ?? [], "source");
  }

  get targets() {
    return languages(this.#from(this.source), "target");
  }

  /** Models of the chosen pair. */
  get fitting() {
    return this.#from(this.source).filter((model) => model.target === this.target);
  }

  /** Whether the result is the translation of the text as it stands, as it would be asked for now. */
  get isCurrent() {
    const { result } = this;
    if (this.working || !result) return false;
    const request = { ...this.pair, sourceText: this.text };
    if (request.source === "auto") Object.assign(request, { source: result.source, isDetected: true });
    return Object.entries(request).every(([name, value]) => isSame(result[name], value));
  }

  #from(source) {
    return (this.models ?? []).filter((model) => source === "auto" || model.source === source);
  }

  /** The source language; if it is to be detected, the one that was. */
  get spoken() {
    return this.source === "auto" ? (this.result?.source ?? "") : this.source;
  }

  /** The model that translates, if it is known before. */
  get described() {
    return this.source === "auto" ? null : this.models?.find(({ label }) => label === this.model);
  }

  /** The model that translates, or that has if the language is to be detected. */
  get used() {
    const { result } = this;
    if (this.source !== "auto") return this.described;
    const has = ({ name, ...model }) =>
      name === result.model && ["source", "target", "pivot"].every((key) => model[key] === result[key]);
    return result && this.models?.find(has);
  }

  get canSwap() {
    const back = (model) => model.source === this.target && model.target === this.spoken;
    return this.target !== this.spoken && (this.models ?? []).some(back);
  }

  /** Chooses languages and model; a target or model that does not fit gives way to the first that does, and a
   * glossary to none. The reader's translations belong to the languages. */
  setPair(source, target = this.target, model = this.model, edits = null) {
    const isSamePair = source === this.source && target === this.target;
    this.#edits = edits ?? (isSamePair ? this.#edits : new Map());
    Object.assign(this, { source, target, model });
    if (!this.targets.some(({ code }) => code === target)) this.target = this.targets[0].code;
    if (!this.fitting.some(({ label }) => label === model)) this.model = this.fitting[0].label;
    store(MODEL, this.model);
    this.terms.setPair(this.source, this.target, !this.described?.pivot);
    this.translate();
  }

  chooseGlossary(id) {
    this.terms.choose(id);
    this.translate();
  }

  /** Uses the reader's terms as they stand now. */
  takeTerms() {
    if (this.terms.take()) this.translate();
    else this.#changed();
  }

  removeTerm(number) {
    this.terms.remove(number);
    this.takeTerms();
  }

  showTerms(isOpen) {
    this.terms.open(isOpen);
  }

  swap() {
    if (!this.canSwap) return;
    if (this.isCurrent) this.text = this.result.text;
    this.setPair(this.target, this.spoken);
  }

  // Text and translation

  /** The text as it is being typed; it is translated after a pause. A wait for a busy server goes on. */
  edit(text) {
    clearTimeout(this.#pause);
    if (!text.trim()) return this.open(text);
    this.#change({ text, menu: null, isEditing: false });
    this.#keep();
    if (!this.seconds) this.#pause = setTimeout(() => this.translate(), PAUSE);
  }

  /** A whole text; it is translated at once. */
  open(text) {
    this.#recorded = null;
    this.#edits.clear();
    this.text = text;
    return this.translate();
  }

  /** Ends what is under way; an older answer can no longer appear. */
  stop() {
    this.#turn++;
    clearTimeout(this.#pause);
    clearInterval(this.#countdown);
    for (const request of Object.values(this.#requests)) request.abort();
    this.#change({ working: false, partial: null, progress: null, failure: null, seconds: 0, menu: null,
      others: null, isEditing: false, isSaving: false, refusal: "", announcement: "" });
  }

  async translate() {
    this.stop();
    this.#keep();
    const { text } = this;
    if (!text.trim()) return this.#change({ result: null, announcement: "" });
    if (!this.models?.length) return this.load();
    const turn = this.#turn;
    const { pair } = this;
    const { glossary, terms } = pair;
    this.#change({ working: true });
    try {
      const result = await this.#translateParts(turn, pair, parts(text, this.#partSize));
      const isDetected = pair.source === "auto";
      if (turn === this.#turn) this.#finish(withEdits({ ...result, isDetected, glossary, terms }, this.#edits));
    } catch (error) {
      if (turn === this.#turn) this.#failIn(error, text);
    }
  }

  /** The parts of a text one after another, each in a request; what is known of the latest text is not asked
   * again. The first part tells a language that is to be detected. */
  async #translateParts(turn, pair, texts) {
    const answers = this.#answers;
    const used = new Map();
    const results = [];
    for (const [number, text] of texts.entries()) {
      const chosen = pair.source === "auto" && number ? { ...pair, ...languagesOf(results[0]) } : pair;
      const request = JSON.stringify({ ...chosen, text });
      const progress = { done: number, total: texts.length, text: this.partial };
      if (texts.length > 1) this.#change({ progress });
      const known = texts.length > 1 ? answers.get(request) : undefined;
      const answer = known ?? (await this.#ask(turn, { ...chosen, text }));
      if (turn !== this.#turn) return null;
      answers.set(request, answer);
      used.set(request, answer);
      results.push(toResult(answer, text));
      this.partial = results.map((result) => result.text).join("");
    }
    this.#answers = results.length > 1 ? used : new Map();
    return { ...joined(results), parts: texts };
  }

  /** A part that takes the server too long is cut into smaller ones. */
  #failIn(error, text) {
    const isTooLong = [413, 504].includes(error.status) || error.code === "deadline_passed";
    if (!isTooLong || this.#partSize <= LEAST_PART || text.length <= LEAST_PART) return this.#fail(error);
    this.#partSize = Math.max(LEAST_PART, this.#partSize / 4);
    return this.translate();
  }

  #ask(turn, body) {
    const signal = this.#signal("translation");
    const onPiece = (piece) => {
      if (turn !== this.#turn) return;
      this.partial = (this.partial ?? "") + piece;
      requestAnimationFrame(this.#changed); // pieces of one frame are drawn together
    };
    return api.stream(body, onPiece, signal);
  }

  /** The signal of a new request; the former one of its kind is aborted. */
  #signal(kind) {
    this.#requests[kind]?.abort();
    this.#requests[kind] = new AbortController();
    return this.#requests[kind].signal;
  }

  /** What a request for a translation between the chosen languages says. */
  get pair() {
    const { source, target } = this;
    if (source === "auto") return { source, target };
    const { name: model, adapter } = this.described ?? {};
    return { source, target, model, adapter, ...this.terms.chosen };
  }

  #finish(result) {
    this.#reloaded = false;
    this.#alignment = "";
    this.#aligned = [];
    const announcement = result.text;
    this.#change({ result, partial: null, progress: null, working: false, needsKey: false, announcement });
    this.record();
  }

  /** The history has the translation as it is. */
  record() {
    const { sourceText: text, text: translation, source, target } = this.result;
    if (!this.isCurrent) return;
    const entry = { text, translation, source, target };
    history.add(entry, this.#recorded);
    this.#recorded = entry;
  }

  restore({ text, source, target }) {
    this.#recorded = null;
    this.#edits.clear();
    this.text = text;
    const known = this.models?.some((model) => model.source === source && model.target === target);
    if (known) this.setPair(source, target);
    else this.translate();
  }

  showHistory(historyOpen) {
    this.#change({ historyOpen });
  }

  showHelp(helpOpen) {
    this.#change({ helpOpen });
  }

  /** For those who hear the page. */
  tell(announcement) {
    this.#change({ announcement });
  }

  /** An action of a button has failed, or with "" has not. */
  refuse(message) {
    this.#change({ refusal: message, announcement: message || this.announcement });
  }

  /** The language of what is told. */
  get toldLanguage() {
    if (this.failure) return this.failure.language ?? language;
    return this.seconds || this.announcement !== this.result?.text ? language : this.target || null;
  }

  // Failures

  /** Of a translation that does not go on, the parts that are done stay. */
  get #halted() {
    return { working: false, partial: this.progress?.text ?? null };
  }

  #fail(error) {
    if (error.busy) return this.#wait(error.retryAfter);
    if (error.code === "not_found" && !this.#reloaded) {
      this.#reloaded = true;
      return this.load();
    }
    const needsKey = error.status === 403 && error.code !== "cross_origin";
    if (needsKey && error.isServers) return this.#askForKey();
    const known = error instanceof api.ApiError;
    const message = known ? error.message : t("The server’s answer could not be read.");
    const again = !known || error.status === 0 || error.status >= 500;
    const failure = { message, again, language: error.language, unreachable: error.code === "unreachable" };
    this.#change({ ...this.#halted, progress: null, failure, needsKey, announcement: message });
  }

  /** What the server says of a key is for programs: the page's form says it, and if the last one was wrong. */
  #askForKey() {
    const message = api.hasKey() ? t("The server does not know this key.") : "";
    const failure = message ? { message, again: false } : null;
    this.#change({ ...this.#halted, progress: null, failure, needsKey: true, announcement: message });
  }

  #wait(seconds) {
    clearInterval(this.#countdown);
    const announcement = t("The server is busy. Trying again in {n} s.", { n: seconds });
    this.#change({ ...this.#halted, seconds, announcement });
    this.#countdown = setInterval(() => {
      if (this.seconds > 1) return this.#change({ seconds: this.seconds - 1 });
      this.again();
    }, 1000);
  }

  again() {
    return this.models?.length ? this.translate() : (this.stop(), this.load());
  }

  reconnect() {
    if (this.failure?.unreachable) this.again();
  }

  useKey(key) {
    api.setKey(key);
    this.#change({ needsKey: false });
    this.again();
  }

  // What is asked about a result. Requests name the result's model and terms: a detected language stays as it was.

  #about({ model, adapter, source, target, glossary, terms }, body) {
    return { model, adapter, source, target, glossary, terms, ...body };
  }

  /** What is asked about each part of a result's text: the result of the parts that have been answered. results: those
   * of the first parts, which are known and to which others are added. */
  async *#ofParts(result, settings, kind, results = []) {
    const signal = this.#signal(kind);
    for (const text of result.parts.slice(results.length)) {
      const body = this.#about(result, { text, ...settings });
      results.push(toResult(await api.patiently(() => api.translate(body, signal), signal), text));
      yield joined(results);
    }
  }

  /** Alternatives from a word on; start: the word's place in its sentence. */
  async openMenu({ sentence, word, start }) {
    const { result } = this;
    const { text, source } = result.sentences[sentence];
    const prefix = text.slice(0, start).trimEnd();
    const menu = { sentence, word, start, prefix, items: null, message: "" };
    const signal = this.#signal("alternatives");
    this.#change({ menu });
    const items = await api.menuItems(this.#about(result, { text: source, prefix }), signal);
    if (this.menu === menu) this.#change({ menu: { ...menu, ...items } });
  }

  openSaving(isSaving) {
    this.#change({ isSaving, menu: null, refusal: "" });
  }

  /** Alternatives from the caret on, in the translation that is being edited. */
  openMenuAt(caret) {
    const isAround = ({ start, end }) => start <= caret && caret <= end;
    const sentence = this.result.sentences.findIndex(isAround);
    if (sentence >= 0) this.openMenu({ sentence, word: null, start: caret - this.result.sentences[sentence].start });
  }

  closeMenu() {
    if (this.menu || this.isSaving) this.#change({ menu: null, isSaving: false });
  }

  /** The translations of each sentence. Those of a long text come part by part. */
  async openOthers() {
    const { result } = this;
    const count = Math.min(N_BEST, this.maxNBest ?? N_BEST);
    let others = { sentences: [], isBusy: true, message: "" };
    const show = (values) => this.#change({ others: (others = { ...others, ...values }) });
    this.#change({ others, menu: null });
    try {
      for await (const { sentences } of this.#ofParts(result, { n_best: count, beam_size: count }, "n-best")) {
        if (this.others !== others) return;
        show({ sentences, isBusy: sentences.length < result.sentences.length });
      }
    } catch (error) {
      if (this.others === others) show({ isBusy: false, message: error.message });
    }
  }

  closeOthers() {
    if (this.others) this.#change({ others: null });
  }

  // The reader's own translations

  editTranslation(isEditing) {
    if (isEditing === this.isEditing) return;
    this.#change({ isEditing, menu: null });
    if (!isEditing) this.record();
  }

  /** The whole translation as the reader has changed it. */
  write(text) {
    const result = withEdit(this.result, text);
    for (const sentence of result.sentences) if (sentence.isEdited) this.#edits.set(sentence.source, sentence.text);
    this.#change({ result, menu: null });
    this.#keep();
  }

  /** The server's translation takes the place of the reader's. */
  undo() {
    this.#edits.clear();
    return this.translate();
  }

  get isEdited() {
    return this.isCurrent && this.result.sentences.some(({ isEdited }) => isEdited);
  }

  /** A translation has been copied or saved. */
  noteSaved(text) {
    this.#saved = text;
  }

  /** Whether changes of the reader would be lost with the page. */
  get isUnsaved() {
    return this.isEdited && this.result.text !== this.#saved;
  }

  /** Shows another translation of a sentence at once, then asks for its scores and alignment: the text is the
   * prefix of a translation that has nothing to add, not even terms. */
  async adopt(index, text) {
    const sentence = this.result.sentences[index];
    const result = withHypothesis(this.result, index, { ...unscored(text), isEdited: true });
    this.#edits.set(sentence.source, text);
    this.#keep();
    this.#change({ result, menu: null, announcement: result.text });
    this.record();
    const without = { glossary: undefined, terms: undefined };
    const settings = { text: sentence.source, prefix: text, split_sentences: false, alignment: true, ...without };
    const signal = this.#signal(`scores ${index}`);
    try {
      const answer = await api.patiently(() => api.translate(this.#about(result, settings), signal), signal);
      const [scored] = toResult(answer, sentence.source).sentences;
      const isShown = this.result?.sourceText === result.sourceText &&
        this.result.sentences[index]?.text === text;
      if (!isShown || scored?.text !== text) return;
      const { tokens, score, logProbability, alignment } = scored;
      const hypothesis = { text, tokens, score, logProbability, alignment };
      this.#change({ result: withHypothesis(this.result, index, hypothesis) });
    } catch {
      // The translation stands; it has no scores and no alignment.
    }
  }

  /** Asks once for the alignments of the current result. Those of a long text come part by part. */
  async align() {
    const { result } = this;
    if (this.#alignment || !this.isCurrent) return;
    this.#alignment = "asked";
    const isOfResult = () => this.result?.sourceText === result.sourceText;
    try {
      for await (const aligned of this.#ofParts(result, { alignment: true }, "alignment", this.#aligned)) {
        if (!isOfResult()) return;
        this.#change({ result: withAlignments(this.result, aligned) });
      }
    } catch {
      if (isOfResult()) this.#alignment = "failed";
    }
  }

  /** Asks also if that has failed before: the pointer or the focus comes back. */
  alignAgain() {
    if (this.#alignment === "failed") this.#alignment = "";
    return this.align();
  }
}

/** The model of a label, else of languages, else the one that was chosen last. */
function modelFor({ model, source, target }, models) {
  const fits = (one) => one.target === target && (source === "auto" || one.source === source);
  const find = (label) => models.find((one) => one.label === label);
  return find(model) ?? models.find(fits) ?? find(recall(MODEL)) ?? models[0];
}

/** What the tab kept, or null. */
function fromTab() {
  try {
    const stored = JSON.parse(recallInTab(TEXT));
    const isText = (value) => typeof value === "string";
    return isText(stored.text) && stored.edits.every((edit) => edit.every(isText)) ? stored : null;
  } catch {
    return null;
  }
}

/** What a request says to get a translation of the same languages and model. */
function languagesOf({ source, target, model, adapter }) {
  return { source, target, model, adapter };
}

function isSame(one, other) {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

function languages(models, side) {
  const names = new Map(models.map((model) => [model[side], model[`${side}_name`] ?? model[side]]));
  return [...names].map(([code, name]) => ({ code, name }));
}
