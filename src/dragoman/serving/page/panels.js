// The panels under the sheet: more translations, and the history.

import { html, useEffect, useRef } from "./vendor/preact.js";
import * as history from "./history.js";
import { number, t } from "./i18n.js";
import { icon } from "./icons.js";

export function Panel({ title, close, children }) {
  const heading = useRef();
  useEffect(() => {
    heading.current.focus({ preventScroll: true });
    heading.current.scrollIntoView({ block: "nearest" });
  }, []);
  return html`<section class="panel" aria-label=${title}>
    <header>
      <h2 tabindex="-1" ref=${heading}>${title}</h2>
      <button class="quiet" onClick=${close}>${icon("cross")}<span>${t("Close")}</span></button>
    </header>
    ${children}
  </section>`;
}

/** Closes a panel. The button that opened it has the focus again. */
export function closeOthers(session) {
  session.closeOthers();
  document.getElementById("others").focus();
}

export function closeHistory(session) {
  session.showHistory(false);
  document.getElementById("history").focus();
}

/** The n-best list of each sentence; choosing one puts it into the translation. */
export function Others({ session }) {
  const { sentences, isBusy, message } = session.others;
  const { result } = session;
  return html`<${Panel} title=${t("More translations")} close=${() => closeOthers(session)}>
    ${sentences.map(({ source, nBest }, index) => html`
      ${result.sentences.length > 1 ? html`<h3 dir="auto" lang=${result.source}>${source}</h3>` : null}
      <ol class="others">
        ${nBest.map(({ text, score }) => html`<li>
          <button dir="auto" lang=${result.target} onClick=${() => session.adopt(index, text)}
            aria-pressed=${text === result.sentences[index]?.text}>${text}</button>
          <span class="score">${scoreInWords(score)}</span>
        </li>`)}
      </ol>`)}
    ${isBusy ? html`<p class="note">${t("Looking for more translations …")}</p>` : null}
    ${message ? html`<p class="failure"><bdi>${message}</bdi></p>` : null}
    <p class="note">
      ${t("Score: the log-probability divided by the length penalty. Nearer to zero is better.")}${" "}
      ${t("Experiments")}: <a class="link" href="lab/length-penalties">${t("length penalties")}</a>,${" "}
      <a class="link" href="lab/wider-beam">${t("wider beams")}</a></p>
  <//>`;
}

function scoreInWords(score) {
  return number(score, { minimumFractionDigits: 2, maximumFractionDigits: 2 }).replace("-", "−");
}

export function History({ session, redraw }) {
  const on = history.isOn();
  const entries = history.entries();
  const act = (action) => () => {
    action();
    redraw();
  };
  const restore = (entry) => {
    session.restore(entry);
    scrollTo({ top: 0 });
  };
  return html`<${Panel} title=${t("History")} close=${() => closeHistory(session)}>
    <div class="settings">
      <label><input type="checkbox" checked=${on} onChange=${act(() => history.switchTo(!on))} />
        ${t("Keep a history on this device")}</label>
      <button class="link" disabled=${!entries.length} onClick=${act(history.clear)}>${t("Clear the history")}</button>
    </div>
    ${entries.length ? null : html`<p class="note">${on ? t("Nothing yet.") : t("The history is off.")}</p>`}
    <ul class="entries">
      ${entries.map(
        (entry) => html`<li>
        <button class="entry" onClick=${() => restore(entry)}>
          <span dir="auto" lang=${entry.source}>${entry.text}</span>
          <span dir="auto" lang=${entry.target} class="translation">${entry.translation}</span>
        </button>
        <button class="quiet" aria-label=${t("Remove “{text}” from the history", { text: entry.text.slice(0, 40) })}
          onClick=${act(() => history.remove(entry))}>${icon("cross")}</button>
      </li>`,
      )}
    </ul>
    <p class="note">${t("The history is stored in this browser only.")}</p>
  <//>`;
}
