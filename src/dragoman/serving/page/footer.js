// The foot of the page: links, and the language of the page.

import { html } from "./vendor/preact.js";
import { LANGUAGES, chooseLanguage, language, t } from "./i18n.js";
import { shortcuts } from "./keys.js";

export function Footer({ session, redraw }) {
  const [action, keys] = shortcuts()[0];
  const choose = async (event) => {
    await chooseLanguage(event.target.value);
    redraw();
  };
  return html`<footer>
    <p>${action}: ${keys.map((key) => html`<kbd>${key}</kbd>${" "}`)}</p>
    <p>${t("Texts and files are sent only to this server.")}</p>
    <p class="links">
      ${session.hasDocs && html`<a class="link" href="docs">${t("API")}</a>`}
      <a class="link" href="lab/">${t("Experiments")}</a>
      <label><span>${t("Language of this page")}</span><span class="select">
        <select value=${language} onChange=${choose}>
          ${Object.entries(LANGUAGES).map(([code, name]) =>
            html`<option value=${code} lang=${code} selected=${code === language}>${name}</option>`)}
        </select></span></label>
    </p>
  </footer>`;
}
