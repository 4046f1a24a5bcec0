// What a server shows above an inspection.

import { html, render } from "./vendor/preact.js";

/** The way back, a field for another sentence, and the view that the address keeps.
 * parameters: of the address. */
export function top(parameters) {
  const onSubmit = (event) => {
    event.preventDefault();
    parameters.set("text", event.target.elements.text.value);
    location.hash = parameters; // reloads the page
  };
  const keep = (view) => {
    parameters.set("view", view);
    history.replaceState(null, "", `#${parameters}`);
  };
  const links = html`<nav class="from-to" aria-label="Pages">
    <a class="link" href="./">Translate</a> <a class="link" href="lab/">Experiments</a>
    <form onSubmit=${onSubmit}>
      <input name="text" aria-label="Sentence" required dir="auto" size="30"
        value=${parameters.get("text") ?? ""} />
      <button>Inspect</button>
    </form>
  </nav>`;
  return { links, view: parameters.get("view"), keep };
}

/** Show a message in the place of an inspection. */
export function say(parameters, message) {
  const page = document.getElementById("page");
  page.textContent = "";
  render(html`${top(parameters).links}<p role="status">${message}</p>`, page);
}
