// What can be done with a translation: the buttons below it, and the menu of files and the link.

import { html, useState } from "./vendor/preact.js";
import { copy, save } from "./files.js";
import { t } from "./i18n.js";
import { icon } from "./icons.js";
import { linkTo } from "./link.js";
import { Menu } from "./menu.js";
import { FORMATS, fileOf } from "./saving.js";

/** The buttons that are always there are apart, and keep their places when others come. */
export function Tools({ session }) {
  const { isCurrent, isEditing, isEdited, isSaving } = session;
  return html`
    <span class="tools">
      ${isEditing && html`<button class="quiet" key="menu" onClick=${() => openMenu(session)}>
        ${icon("list")}<span>${t("Alternatives")}</span></button>`}
      ${isEdited && html`<button class="quiet" key="undo" onClick=${() => session.undo()}>
        ${icon("again")}<span>${t("Undo my changes")}</span></button>`}
    </span>
    <span class="tools">
      <button class="quiet" disabled=${!isCurrent} aria-pressed=${isEditing} id="edit"
        onClick=${() => session.editTranslation(!isEditing)}>${icon("pen")}<span>${t("Edit")}</span></button>
      <button class="quiet" id="others" disabled=${!isCurrent} aria-label=${t("More translations")}
        aria-expanded=${session.others !== null}
        onClick=${() => (session.others ? session.closeOthers() : session.openOthers())}>
        ${icon("list")}<span>${t("More")}</span></button>
      <${CopyButton} session=${session} />
      <button class="quiet" id="save" disabled=${!isCurrent} aria-haspopup="menu" aria-expanded=${isSaving}
        onPointerDown=${(event) => event.stopPropagation()} onClick=${() => session.openSaving(!isSaving)}>
        ${icon("down")}<span>${t("Save")}</span></button>
    </span>`;
}

/** Alternatives from the caret on. */
function openMenu(session) {
  session.openMenuAt(document.getElementById("translation").selectionStart);
}

function CopyButton({ session }) {
  const [copied, setCopied] = useState(false);
  const { result, isCurrent } = session;
  const onCopy = async () => {
    if (!(await copyText(result.text, session))) return;
    session.noteSaved(result.text);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return html`<button class="quiet" id="copy" disabled=${!isCurrent} onClick=${onCopy}>
    ${icon(copied ? "check" : "copy")}<span>${copied ? t("Copied") : t("Copy")}</span>
  </button>`;
}

/** Returns whether the browser has allowed it. */
async function copyText(text, session) {
  try {
    await copy(text);
    session.refuse("");
    return true;
  } catch {
    session.refuse(t("The browser did not allow copying."));
    return false;
  }
}

/** The formats of a translation's file, and the link to the page with the text. */
export function SaveMenu({ session, pane }) {
  const anchor = () => document.getElementById("save");
  const close = () => session.closeMenu();
  const onSave = (format) => {
    anchor().focus();
    close();
    const { name, content } = fileOf(session.result, format);
    save(content, name);
    session.noteSaved(session.result.text);
  };
  const onLink = async () => {
    anchor().focus();
    close();
    const link = linkTo(session);
    if (link === null) return session.refuse(t("The text is too long for a link."));
    const isCopied = await copyText(link, session);
    if (isCopied) session.tell(t("The link is copied. Only its reader’s browser sees the text."));
  };
  const item = (name, note, action) => html`<button role="menuitem" tabindex="-1" onClick=${action}>
    <span class="onward">${name}</span><span class="share" dir="ltr">${note}</span></button>`;
  return html`<${Menu} label=${t("Save")} anchor=${anchor} back=${() => anchor().focus()} pane=${pane}
    close=${close}>
    ${item(t("Text"), ".txt", () => onSave(FORMATS.txt))}
    ${item(t("Web page"), ".html", () => onSave(FORMATS.html))}
    ${item(t("Table of both languages"), ".tsv", () => onSave(FORMATS.tsv))}
    ${item(t("Translation memory"), ".tmx", () => onSave(FORMATS.tmx))}
    ${item(t("Copy a link with the text"), "", onLink)}
  <//>`;
}
