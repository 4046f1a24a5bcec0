// The foot of the page: a key, where texts go, and the language of the page.

import { html } from "./vendor/preact.js";
import { LANGUAGES, chooseLanguage, language, t } from "./i18n.js";
import { shortcuts } from "./keys.js";

export function Footer({ redraw }) {
  const [action, keys] = shortcuts()[0];
  const choose = async (event) => {
    await chooseLanguage(event.target.value);
    redraw();
  };
  return html`<footer>
    <div>
      <p>${action}: ${keys.map((key) => html`<kbd>${key}</kbd>${" "}`)}</p>
      <p>${t("Texts and files are sent only to this server.")}</p>
    </div>
    <p class="language">
      <label><span>${t("Language of this page")}</span><span class="select">
        <select value=${language} onChange=${choose}>
          ${Object.entries(LANGUAGES).map(([code, name]) =>
            html`<option value=${code} lang=${code} selected=${code === language}>${name}</option>`)}
        </select></span></label>
    </p>
  </footer>`;
}
