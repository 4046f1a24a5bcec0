// Requests to the server's /v1 API. Every failure is an ApiError, whose message is a sentence for the reader.

import { t } from "./i18n.js";
import { recallInTab, storeInTab } from "./storage.js";

const KEY = "dragoman.key";
const ALTERNATIVES = 8;
const ENOUGH = 4; // of them are shown, however unlikely
const LEAST = 0.001; // the probability of others
const RETRY_SECONDS = 2; // if a busy server does not say how long to wait
const MAX_RETRY_SECONDS = 60;

export class ApiError extends Error {
  /** status: of HTTP, 0 without an answer; retryAfter: seconds. */
  constructor(status, code, message, retryAfter = RETRY_SECONDS) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }

  /** The language of the message: the server's are English. */
  get language() {
    return this.isServers ? "en" : null;
  }

  get busy() {
    return this.status === 429 || this.code === "queue_full";
  }
}

let key = recallInTab(KEY); // where storage is switched off, the key is known until the page is left

export const hasKey = () => Boolean(key);

export function setKey(given) {
  key = given;
  storeInTab(KEY, given);
}

/** {models, maxNBest, hasDocs}. The models are also there with each of their adapters; labels tell them apart. Two
 * languages that only a third one joins are a model without a name, with that one as its `pivot`. */
export async function fetchModels() {
  const answer = await (await send("v1/models")).json();
  const { models, pivots = [], max_n_best: maxNBest, has_docs: hasDocs = false } = answer;
  const withAdapters = models.flatMap((model) => [
    { ...model, label: model.name },
    ...(model.adapters ?? []).map((adapter) => ({ ...model, adapter, label: `${model.name} with ${adapter}` })),
  ]);
  const byPivot = pivots.map((pair) => ({
    ...pair,
    label: `${pair.source} → ${pair.pivot} → ${pair.target}`,
    pivot_name: models.find(({ source }) => source === pair.pivot)?.source_name,
  }));
  return { models: [...withAdapters, ...byPivot], maxNBest, hasDocs };
}

/** The glossaries that a request can name: {id, name, dictionaries}. */
export async function fetchGlossaries() {
  return (await (await send("v1/glossaries")).json()).glossaries;
}

/** Some of the terms of a glossary: {terms, terms_total}. */
export async function fetchTerms(id, source, target, start, count, signal) {
  const query = new URLSearchParams({ source, target, start, count });
  return (await send(`v1/glossaries/${encodeURIComponent(id)}/terms?${query}`, null, signal)).json();
}

export async function translate(body, signal) {
  return (await send("v1/translate", body, signal)).json();
}

/** What a menu of alternatives shows: {items}, or also the {message} why there are none. */
export async function menuItems(body, signal) {
  try {
    const request = () => send("v1/alternatives", { ...body, count: ALTERNATIVES }, signal);
    const { alternatives } = await (await patiently(request, signal)).json();
    return { items: distinct(alternatives) };
  } catch (error) {
    const message = error.code === "pivot"
      ? t("There are no alternatives in a translation by way of another language.")
      : error.message;
    return { items: [], message };
  }
}

/** The alternatives whose texts differ: two tokens can begin the same translation. Unlikely ones are left out
 * where enough others remain. */
function distinct(alternatives) {
  const texts = alternatives.map(({ text }) => text.replace(/\s+/g, " ").trim());
  const different = alternatives.filter((_, number) => texts.indexOf(texts[number]) === number);
  const likely = different.filter(({ log_probability: value }) => value !== null && Math.exp(value) >= LEAST);
  return likely.length < ENOUGH ? different.slice(0, ENOUGH) : likely;
}

export async function inspect(body, signal) {
  return (await send("v1/inspect", body, signal)).json();
}

/** As `inspect`, with an attribution. Calls onProgress with {done, total}, its parts, when more are done. */
export async function attribute(body, onProgress, signal) {
  const response = await send("v1/inspect/stream", body, signal);
  for await (const { event, data } of events(response.body)) {
    if (event === "progress") onProgress(data);
    if (event === "end") return data;
    if (event === "error") throw serverError(0, data.error);
  }
  throw new ApiError(0, "incomplete", "The connection ended before the attribution was complete.");
}

/** Calls onPiece with each piece of the translation; returns the whole answer, as `translate` does. */
export async function stream(body, onPiece, signal) {
  const response = await send("v1/translate/stream", body, signal);
  for await (const { event, data } of events(response.body)) {
    if (event === "piece") onPiece(data.text);
    if (event === "end") return data;
    if (event === "error") throw serverError(0, data.error);
  }
  throw incomplete();
}

