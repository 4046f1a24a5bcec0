// "Look inside": what a model computes for the sentence after the # of the address, which no server log has.

import { decoded } from "./inspection/data.js";
import { show } from "./inspection/report.js";
import { html, render } from "./inspection/vendor/preact.js";
import { inspect } from "./api.js";

const NOTE = "The server computed this with PyTorch just now. Its translations may be searched in C++: in " +
  "float32 the text is the same, and scores differ by rounding, at most 0.0001 nats per token; in " +
  "bfloat16 and int8 text and scores may differ.";

/** The way back, and a field for another sentence. */
function links(parameters) {
  const onSubmit = (event) => {
    event.preventDefault();
    parameters.set("text", event.target.elements.text.value);
    location.hash = parameters; // reloads the page
  };
  return html`<nav aria-label="Pages">
    <a href="./">Translate</a> <a href="lab/">Experiments</a>
    <form onSubmit=${onSubmit}>
      <input name="text" aria-label="Sentence" required dir="auto" value=${parameters.get("text") ?? ""} />
      <button>Inspect</button>
    </form>
  </nav>`;
}

async function start() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const { text, model, adapter } = Object.fromEntries(parameters);
  const say = (message) => {
    const page = document.getElementById("page");
    page.textContent = "";
    render(html`${links(parameters)}<p role="status">${message}</p>`, page);
  };
  if (!text) {
    say("Write a sentence, and choose Inspect.");
    return;
  }
  try {
    const ask = async (options) => decoded(await inspect({ text, model, adapter, ...options }));
    const inspection = await ask();
    document.title = `Inspection: ${inspection.sentence}`;
    show(inspection, NOTE, ask, links(parameters));
  } catch (error) {
    say(error.message);
  }
}

addEventListener("hashchange", () => location.reload()); // another sentence
start();
