// Requests to the server's /v1 API. Every failure is an ApiError, whose message is a sentence for the reader.

const KEY = "dragoman.key";
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

  get busy() {
    return this.status === 429 || this.code === "queue_full";
  }
}

let key = null;
try {
  key = sessionStorage.getItem(KEY); // until the tab is closed
} catch {
  // Storage is switched off: until the page is left.
}

export function setKey(given) {
  key = given;
  try {
    sessionStorage.setItem(KEY, given);
  } catch {
    // As above.
  }
}

/** The models, each also with each of its adapters; labels tell them apart. */
export async function fetchModels() {
  const { models, max_n_best } = await (await send("v1/models")).json();
  return models.map((model) => ({ ...model, max_n_best })).flatMap((model) => [
    { ...model, label: model.name },
    ...(model.adapters ?? []).map((adapter) => ({ ...model, adapter, label: `${model.name} with ${adapter}` })),
  ]);
}

export async function translate(body, signal) {
  return (await send("v1/translate", body, signal)).json();
}

export async function alternatives(body, signal) {
  return (await (await send("v1/alternatives", body, signal)).json()).alternatives;
}

export async function inspect(body) {
  return (await send("v1/inspect", body)).json();
}

/** Calls onPiece with each piece of the translation; returns the whole answer, as `translate` does. */
export async function stream(body, onPiece, signal) {
  const response = await send("v1/translate/stream", body, signal);
  for await (const { event, data } of events(response.body)) {
    if (event === "piece") onPiece(data.text);
    if (event === "end") return data;
    if (event === "error") throw new ApiError(0, data.error.code, data.error.message);
  }
  throw new ApiError(0, "incomplete", "The connection ended before the translation was complete.");
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

async function send(path, body, signal) {
  const headers = body ? { "Content-Type": "application/json" } : {};
  if (/[^!-~]/.test(key ?? "")) {
    throw new ApiError(403, "forbidden", "This is no API key: it has a character that no key has.");
  }
  if (key) headers.Authorization = `Bearer ${key}`;
  let response;
  try {
    const method = body ? "POST" : "GET";
    response = await fetch(path, { method, headers, body: body && JSON.stringify(body), signal });
  } catch (error) {
    throw reachability(error);
  }
  if (!response.ok) throw await failure(response);
  return response;
}

async function failure(response) {
  let error = { code: "unknown", message: `The server answered with status ${response.status}.` };
  try {
    error = (await response.json()).error ?? error;
  } catch {
    // A proxy's page, not the server's JSON: the status says it.
  }
  const seconds = Math.ceil(Number(response.headers.get("Retry-After"))) || RETRY_SECONDS;
  const retryAfter = Math.min(Math.max(seconds, 1), MAX_RETRY_SECONDS);
  return new ApiError(response.status, error.code, error.message, retryAfter);
}

/** What a TypeError of fetch or of a stream means: no connection. An AbortError stays what it is. */
function reachability(error) {
  if (error.name === "AbortError") return error;
  const message = navigator.onLine
    ? "The server cannot be reached. Is “dragoman serve” still running?"
    : "You are offline. The translation will continue when the connection is back.";
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
