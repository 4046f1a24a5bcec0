// The panel with help: what the page does, and its keys.

import { html } from "./vendor/preact.js";
import { t } from "./i18n.js";
import { shortcuts } from "./keys.js";
import { Panel } from "./panels.js";

export function closeHelp(session) {
  session.showHelp(false);
  document.getElementById("help").focus();
}

export function Help({ session }) {
  const hints = [
    t("Click a word of the translation to see alternatives. Choose one, and the sentence goes on from it."),
    t("Point at a word to see which words of the other language it comes from."),
    t("“Edit” makes the translation a text that you can write in. Your sentences stay when you change others."),
    t("“Files” translates documents, web pages, subtitles and others, and keeps their format."),
    `${t("Texts and files are sent only to this server.")} ${t("The text stays in this tab until you close it.")}`,
  ];
  return html`<${Panel} title=${t("Help")} close=${() => closeHelp(session)}>
    <ul class="hints">${hints.map((hint) => html`<li>${hint}</li>`)}</ul>
    <h3>${t("Keys")}</h3>
    <dl class="shortcuts">
      ${shortcuts().map(([action, keys]) => html`<div><dt>${keys.map((key) => html`<kbd>${key}</kbd>${" "}`)}</dt>
        <dd>${action}</dd></div>`)}
    </dl>
  <//>`;
}
