// What a server shows above an inspection, below the head of all pages.

import { html, render } from "./vendor/preact.js";

/** A field for another sentence, and the view that the address keeps.
 * parameters: of the address. */
export function top(parameters) {
  const onSubmit = (event) => {
    event.preventDefault();
    parameters.set("text", event.target.elements.text.value);
    const { hash } = location;
    location.hash = parameters; // another one reloads the page
    if (location.hash === hash) location.reload();
  };
  const keep = (view) => {
    parameters.set("view", view);
    history.replaceState(null, "", `#${parameters}`);
  };
  const form = html`<form class="from-to sentence" role="search" aria-label="Another sentence"
    onSubmit=${onSubmit}>
    <input name="text" aria-label="Sentence" required dir="auto" size="30"
      value=${parameters.get("text") ?? ""} />
    <button>Inspect</button>
  </form>`;
  return { form, view: parameters.get("view"), keep };
}

/** Show a message in the place of an inspection. */
export function say(parameters, message) {
  const page = document.getElementById("page");
  page.textContent = "";
  render(html`${top(parameters).form}<main><h1>Inspection of a translation</h1>
    <p role="status">${message}</p></main>`, page);
}