// Documents. A status is {id, name, source, target, model, adapter, status, sentences_done, sentences_total}.

/** Begins to translate a file, and returns its status. */
export async function sendDocument(file, { terms = [], ...settings }) {
  const values = Object.entries({ name: file.name, ...settings }).filter(([, value]) => value);
  values.push(...terms.map((term) => ["terms", term.join("\t")]));
  return (await send(`v1/documents?${new URLSearchParams(values)}`, file)).json();
}

/** Calls onStatus with each status until the last one, which it returns. */
export async function followDocument(id, onStatus, signal) {
  const response = await send(`v1/documents/${id}/events`, null, signal);
  for await (const { event, data } of events(response.body)) {
    if (event === "end") return data;
    onStatus(data);
  }
  throw incomplete();
}

export async function fetchSentences(id, start, count) {
  return (await (await send(`v1/documents/${id}/sentences?start=${start}&count=${count}`)).json()).sentences;
}

export async function changeSentence(id, number, translation) {
  return (await send(`v1/documents/${id}/sentences/${number}`, { translation }, null, "PUT")).json();
}

export async function fetchDocument(id) {
  return (await send(`v1/documents/${id}/result`)).blob();
}

export async function removeDocument(id) {
  await send(`v1/documents/${id}`, null, null, "DELETE");
}

/** Repeats a request while the server is busy, at most three times. */
export async function patiently(request, signal) {
  for (let attempt = 0; ; attempt++) {
    try {
      return await request();
    } catch (error) {
      if (!error.busy || attempt === 3) throw error;
      await new Promise((resolve) => setTimeout(resolve, 1000 * error.retryAfter));
      signal.throwIfAborted();
    }
  }
}

async function send(path, content = null, signal = null, method = content ? "POST" : "GET") {
  const isFile = content instanceof Blob;
  const headers = content ? { "Content-Type": isFile ? "application/octet-stream" : "application/json" } : {};
  if (/[^!-~]/.test(key ?? "")) {
    throw new ApiError(403, "forbidden", t("This is no key: it has a character that no key has."));
  }
  if (key) headers.Authorization = `Bearer ${key}`;
  let response;
  try {
    const body = isFile ? content : content && JSON.stringify(content);
    response = await fetch(path, { method, headers, body, signal });
  } catch (error) {
    throw reachability(error);
  }
  if (!response.ok) throw await failure(response);
  return response;
}

async function failure(response) {
  const { status, headers } = response;
  const seconds = Math.ceil(Number(headers.get("Retry-After"))) || RETRY_SECONDS;
  const retryAfter = Math.min(Math.max(seconds, 1), MAX_RETRY_SECONDS);
  try {
    const { error } = await response.json();
    if (error) return serverError(status, error, retryAfter);
  } catch {
    // A proxy's page, not the server's JSON: the status says it.
  }
  const message = t("The server answered with status {status}.", { status: String(status) });
  return new ApiError(status, "unknown", message, retryAfter);
}

/** What the server itself says. */
export function serverError(status, { code, message }, retryAfter) {
  return Object.assign(new ApiError(status, code, message, retryAfter), { isServers: true });
}

function incomplete() {
  return new ApiError(0, "incomplete", t("The connection ended before the translation was complete."));
}

/** What a TypeError of fetch or of a stream means: no connection. An AbortError stays what it is. */
function reachability(error) {
  if (error.name === "AbortError") return error;
  const message = navigator.onLine
    ? t("The server cannot be reached. Is “dragoman serve” still running?")
    : t("You are offline. The translation will continue when the connection is back.");
  return new ApiError(0, "unreachable", message);
}

/** The events of a text/event-stream whose data are JSON. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      buffer = (buffer + value).replaceAll("\r\n", "\n");
      for (let end; (end = buffer.indexOf("\n\n")) >= 0; buffer = buffer.slice(end + 2)) {
        const event = parseEvent(buffer.slice(0, end));
        if (event) yield event;
      }
    }
  } catch (error) {
    throw error instanceof TypeError ? reachability(error) : error;
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** An event, or null for a comment, which only keeps the connection open. */
function parseEvent(block) {
  let event = "message";
  const data = [];
  for (const line of block.split("\n")) {
    const [, field, value] = /^(\w*): ?(.*)$/.exec(line) ?? [];
    if (field === "event") event = value;
    if (field === "data") data.push(value);
  }
  return data.length ? { event, data: JSON.parse(data.join("\n")) } : null;
}
