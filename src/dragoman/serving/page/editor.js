// The translation as a text to write in. The mirror behind it gives it its height, and has a mark at the place from
// which alternatives are shown.

import { html, useEffect, useRef } from "./vendor/preact.js";
import { t } from "./i18n.js";
import { isModified } from "./keys.js";
import { keepFromAfar, type } from "./typing.js";

/** Another translation of a sentence takes its place. */
export function adoptInEditor(session, index, text) {
  const { start, end } = session.result.sentences[index];
  type(document.getElementById("translation"), text, start, end);
  session.adopt(index, text);
}

export function Editor({ session, result }) {
  const area = useRef();
  useEffect(() => area.current.focus(), []);
  const { menu } = session;
  const place = menu ? result.sentences[menu.sentence].start + menu.start : result.text.length;
  const onKey = (event) => {
    if (event.key !== "." || !isModified(event)) return;
    event.preventDefault();
    session.openMenuAt(area.current.selectionStart);
  };
  return html`<div class="stack text">
    <div class="mirror" aria-hidden="true">
      ${result.text.slice(0, place)}<span class="place"></span>${result.text.slice(place)}${"\n"}
    </div>
    <textarea ref=${area} aria-label=${t("Translation")} dir="auto" lang=${result.target} rows="1" id="translation"
      value=${result.text} onKeyDown=${onKey} onChange=${() => session.record()}
      onBeforeInput=${keepFromAfar} onInput=${(event) => session.write(event.target.value)}></textarea>
  </div>`;
}
