// What is being translated: the text, the languages, the requests under way and their answers.
//
// Every translation has a turn. A new turn aborts the former request, and whatever an older turn still brings
// is dropped: answers never appear out of order.

import * as api from "./api.js";
import * as history from "./history.js";
import { Terms } from "./terms.js";
import { toResult, withAlignments, withHypothesis } from "./words.js";

const PAUSE = 250; // milliseconds without typing before a request
const MODEL = "dragoman.model"; // the one chosen last
const N_BEST = 4;

export class Session {
  models = null; // null until they are known
  source = ""; // a language's code, or "auto"
  target = "";
  model = ""; // a model's label
  text = "";
  result = null; // the latest complete translation
  partial = null; // what has been streamed of the next one
  working = false;
  failure = null; // {message, again}: a sentence, and whether trying again can help
  seconds = 0; // until a busy server is asked again
  needsKey = false;
  menu = null; // alternatives of a word: {sentence, word, start, prefix, items, message}
  others = null; // n-best lists: {sentences, message}
  announcement = "";
  historyOpen = false;
  terms; // which ones a request names

  #changed;
  #turn = 0;
  #recorded = null; // the text's entry in the history, which typing on replaces
  #loads = 0;
  #reloaded = false; // since the last translation
  #requests = {}; // the AbortController of the latest request of each kind
  #pause = null;
  #countdown = null;
  #alignment = ""; // of the current result: "asked" or "failed"

  constructor(changed) {
    this.#changed = changed;
    this.terms = new Terms(changed);
  }

