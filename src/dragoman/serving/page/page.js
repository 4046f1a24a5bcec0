// The layout, keys and dropped files.

import { html, render, useEffect, useReducer, useRef, useState } from "./vendor/preact.js";
import { DocumentList } from "./documentlist.js";
import { Documents } from "./documents.js";
import { Footer } from "./footer.js";
import { Header } from "./header.js";
import { Help, closeHelp } from "./helppanel.js";
import { preferredLanguage, t, useLanguage } from "./i18n.js";
import { icon } from "./icons.js";
import { isModified } from "./keys.js";
import { LanguageBar } from "./languagebar.js";
import { ModelBar } from "./modelbar.js";
import { History, Others, closeHistory, closeOthers } from "./panels.js";
import { scrollTogether } from "./scroll.js";
import { Session } from "./session.js";
import { SourcePane } from "./source.js";
import { TargetPane } from "./target.js";
import { TermsPanel, closeTerms } from "./termspanel.js";

let redraw = () => {};
const session = new Session(() => documents.follow());
const documents = new Documents(session, () => redraw());

function App() {
  const [, count] = useReducer((number) => number + 1, 0);
  const { historyOpen, helpOpen } = session;
  const [dropping, setDropping] = useState(false);
  redraw = count;
  useEffect(() => {
    session.begin();
    const onPointerDown = (event) => {
      if (event.target.closest(".menu")) return;
      session.closeMenu();
      documents.closeMenu();
    };
    const online = () => {
      session.reconnect();
      documents.reconnect();
    };
    const hashchange = () => session.follow();
    const beforeunload = (event) => (session.isUnsaved || documents.isUnsaved) && event.preventDefault();
    const listeners = { online, hashchange, beforeunload, pointerdown: onPointerDown, keydown: onKey };
    listen({ ...listeners, ...dropListeners(setDropping) });
  }, []);
  return html`
    <header class="top"><${Header} root="./" here="" hasDocs=${session.hasDocs}>
      <button class="quiet" id="history" aria-expanded=${historyOpen} aria-label=${t("History")}
        onClick=${() => session.showHistory(!historyOpen)}>
        ${icon("clock")}<span>${t("History")}</span></button>
      <button class="quiet" id="help" aria-expanded=${helpOpen} aria-label=${t("Help")}
        onClick=${() => session.showHelp(!helpOpen)}>${icon("question")}<span>${t("Help")}</span></button>
    <//></header>
    <main>
      <h1 class="hidden">Dragoman</h1>
      ${session.needsKey ? html`<${KeyForm} />` : null}
      <div class=${`sheet ${dropping ? "dropping" : ""}`}>
        <${LanguageBar} session=${session} />
        <${DocumentList} documents=${documents} session=${session} />
        <div class="panes" onScrollCapture=${scrollTogether}>
          <${SourcePane} session=${session} addFiles=${addFiles} />
          <${TargetPane} session=${session} />
        </div>
        <${ModelBar} session=${session} />
      </div>
      ${session.others ? html`<${Others} session=${session} />` : null}
      ${session.terms.isOpen ? html`<${TermsPanel} session=${session} />` : null}
      ${historyOpen ? html`<${History} session=${session} redraw=${redraw} />` : null}
      ${helpOpen ? html`<${Help} session=${session} />` : null}
    </main>
    <${Footer} redraw=${redraw} />
    <p class="hidden" role="status" aria-live="polite" lang=${session.toldLanguage}>${session.announcement}</p>
    <p class="hidden" role="status" aria-live="polite">${documents.announcement}</p>`;
}

function KeyForm() {
  const field = useRef();
  useEffect(() => field.current.focus(), []);
  const submit = (event) => {
    event.preventDefault();
    const given = field.current.value.trim();
    document.querySelector(".source textarea").focus(); // the form goes
    session.useKey(given);
  };
  const { failure } = session;
  return html`<form class="key" onSubmit=${submit}>
    <p class="note">${t("This server is not open to everybody. Who runs it can give you a key.")}</p>
    <label for="key">${t("Your key")}</label>
    <input id="key" type="password" autocomplete="off" required ref=${field}
      aria-describedby=${failure && "key-failure"} />
    <button>${t("Use this key")}</button>
    <span class="note">${t("It is kept until this tab is closed.")}</span>
    ${failure && html`<p class="failure" id="key-failure">${failure.message}</p>`}
  </form>`;
}

/** The files of an input, or those that were dropped. */
function addFiles(input) {
  documents.add(input.files);
  if ("value" in input) input.value = ""; // the same file can be chosen again
}

/** Files may be dropped anywhere. */
function dropListeners(setDropping) {
  const hasFile = (event) => event.dataTransfer?.types.includes("Files");
  return {
    dragover: (event) => {
      if (!hasFile(event)) return;
      event.preventDefault();
      setDropping(true);
    },
    dragleave: (event) => event.relatedTarget ?? setDropping(false),
    drop: (event) => {
      setDropping(false);
      if (!hasFile(event)) return;
      event.preventDefault();
      addFiles({ files: event.dataTransfer.files });
    },
  };
}

function onKey(event) {
  if (event.isComposing) return; // an input method's own keys
  if (isModified(event)) runShortcut(event);
  if (event.key === "Escape") leave();
}

/** The shortcuts of help; that of the caret is the editor's. */
function runShortcut(event) {
  const { key, shiftKey } = event;
  const isSwap = shiftKey && key.toLowerCase() === "s";
  if (key !== "Enter" && key !== "/" && !isSwap) return;
  event.preventDefault();
  if (isSwap) session.swap();
  else if (key === "/") session.showHelp(!session.helpOpen);
  else if (shiftKey) document.getElementById("copy").click();
  else {
    if (event.target.closest(".target, .panel")) document.querySelector(".source textarea").focus();
    session.translate();
  }
}

/** Closes what was opened last, or ends a translation. */
function leave() {
  if (session.menu || session.isSaving) session.closeMenu();
  else if (documents.menu) documents.closeMenu();
  else if (session.isEditing) {
    session.editTranslation(false);
    document.getElementById("edit").focus();
  } else if (session.others) closeOthers(session);
  else if (session.helpOpen) closeHelp(session);
  else if (session.terms.isOpen) closeTerms(session);
  else if (session.historyOpen) closeHistory(session);
  else if (session.working || session.seconds) session.stop();
}

function listen(listeners) {
  for (const [name, listener] of Object.entries(listeners)) window.addEventListener(name, listener);
}

await useLanguage(preferredLanguage());
const root = document.getElementById("page");
root.textContent = "";
render(html`<${App} />`, root);
