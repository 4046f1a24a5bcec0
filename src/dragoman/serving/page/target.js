// The right pane: the translation, whose words can be chosen, and what is known of it.

import { Component, html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";
import { copy } from "./files.js";
import { draw, highlight } from "./highlight.js";
import { icon } from "./icons.js";
import { meanProbability, pieces, sureness } from "./words.js";

export function TargetPane({ session }) {
  const { result, partial, isCurrent } = session;
  const pane = useRef();
  return html`<section class="pane target" aria-label="Translation" aria-busy=${session.working} ref=${pane}>
    <${Failure} session=${session} />
    <div class="text words" dir="auto" lang=${session.target || null}
      onPointerEnter=${() => session.alignAgain()} onfocusin=${() => session.alignAgain()}>
      ${isCurrent
        ? html`<${Words} session=${session} result=${result} />`
        : html`<${Draft} partial=${partial} former=${session.text.trim() ? (result?.text ?? "") : ""}
            working=${session.working} />`}
    </div>
    ${session.menu ? html`<${Menu} session=${session} pane=${pane} />` : null}
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

/** The words as buttons with one tab stop; arrow keys move between them. */
class Words extends Component {
  shouldComponentUpdate({ result }) {
    return result !== this.props.result;
  }

  componentDidMount() {
    this.componentDidUpdate();
  }

  /** The marks and the tab stop are kept in the elements, not in the drawing. */
  componentDidUpdate() {
    const words = [...this.root.querySelectorAll("[data-word]")];
    const stops = words.filter((word) => word.tabIndex === 0);
    if (!stops.length && words.length) words[0].tabIndex = 0;
    draw(this.props.result);
  }

  point(event, onWord) {
    const element = event.target.closest("[data-word]");
    if (!element) return null;
    const { sentence, word, start } = element.dataset;
    return onWord(element, { side: "target", sentence: Number(sentence), word: Number(word) }, Number(start));
  }

  mark(event) {
    highlight(this.point(event, (_, place) => place), this.props.result);
  }

  choose(event) {
    const selecting = event.type === "click" && !getSelection().isCollapsed;
    if (!selecting)
      this.point(event, (_, { sentence }, start) => this.props.session.openMenu(sentence, start));
  }

  press(event) {
    if (event.key === "Enter" || event.key === " ") {
      if (event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      return this.choose(event);
    }
    const words = [...this.root.querySelectorAll("[data-word]")];
    const at = words.indexOf(event.target);
    const onward = getComputedStyle(this.root).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
    const back = onward === "ArrowLeft" ? "ArrowRight" : "ArrowLeft";
    const to = { [onward]: at + 1, [back]: at - 1, Home: 0, End: words.length - 1 }[event.key];
    if (to === undefined || !words[to]) return;
    event.preventDefault();
    words[to].focus();
  }

  focus(event) {
    for (const word of this.root.querySelectorAll('[tabindex="0"]')) word.tabIndex = -1;
    event.target.tabIndex = 0;
    this.mark(event);
  }

  render({ result }) {
    const piece = ({ text, sentence, word, start }) =>
      word === undefined
        ? text
        : html`<span role="button" aria-haspopup="menu" tabindex="-1" data-side="target"
            data-sentence=${sentence} data-word=${word} data-start=${start}>${text}</span>`;
    return html`<div role="group" aria-label="Words of the translation" ref=${(root) => (this.root = root)}
      onClick=${(event) => this.choose(event)} onKeyDown=${(event) => this.press(event)}
      onfocusin=${(event) => this.focus(event)} onfocusout=${() => highlight(null)}
      onPointerOver=${(event) => this.mark(event)} onPointerLeave=${() => highlight(null)}>
      ${pieces(result, "target").map(piece)}
    </div>`;
  }
}

/** Alternatives of a word, below it. */
function Menu({ session, pane }) {
  const box = useRef();
  const { sentence, start, prefix, items, message } = session.menu;
  const word = () =>
    pane.current.querySelector(`.words [data-sentence="${sentence}"][data-start="${start}"]`);
  useLayoutEffect(() => placeBelow(box.current, word(), pane.current), [items]);
  useEffect(() => (box.current.querySelector("[role=menuitem]") ?? box.current).focus(), [items]);

  const close = () => {
    word()?.focus();
    session.closeMenu();
  };
  const onKey = (event) => {
    const choices = [...box.current.querySelectorAll("[role=menuitem]")];
    const at = choices.indexOf(document.activeElement);
    const count = choices.length;
    const next = { ArrowDown: (at + 1) % count, ArrowUp: (at + count - 1) % count, Home: 0, End: count - 1 };
    const to = next[event.key];
    if (event.key === "Escape" || event.key === "Tab") close();
    else if (to === undefined) return;
    else choices[to]?.focus();
    event.preventDefault();
    event.stopPropagation();
  };
  const choose = (text) => {
    close();
    session.adopt(sentence, text);
  };
  return html`<div class="menu" ref=${box} role="menu" tabindex="-1" onKeyDown=${onKey}
    aria-label=${`Alternatives from “${word()?.textContent ?? ""}”`} aria-busy=${items === null}>
    ${items === null ? html`<p role="none" class="note">Looking for alternatives …</p>` : null}
    ${items?.length === 0
      ? html`<p role="none" class="note">${message || "There is no alternative here."}</p>`
      : null}
    ${(items ?? []).map(
      (item) => html`<${Alternative} key=${item.text} item=${item} prefix=${prefix} choose=${choose}
        target=${session.result.target} current=${item.text === session.result.sentences[sentence].text} />`,
    )}
  </div>`;
}

function Alternative({ item, prefix, choose, target, current }) {
  const rest = item.text.startsWith(prefix) ? item.text.slice(prefix.length) : item.text;
  const [, first, others] = /^\s*(\S*)(.*)$/s.exec(rest);
  return html`<button role="menuitem" tabindex="-1" class=${current ? "current" : ""} lang=${target}
    onClick=${() => choose(item.text)}>
    <bdi class="onward"><b>${first}</b>${others}</bdi>
    <span class="share" lang="en">${percent(item.log_probability)}</span>
  </button>`;
}

/** The probability of a token; a logarithm of null is that of 0. */
function percent(logProbability) {
  const probability = logProbability === null ? 0 : Math.exp(logProbability);
  return probability < 0.01 ? "< 1 %" : `${Math.round(100 * probability)} %`;
}

/** Puts the menu under a word, inside the pane's width. */
function placeBelow(menu, word, pane) {
  if (!word) return;
  const rectangles = word.getClientRects();
  const last = rectangles[rectangles.length - 1];
  const frame = pane.getBoundingClientRect();
  const most = Math.max(frame.width - menu.offsetWidth - 12, 12);
  menu.style.left = `${Math.min(Math.max(last.left - frame.left - 12, 12), most)}px`;
  menu.style.top = `${last.bottom - frame.top + 6}px`;
  menu.scrollIntoView({ block: "nearest" });
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
    <button class="quiet" id="others" disabled=${!isCurrent || result.format === "html"}
      aria-label="More translations" aria-expanded=${session.others !== null} onClick=${onOthers}>
      ${icon("list")}<span>More<span class="wide"> translations</span></span></button>
    <button class="quiet" disabled=${!isCurrent} onClick=${onCopy}>
      ${icon(copied ? "check" : "copy")}<span>${copied ? "Copied" : "Copy"}</span>
    </button>`;
}