  #change(values) {
    Object.assign(this, values);
    this.#changed();
  }

  // Models and languages

  /** A later load replaces this one. */
  async load() {
    const load = ++this.#loads;
    try {
      const [models, glossaries] = await Promise.all([api.fetchModels(), api.fetchGlossaries()]);
      if (load !== this.#loads) return;
      this.terms.glossaries = glossaries;
      const former = history.recall(MODEL);
      const known = models.find((model) => model.label === former) ?? models[0];
      const failure = known ? null : { message: "The server has no model loaded.", again: true };
      this.#change({ models, failure, working: false, needsKey: false });
      const source = this.source === "auto" && models.length > 1 ? "auto" : known?.source;
      if (known) this.setPair(source, known.target, known.label);
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

  get canSwap() {
    const back = (model) => model.source === this.target && model.target === this.spoken;
    return this.target !== this.spoken && (this.models ?? []).some(back);
  }

  /** Chooses languages and model; a target or model that does not fit gives way to the first that does, and a
   * glossary to none. */
  setPair(source, target = this.target, model = this.model) {
    Object.assign(this, { source, target, model });
    if (!this.targets.some(({ code }) => code === target)) this.target = this.targets[0].code;
    if (!this.fitting.some(({ label }) => label === model)) this.model = this.fitting[0].label;
    history.store(MODEL, this.model);
    this.terms.setPair(this.source, this.target);
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
    this.#change({ text, menu: null });
    if (!this.seconds) this.#pause = setTimeout(() => this.translate(), PAUSE);
  }

  /** A whole text; it is translated at once. */
  open(text) {
    this.#recorded = null;
    this.text = text;
    return this.translate();
  }

  refuse(message) {
    this.#change({ failure: { message, again: false }, announcement: message });
  }

  /** Ends what is under way; an older answer can no longer appear. */
  stop() {
    this.#turn++;
    clearTimeout(this.#pause);
    clearInterval(this.#countdown);
    for (const request of Object.values(this.#requests)) request.abort();
    this.#change({ working: false, partial: null, failure: null, seconds: 0, menu: null, others: null,
      announcement: "" });
  }

  async translate() {
    this.stop();
    const { text } = this;
    if (!text.trim()) return this.#change({ result: null, announcement: "" });
    if (!this.models?.length) return this.load();
    const turn = this.#turn;
    const { pair } = this;
    const { glossary, terms } = pair;
    this.#change({ working: true });
    try {
      const answer = await this.#ask(turn, { ...pair, text });
      const isDetected = pair.source === "auto";
      if (turn === this.#turn) this.#finish({ ...toResult(answer, text), isDetected, glossary, terms });
    } catch (error) {
      if (turn === this.#turn) this.#fail(error);
    }
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
    const { name: model, adapter } = this.models?.find(({ label }) => label === this.model) ?? {};
    return { source, target, model, adapter, ...this.terms.chosen };
  }

  #finish(result) {
    this.#reloaded = false;
    this.#alignment = "";
    this.#change({ result, partial: null, working: false, needsKey: false, announcement: result.text });
    this.#record();
  }

  #record() {
    const { sourceText: text, text: translation, source, target } = this.result;
    if (!this.isCurrent) return;
    const entry = { text, translation, source, target };
    history.add(entry, this.#recorded);
    this.#recorded = entry;
  }

  restore({ text, source, target }) {
    this.#recorded = null;
    this.text = text;
    const known = this.models?.some((model) => model.source === source && model.target === target);
    if (known) this.setPair(source, target);
    else this.translate();
  }

  showHistory(historyOpen) {
    this.#change({ historyOpen });
  }

  // Failures

  #fail(error) {
    if (error.busy) return this.#wait(error.retryAfter);
    if (error.code === "not_found" && !this.#reloaded) {
      this.#reloaded = true;
      return this.load();
    }
    const known = error instanceof api.ApiError;
    const message = known ? error.message : "The server’s answer could not be read.";
    const again = !known || error.status === 0 || error.status >= 500;
    const needsKey = error.status === 403 && error.code !== "cross_origin";
    const failure = { message, again, unreachable: error.code === "unreachable" };
    this.#change({ working: false, partial: null, failure, needsKey, announcement: message });
  }

  #wait(seconds) {
    clearInterval(this.#countdown);
    const announcement = `The server is busy. Trying again in ${seconds} s.`;
    this.#change({ working: false, partial: null, seconds, announcement });
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

  closeMenu() {
    if (this.menu) this.#change({ menu: null });
  }

  async openOthers() {
    const { result } = this;
    const signal = this.#signal("n-best");
    const others = { sentences: null, message: "" };
    this.#change({ others, menu: null });
    try {
      const count = Math.min(N_BEST, this.models[0].max_n_best ?? N_BEST);
      const settings = { text: result.sourceText, n_best: count, beam_size: count };
      const body = this.#about(result, settings);
      const answer = await api.patiently(() => api.translate(body, signal), signal);
      const { sentences } = toResult(answer, result.sourceText);
      if (this.others === others) this.#change({ others: { ...others, sentences } });
    } catch (error) {
      if (this.others === others) this.#change({ others: { sentences: [], message: error.message } });
    }
  }

  closeOthers() {
    if (this.others) this.#change({ others: null });
  }

  /** Shows another translation of a sentence at once, then asks for its scores and alignment: the text is the
   * prefix of a translation that has nothing to add, not even terms. */
  async adopt(index, text) {
    const sentence = this.result.sentences[index];
    const other = { text, tokens: null, score: null, logProbability: null };
    const result = withHypothesis(this.result, index, other);
    this.#change({ result, menu: null, announcement: result.text });
    this.#record();
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

  /** Asks once for the alignments of the current result. */
  async align() {
    const { result } = this;
    if (this.#alignment || !this.isCurrent) return;
    this.#alignment = "asked";
    const signal = this.#signal("alignment");
    try {
      const body = this.#about(result, { text: result.sourceText, alignment: true });
      const answer = await api.patiently(() => api.translate(body, signal), signal);
      const aligned = toResult(answer, result.sourceText);
      if (this.result?.sourceText === result.sourceText) {
        this.#change({ result: withAlignments(this.result, aligned) });
      }
    } catch {
      if (this.result === result) this.#alignment = "failed";
    }
  }

  /** Asks also if that has failed before: the pointer or the focus comes back. */
  alignAgain() {
    if (this.#alignment === "failed") this.#alignment = "";
    return this.align();
  }
}

function isSame(one, other) {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

function languages(models, side) {
  const names = new Map(models.map((model) => [model[side], model[`${side}_name`] ?? model[side]]));
  return [...names].map(([code, name]) => ({ code, name }));
}
