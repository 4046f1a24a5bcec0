// The languages of the text and of the translation.

import { html } from "./vendor/preact.js";
import { language, languageName, t } from "./i18n.js";
import { icon } from "./icons.js";
import { Select } from "./select.js";

export function LanguageBar({ session }) {
  const { source, target, sources, targets, spoken } = session;
  const choices = inOrder(sources);
  const detected = choices.find(({ code }) => source === "auto" && code === spoken);
  const name = detected ? t("{language} (detected)", { language: detected.name }) : t("Detect language");
  const all = choices.length > 1 ? [{ code: "auto", name }, ...choices] : choices;
  return html`<div class="languages">
    <${Select} label=${t("Language of the text")} options=${all} value=${source}
      choose=${(code) => session.setPair(code)} />
    <button class="swap" aria-label=${t("Swap the languages")} title=${t("Swap the languages")}
      disabled=${!session.canSwap} onClick=${() => session.swap()}>${icon("swap")}</button>
    <${Select} label=${t("Language of the translation")} options=${inOrder(targets)} value=${target}
      choose=${(code) => session.setPair(source, code)} />
  </div>`;
}

/** Languages by their names; those of the browser come first. */
function inOrder(languages) {
  const known = navigator.languages.map((code) => code.split("-")[0]);
  const place = ({ code }) => {
    const at = known.indexOf(code.split("-")[0]);
    return at < 0 ? known.length : at;
  };
  return languages
    .map(({ code, name }) => ({ code, name: languageName(code, name) }))
    .sort((one, other) => place(one) - place(other) || one.name.localeCompare(other.name, language));
}
