// "Look inside": what a model computes for the sentence after the # of the address, which no server log has.

import { decoded } from "./inspection/data.js";
import { show } from "./inspection/report.js";
import { inspect } from "./api.js";

const NOTE = "The server computed this with PyTorch just now. Its translations may be searched in C++: in " +
  "float32 the text is the same, and scores differ by rounding, at most 0.0001 nats per token; in " +
  "bfloat16 and int8 text and scores may differ.";

async function start() {
  const { text, model, adapter } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  try {
    const ask = async (options) => decoded(await inspect({ text, model, adapter, ...options }));
    const inspection = await ask();
    document.title = `Inspection: ${inspection.sentence}`;
    show(inspection, NOTE, ask);
  } catch (error) {
    document.querySelector("[role=status]").textContent = error.message;
  }
}

addEventListener("hashchange", () => location.reload()); // another sentence
start();
