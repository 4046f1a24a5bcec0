// The right pane: the translation, whose words can be chosen, and what is known of it.

import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { copy } from "./files.js";
import { draw, highlight, hold } from "./highlight.js";
import { icon } from "./icons.js";
import { WordGroup, WordMenu, wordButton } from "./wordmenu.js";
import { meanProbability, pieces, sureness } from "./words.js";

const MAX_NAMED = 20; // terms that are not used

export function TargetPane({ session }) {
  const { result, partial, isCurrent, menu } = session;
  const pane = useRef();
  useEffect(() => hold(menu && { side: "target", sentence: menu.sentence, word: menu.word }, result), [menu]);
  return html`<section class="pane target" aria-label="Translation" aria-busy=${session.working} ref=${pane}>
    <${Failure} session=${session} />
    <div class="text words" dir="auto" lang=${session.target || null}
      onPointerEnter=${() => session.alignAgain()} onfocusin=${() => session.alignAgain()}>
      ${isCurrent
        ? html`<${Words} session=${session} result=${result} />`
        : html`<${Draft} partial=${partial} former=${session.text.trim() ? (result?.text ?? "") : ""}
            working=${session.working} />`}
    </div>
    ${isCurrent && result.unusedTerms.length ? html`<${Unused} result=${result} />` : null}
    ${menu ? html`<${WordMenu} menu=${menu} text=${result.sentences[menu.sentence].text} target=${result.target}
      pane=${pane} close=${() => session.closeMenu()}
      change=${(text) => session.adopt(menu.sentence, text)} />` : null}
    <div class="foot">
      ${isCurrent ? html`<${Sureness} sentences=${result.sentences} />` : null}
      <span class="spring"></span>
      <${Tools} session=${session} />
    </div>
  </section>`;
}

function Failure({ session }) {
  const { failure, seconds } = session;
  const wait = `The server is busy. Trying again in ${seconds} s.`;
  const note = seconds ? html`<p class="failure wait">${wait}</p>` : null;
  if (!failure) return note;
  const again = () => {
    document.querySelector(".source textarea").focus(); // the button goes
    session.again();
  };
  return html`${note}<p class="failure">${failure.message}${" "}
    ${failure.again ? html`<button class="link" onClick=${again}>Try again</button>` : null}
  </p>`;
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
  return html`<${WordGroup} label="Words of the translation" value=${result}
    draw=${() => pieces(result, "target").map((piece) => wordButton(piece, "target"))} onDraw=${() => draw(result)}
    mark=${(place) => highlight(place && { side: "target", sentence: place.sentence, word: place.word }, result)}
    choose=${(place) => session.openMenu(place)} />`;
}

/** The terms that the translation does not have. */
function Unused({ result }) {
  const { unusedTerms, source, target } = result;
  const rest = unusedTerms.length - MAX_NAMED;
  const named = unusedTerms.slice(0, MAX_NAMED).map(([term, translation]) => html`<li>
    <bdi lang=${source}>${term}</bdi> → <bdi lang=${target}>${translation}</bdi></li>`);
  return html`<div class="note unused"><span>Terms that are not used</span>
    <ul>${named}${rest > 0 && html`<li>and ${rest} more</li>`}</ul></div>`;
}

function Sureness({ sentences }) {
  const [closed, setClosed] = useState(false);
  const probability = meanProbability(sentences);
  if (probability === null) return null;
  const onKey = (event) => {
    if (event.key !== "Escape" || closed) return;
    setClosed(true);
    event.stopPropagation();
  };
  return html`<span class=${`sure ${closed ? "closed" : ""}`} onPointerEnter=${() => setClosed(false)}>
    <button class="quiet" aria-describedby="sure-tip" onKeyDown=${onKey} onBlur=${() => setClosed(false)}
      onClick=${() => setClosed(false)}>
      <span class="dial" aria-hidden="true" data-level=${Math.max(Math.round(5 * probability), 1)}>
        <i/><i/><i/><i/><i/></span>
      <span>${sureness(probability)}<span class="wide"> · ${probability.toFixed(2)}</span></span>
    </button>
    <span class="tip" role="tooltip" id="sure-tip">
      Mean probability per token: ${probability.toFixed(2)} (geometric mean, with ends of sentences). It says
      how sure the model is, not if it is right.</span>
  </span>`;
}

function Tools({ session }) {
  const [copied, setCopied] = useState(false);
  const { result, isCurrent } = session;
  const onCopy = async () => {
    try {
      await copy(result.text);
      setCopied(true);
      setTimeout(() => setCopied(false), 2000);
    } catch {
      session.refuse("The browser did not allow copying.");
    }
  };
  const onOthers = () => (session.others ? session.closeOthers() : session.openOthers());
  return html`
    <button class="quiet" id="others" disabled=${!isCurrent}
      aria-label="More translations" aria-expanded=${session.others !== null} onClick=${onOthers}>
      ${icon("list")}<span>More<span class="wide"> translations</span></span></button>
    <button class="quiet" disabled=${!isCurrent} onClick=${onCopy}>
      ${icon(copied ? "check" : "copy")}<span>${copied ? "Copied" : "Copy"}</span>
    </button>`;
}
