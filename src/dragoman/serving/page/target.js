// The right pane: the translation, whose words can be chosen, and what is known of it.

import { html, useEffect, useRef } from "./vendor/preact.js";
import { Editor, adoptInEditor } from "./editor.js";
import { draw, highlight, hold } from "./highlight.js";
import { plural, t } from "./i18n.js";
import { Sureness } from "./sureness.js";
import { SaveMenu, Tools } from "./tools.js";
import { WordGroup, WordMenu, wordAt, wordButton } from "./wordmenu.js";
import { isUnsure, pieces } from "./words.js";

const MAX_NAMED = 20; // terms that are not used

export function TargetPane({ session }) {
  const { result, partial, isCurrent, isEditing, menu } = session;
  const pane = useRef();
  const isOfWord = menu && menu.word !== null;
  const held = isOfWord ? { side: "target", sentence: menu.sentence, word: menu.word } : null;
  useEffect(() => hold(held, result), [menu]);
  const anchor = () => (isOfWord ? wordAt(pane.current.querySelector(".words"), menu)
    : pane.current.querySelector(".place"));
  const back = () => (isOfWord ? anchor() : pane.current.querySelector("textarea"))?.focus();
  return html`<section class="pane target" aria-label=${t("Translation")} aria-busy=${session.working} ref=${pane}>
    ${session.needsKey ? null : html`<${Failure} session=${session} />`}
    <${Progress} session=${session} />
    ${isCurrent && isEditing
      ? html`<${Editor} key="editor" session=${session} result=${result} />`
      : html`<div class="text words" key="words" dir="auto" lang=${session.target || null}
          onPointerEnter=${() => session.alignAgain()} onfocusin=${() => session.alignAgain()}>
          ${isCurrent
            ? html`<${Words} session=${session} result=${result} />`
            : html`<${Draft} partial=${partial} former=${session.text.trim() ? (result?.text ?? "") : ""}
                working=${session.working} />`}
        </div>`}
    ${isCurrent ? html`<${Doubts} sentences=${result.sentences} />` : null}
    ${isCurrent && result.unusedTerms.length ? html`<${Unused} result=${result} />` : null}
    ${menu ? html`<${WordMenu} menu=${menu} text=${result.sentences[menu.sentence].text} target=${result.target}
      pane=${pane} anchor=${anchor} back=${back} close=${() => session.closeMenu()}
      change=${(text) => (isOfWord ? session.adopt(menu.sentence, text)
        : adoptInEditor(session, menu.sentence, text))} />` : null}
    ${session.isSaving && isCurrent ? html`<${SaveMenu} session=${session} pane=${pane} />` : null}
    <div class="foot" key="foot">
      ${isCurrent ? html`<${Sureness} sentences=${result.sentences} />` : null}
      <span class="spring"></span>
      <${Tools} session=${session} />
    </div>
    ${session.refusal ? html`<p class="failure refusal">${session.refusal}</p>` : null}
  </section>`;
}

function Failure({ session }) {
  const { failure, seconds } = session;
  const wait = t("The server is busy. Trying again in {n} s.", { n: seconds });
  const note = seconds ? html`<p class="failure wait">${wait}</p>` : null;
  if (!failure) return note;
  const again = () => {
    document.querySelector(".source textarea").focus(); // the button goes
    session.again();
  };
  return html`${note}<p class="failure"><bdi lang=${failure.language ?? null}>${failure.message}</bdi>${" "}
    ${failure.again ? html`<button class="link" onClick=${again}>${t("Try again")}</button>` : null}
  </p>`;
}

/** How much of a long text is translated. */
function Progress({ session }) {
  if (!session.progress) return null;
  const { done, total } = session.progress;
  const label = t("Part {n} of {total}", { n: done + 1, total });
  return html`<div class="progress">
    <progress aria-label=${t("Translation of the text")} value=${done} max=${total}></progress><span>${label}</span>
  </div>`;
}

/** The translation while it comes. The former one stays, pale, as long as it begins with what has come. */
function Draft({ partial, former, working }) {
  const come = partial ?? "";
  const rest = former.startsWith(come) ? former.slice(come.length) : "";
  return html`<span>${come}</span><span class="pale">${rest}</span>${
    working ? html`<span class="caret"></span>` : null
  }`;
}

/** The words of the translation; those that are aligned with one are marked. */
function Words({ session, result }) {
  const unsure = result.sentences.map((sentence) => (isUnsure(sentence) ? "unsure" : null));
  const button = (piece) => wordButton(piece, "target", unsure[piece.sentence]);
  const mark = (place) =>
    highlight(place && { side: "target", sentence: place.sentence, word: place.word }, result);
  return html`<${WordGroup} label=${t("Words of the translation")} value=${result} mark=${mark}
    draw=${() => pieces(result, "target").map(button)} onDraw=${() => draw(result)}
    choose=${(place) => session.openMenu(place)} />`;
}

/** The sentences of which the model is very unsure, and those in which it has repeated itself. */
function Doubts({ sentences }) {
  const unsure = sentences.filter(isUnsure).length;
  const loops = sentences.filter(({ isLoop }) => isLoop).length;
  const note = (text) => html`<p class="notice">${text}</p>`;
  return html`
    ${unsure > 0 && note(sentences.length === 1
      ? t("The model is very unsure. The translation may be wrong.")
      : plural(unsure, "The model is very unsure of {n} sentence, which is underlined.",
        "The model is very unsure of {n} sentences, which are underlined."))}
    ${loops > 0 && note(plural(loops, "The model repeated itself in {n} sentence. The repetition is cut.",
      "The model repeated itself in {n} sentences. The repetitions are cut."))}`;
}

/** The terms that the translation does not have. */
function Unused({ result }) {
  const { unusedTerms, source, target } = result;
  const rest = unusedTerms.length - MAX_NAMED;
  const named = unusedTerms.slice(0, MAX_NAMED).map(([term, translation]) => html`<li>
    <bdi lang=${source}>${term}</bdi> → <bdi lang=${target}>${translation}</bdi></li>`);
  return html`<div class="note unused"><span>${t("Terms that are not used")}</span>
    <ul>${named}${rest > 0 && html`<li>${t("and {n} more", { n: rest })}</li>`}</ul></div>`;
}
