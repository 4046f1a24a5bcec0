// The files that are translated: progress, failures, downloads, and the sentences side by side.

import { html, useEffect, useRef } from "./vendor/preact.js";
import { PAGE, countInWords } from "./documents.js";
import { sizeInWords } from "./files.js";
import { languageName, number, t } from "./i18n.js";
import { icon } from "./icons.js";
import { WordGroup, WordMenu, wordAt, wordButton } from "./wordmenu.js";
import { pieces } from "./words.js";

export function DocumentList({ documents, session }) {
  const pane = useRef();
  const { list, menu } = documents;
  if (!list.length) return null;
  const anchor = () => wordAt(document.getElementById(`file-${menu.file.number}`), menu);
  return html`<section class="documents" aria-label=${t("Files")} ref=${pane}>
    <ul>
      ${list.map((file) =>
        html`<${File} key=${file.number} file=${file} documents=${documents} session=${session} />`)}
    </ul>
    ${menu ? html`<${WordMenu} menu=${menu} text=${menu.file.sentences[menu.sentence].translation}
      target=${menu.file.status.target} pane=${pane} anchor=${anchor} back=${() => anchor()?.focus()}
      close=${() => documents.closeMenu()}
      change=${(text) => documents.adopt(menu.file, menu.sentence, text)} />` : null}
  </section>`;
}

function File({ file, documents, session }) {
  const item = useRef();
  const { state, status, failure, changes, isOpen } = file;
  useEffect(() => item.current.scrollIntoView({ block: "nearest" }), []);
  const act = (action) => () => {
    item.current.focus({ preventScroll: true }); // the button may go
    action(file);
  };
  const leave = () => {
    const other = item.current.nextElementSibling ?? item.current.previousElementSibling;
    (other ?? document.getElementById("files")).focus({ preventScroll: true });
    documents.remove(file);
  };
  const isLeft = state === "failed" ? failure.again : state === "cancelled";
  const isOther = state === "done" && (failure?.again || !documents.isCurrent(file));
  return html`<li id=${`file-${file.number}`} tabindex="-1" ref=${item} aria-label=${file.name}>
    <div class="head">
      <span class="name">${icon("file")}<bdi>${file.name}</bdi></span>
      <span class="facts">${facts(file, session)}</span>
      <span class="actions">
        ${state === "done" && html`<button class="quiet strong" disabled=${changes > 0}
          aria-label=${t("Download {name}", { name: status.name })}
          title=${status.name} onClick=${() => documents.download(file)}>
          ${icon("down")}<span>${t("Download")}</span></button>`}
        ${(isLeft || isOther) && html`<button class="quiet"
          aria-label=${t("Translate {name} again", { name: file.name })} onClick=${act((one) => documents.again(one))}>${icon("again")}<span>${t("Again")}</span></button>`}
        ${status?.sentences_total > 0 && html`<button class="quiet" aria-expanded=${isOpen}
          aria-label=${t("Sentences of {name}", { name: file.name })} onClick=${() => documents.toggle(file)}>
          ${icon("list")}<span>${t("Sentences")}</span></button>`}
        ${state === "running" || state === "waiting"
          ? html`<button class="quiet" aria-label=${t("Cancel {name}", { name: file.name })}
              onClick=${act((one) => documents.cancel(one))}>${icon("cross")}<span>${t("Cancel")}</span></button>`
          : html`<button class="quiet" aria-label=${t("Remove {name}", { name: file.name })} title=${t("Remove")}
              onClick=${leave}>${icon("cross")}</button>`}
      </span>
    </div>
    ${state === "running" && html`<${Progress} file=${file} />`}
    ${failure && html`<p class="failure"><bdi lang=${failure.language ?? null}>${failure.message}</bdi></p>`}
    ${isOpen && file.sentences && html`<${Sentences} file=${file} documents=${documents} />`}
  </li>`;
}

/** Size, sentences, languages and state of a file. */
function facts({ content, state, status }, { models }) {
  const parts = [sizeInWords(content.size)];
  if (status) {
    const { source, target, sentences_total } = status;
    const model = (models ?? []).find((one) => one.source === source && one.target === target);
    const from = languageName(source, model?.source_name);
    const to = languageName(target, model?.target_name);
    parts.push(countInWords(sentences_total), t("{source} to {target}", { source: from, target: to }));
  }
  if (state === "waiting") parts.push(t("waiting"));
  if (state === "cancelled") parts.push(t("cancelled"));
  return parts.join(" · ");
}

function Progress({ file }) {
  const label = t("Translation of {name}", { name: file.name });
  if (!file.status) {
    return html`<div class="progress" key="reading">
      <progress aria-label=${label}></progress><span>${t("The server reads the file.")}</span>
    </div>`;
  }
  const { sentences_done: done, sentences_total: total } = file.status;
  return html`<div class="progress">
    <progress aria-label=${label} value=${done} max=${total || 1}></progress>
    <span>${t("{done} of {all}", { done: number(done), all: countInWords(total) })}</span>
  </div>`;
}

/** Source and translation of some sentences. When all are translated, the words of a translation are buttons. */
function Sentences({ file, documents }) {
  const { name, first, sentences, status, state } = file;
  const total = status.sentences_total;
  const row = ({ source, translation = "", is_changeable }, sentence) => {
    const isChangeable = state === "done" && is_changeable && translation;
    const result = { text: translation, sentences: [{ start: 0, end: translation.length }] };
    return html`<li key=${first + sentence}>
      <p dir="auto" lang=${status.source}>${source}</p>
      <p dir="auto" lang=${status.target} class="words">
        ${isChangeable ? pieces(result, "target").map((piece) => wordButton({ ...piece, sentence })) : translation}
      </p>
    </li>`;
  };
  const turn = (start) => () => documents.turn(file, start);
  return html`<div class="sentences">
    <${WordGroup} label=${t("Sentences of {name} with their translations", { name })}
      value=${`${state}${JSON.stringify(sentences)}`}
      choose=${({ sentence, start }) => documents.openMenu(file, sentence, start)}
      draw=${() => html`<ol start=${first + 1}>${sentences.map(row)}</ol>`} />
    ${total > PAGE && html`<div class="turn">
      <button class="quiet" disabled=${!first} onClick=${turn(first - PAGE)}>${t("Earlier")}</button>
      <span>${t("{first} to {last} of {all}",
        { first: first + 1, last: first + sentences.length, all: countInWords(total) })}</span>
      <button class="quiet" disabled=${first + PAGE >= total} onClick=${turn(first + PAGE)}>${t("Later")}</button>
    </div>`}
  </div>`;
}
