// Translates beside the page, which so stays responsive. A newer text ends the translation of an older one.

import { alternatives, load, translate } from "../dragoman.js";

const loading = load();
let latest = 0;

/** Lets messages in that have come meanwhile. */
const pause = () => new Promise((resume) => setTimeout(resume));

loading.then(
  ({ languages }) => postMessage({ languages }),
  (error) => postMessage({ failure: error.message }),
);

onmessage = async ({ data: { number, text, sentence } }) => {
  if (number) latest = number;
  try {
    const model = await loading;
    if (sentence) return postMessage({ sentence, others: alternatives(model, sentence) });
    await translate(model, text, async (next) => {
      await pause();
      if (number !== latest) throw null;
      postMessage({ number, next });
    });
    postMessage({ number, isDone: true });
  } catch (error) {
    if (error) postMessage({ number, failure: error.message });
  }
};
