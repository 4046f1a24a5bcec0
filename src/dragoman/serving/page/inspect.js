// "Look inside": what a model computes for the sentence after the # of the address, which no server log has.

import { decoded } from "./inspection/data.js";
import { show } from "./inspection/report.js";
import { inspect } from "./api.js";

async function start() {
  const { text, model, adapter } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  try {
    const inspection = await inspect({ text, model, adapter });
    document.title = `Inspection: ${inspection.sentence}`;
    const ask = (changes) => inspect({ text, model, adapter, changes });
    show(decoded(inspection), "The server computed this with PyTorch just now.", ask);
  } catch (error) {
    document.querySelector("[role=status]").textContent = error.message;
  }
}

start();
