// "Look inside": what a model computes for the sentence after the #, which no log has.

import { decoded } from "./inspection/data.js";
import { show } from "./inspection/report.js";
import { say, top } from "./inspection/links.js";
import { attribute, inspect } from "./api.js";

const NOTE = "The server computed this with PyTorch. It may translate in C++: in float32 scores differ by rounding, " +
  "by at most 0.0001 nats per token; in bfloat16 and int8 texts may differ too.";

const NO_KEY = "This server is not open to everybody. Give it your key on the page “Translate” in this tab.";

async function start() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const { text, model, adapter } = Object.fromEntries(parameters);
  if (!text) return say(parameters, "Write a sentence, and choose Inspect.");
  try {
    const ask = async (options, signal, onProgress) => {
      const body = { text, model, adapter, ...options };
      return decoded(await (body.attribution ? attribute(body, onProgress, signal) : inspect(body, signal)));
    };
    const inspection = await ask();
    document.title = `Inspection: ${inspection.sentence}`;
    show(inspection, NOTE, ask, top(parameters));
  } catch (error) {
    const needsKey = error.status === 403 && error.code !== "cross_origin";
    say(parameters, needsKey ? NO_KEY : error.message);
  }
}

addEventListener("hashchange", () => location.reload()); // another sentence
start();
