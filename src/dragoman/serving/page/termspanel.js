// The panel with the terms of a pair of languages: the reader's, and those of the chosen glossary.

import { html, useRef } from "./vendor/preact.js";
import { languageName, plural, t } from "./i18n.js";
import { icon } from "./icons.js";
import { Panel } from "./panels.js";
import { PAGE } from "./terms.js";

const MAX_LENGTH = 500; // of a term, at the server

export function closeTerms(session) {
  document.getElementById("terms").focus(); // first: a field that is left takes what was typed
  session.showTerms(false);
}

export function TermsPanel({ session }) {
  const { isPair, glossary } = session.terms;
  const { sources, source, targets, target, described } = session;
  const name = (languages, chosen) => languageName(chosen, languages.find(({ code }) => code === chosen)?.name);
  const languages = [name(sources, source), name(targets, target)];
  if (!isPair) {
    return html`<${Panel} title=${t("Terms")} close=${() => closeTerms(session)}>
      <p class="note">${described?.pivot
        ? t("Terms are not used in a translation by way of another language.")
        : t("Terms belong to a pair of languages. Choose the language of the text.")}</p>
    <//>`;
  }
  return html`<${Panel} title=${t("Terms")} close=${() => closeTerms(session)}>
    <h3>${t("Your terms, {source} to {target}", { source: languages[0], target: languages[1] })}</h3>
    <${Rows} session=${session} languages=${languages} />
    <p class="note">
      ${t("Where a text has a term, its translation has the one beside it, inflected if the server knows the forms.")}
      ${" "}${t("Your terms are stored in this browser only; with a glossary, they come before its terms.")}</p>
    ${glossary ? html`<${GlossaryTerms} session=${session} />` : null}
  <//>`;
}

/** A row of two fields for each term, and an empty one. A term is used when its fields are left. */
function Rows({ session, languages }) {
  const list = useRef();
  const { terms, source, target } = session;
  const fields = () => [...list.current.querySelectorAll("input")];
  const onKey = (event) => {
    if (event.key !== "Enter" || event.isComposing || event.ctrlKey || event.metaKey) return;
    fields()[fields().indexOf(event.target) + 1]?.focus();
  };
  const remove = (number) => {
    fields()[2 * number].focus(); // the button goes
    session.removeTerm(number);
  };
  const field = (row, number, side) => html`<input value=${row[side]} maxlength=${MAX_LENGTH} dir="auto"
    lang=${[source, target][side]} placeholder=${languages[side]} autocomplete="off" spellcheck="false"
    aria-label=${side ? t("Translation of term {n}", { n: number + 1 }) : t("Term {n}", { n: number + 1 })}
    onInput=${(event) => terms.edit(number, side, event.target.value)} onChange=${() => session.takeTerms()} />`;
  return html`<ol class="terms" ref=${list} onKeyDown=${onKey}>
    ${[...terms.rows, ["", ""]].map((row, number) => html`<li>
      ${field(row, number, 0)}${field(row, number, 1)}
      <button class="quiet" disabled=${number === terms.rows.length} aria-label=${t("Remove term {n}", { n: number + 1 })}
        onClick=${() => remove(number)}>${icon("cross")}</button>
    </li>`)}
  </ol>`;
}

function GlossaryTerms({ session }) {
  const { terms: state, source, target } = session;
  const { first, terms, total, message } = state.list ?? {};
  const turn = (start) => () => state.show(start);
  return html`<h3>${t("The glossary")} <bdi>${state.name}</bdi></h3>
    ${terms || message ? null : html`<p class="note">${t("Looking for the terms …")}</p>`}
    ${message ? html`<p class="failure"><bdi>${message}</bdi></p>` : null}
    <ol class="terms" start=${first + 1}>
      ${(terms ?? []).map((term) => html`<li>
        <span dir="auto" lang=${source}>${term[0]}</span><span dir="auto" lang=${target}>${term[1]}</span>
      </li>`)}
    </ol>
    ${total > PAGE && html`<div class="turn">
      <button class="quiet" disabled=${!first} onClick=${turn(first - PAGE)}>${t("Earlier")}</button>
      <span>${t("{first} to {last} of {all}",
        { first: first + 1, last: first + terms.length, all: plural(total, "{n} term", "{n} terms") })}</span>
      <button class="quiet" disabled=${first + PAGE >= total} onClick=${turn(first + PAGE)}>${t("Later")}</button>
    </div>`}`;
}
