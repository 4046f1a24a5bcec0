// Which model translates, with which terms.

import { html } from "./vendor/preact.js";
import { languageName, number, t } from "./i18n.js";
import { icon } from "./icons.js";
import { Select } from "./select.js";

export function ModelBar({ session }) {
  return html`<div class="model"><${Model} session=${session} /><${TermsChoice} session=${session} /></div>`;
}

function Model({ session }) {
  const { fitting, source, target, used: model } = session;
  if (!model) {
    if (source !== "auto") return null;
    return html`<span>${t("The server chooses the model when it knows the language.")}</span>`;
  }
  if (model.pivot) {
    const language = languageName(model.pivot, model.pivot_name);
    return html`<span>${t("By way of {language}: no model has both languages.", { language })}</span>`;
  }
  const choices = (source === "auto" ? [] : fitting).map((one) => ({ code: one.label, name: nameOf(one) }));
  choices.sort((one, other) => one.name.localeCompare(other.name, "en", { numeric: true }));
  const choice = choices.length > 1 && html`<${Select} label=${t("Model")} options=${choices}
    value=${session.model} choose=${(code) => session.setPair(source, target, code)} />`;
  const name = choice ? html`<span>${t("Model")}</span>${choice}<span>${facts(model)}</span>`
    : html`<span>${t("Model")} <bdi>${nameOf(model)}</bdi> · ${facts(model)}</span>`;
  return html`${name}<${Inside} session=${session} />`;
}

function nameOf({ name, adapter }) {
  return adapter ? t("{model} with {adapter}", { model: name, adapter }) : name;
}

/** The glossaries with terms of the languages, if there are any, and the button of the panel. */
function TermsChoice({ session }) {
  const { fitting, glossary, terms, isOpen } = session.terms;
  if (!session.target) return null;
  const choices = [{ code: "", name: t("None") }, ...fitting.map(({ id, name }) => ({ code: id, name }))];
  return html`<span class="choice">
    ${fitting.length ? html`<span>${t("Glossary")}</span><${Select} label=${t("Glossary")} options=${choices}
      value=${glossary} choose=${(id) => session.chooseGlossary(id)} />` : null}
    <button class="quiet" id="terms" aria-expanded=${isOpen} onClick=${() => session.showTerms(!isOpen)}>
      ${icon("book")}<span>${t("Terms")}${terms.length ? ` · ${number(terms.length)}` : ""}</span></button>
  </span>`;
}

/** A link to the inspector, in a tab that gets the key from its opener. */
function Inside({ session }) {
  const { result, isCurrent } = session;
  const sentence = isCurrent && !result.pivot && result.sentences[0]?.source;
  if (!sentence) return null;
  const asked = new URLSearchParams({ text: sentence, model: result.model, adapter: result.adapter ?? "" });
  const name = result.sentences.length > 1 ? t("Look inside the first sentence") : t("Look inside");
  return html`<a class="link" href=${`inspect#${asked}`} target="_blank" rel="opener">${name}</a>`;
}

function facts({ architecture, parameters, precision }) {
  const millions = number(parameters / 1e6, { maximumSignificantDigits: 2 });
  return t("{architecture} · {n} million parameters · {precision}", { architecture, n: millions, precision });
}
