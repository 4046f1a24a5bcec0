// The words of a translation, and the menu of a word's alternatives.

import { Component, html } from "./vendor/preact.js";
import { number, t } from "./i18n.js";
import { Menu } from "./menu.js";
import { difference, firstWords } from "./words.js";

const TAIL = 3; // words that are shown of what all translations end with

/** Words as buttons with one tab stop; arrow keys move between them. `draw` gives them for a value, and is
 * called when the value is another one. The marks of aligned words are not in the drawing: `mark` is called
 * for the word under the pointer or at the focus, and with null; `onDraw` after drawing. */
export class WordGroup extends Component {
  shouldComponentUpdate({ value, label }) {
    return value !== this.props.value || label !== this.props.label;
  }

  componentDidMount() {
    this.componentDidUpdate();
  }

  /** The tab stop is kept in the elements, not in the drawing. */
  componentDidUpdate() {
    const words = this.words();
    const stops = words.filter((word) => word.tabIndex === 0);
    if (!stops.length && words.length) words[0].tabIndex = 0;
    this.props.onDraw?.();
  }

  words() {
    return [...this.root.querySelectorAll("[data-word]")];
  }

  place(event) {
    const { sentence, word, start } = event.target.closest("[data-word]")?.dataset ?? {};
    if (word === undefined) return null;
    return { sentence: Number(sentence), word: Number(word), start: Number(start) };
  }

  mark(event) {
    this.props.mark?.(this.place(event));
  }

  choose(event) {
    const selecting = event.type === "click" && !getSelection().isCollapsed;
    const place = this.place(event);
    if (!selecting && place) this.props.choose(place);
  }

  press(event) {
    if (event.key === "Enter" || event.key === " ") {
      if (event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      return this.choose(event);
    }
    const words = this.words();
    const at = words.indexOf(event.target);
    const onward = getComputedStyle(event.target).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
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

  leave() {
    this.props.mark?.(null);
  }

  render({ label, value, draw }) {
    return html`<div role="group" aria-label=${label} ref=${(root) => (this.root = root)}
      onClick=${(event) => this.choose(event)} onKeyDown=${(event) => this.press(event)}
      onfocusin=${(event) => this.focus(event)} onfocusout=${() => this.leave()}
      onPointerOver=${(event) => this.mark(event)} onPointerLeave=${() => this.leave()}>
      ${draw(value)}
    </div>`;
  }
}

/** A piece of a text; a word is a button. side: if aligned words are marked. name: its class. */
export function wordButton({ text, sentence, word, start }, side, name = null) {
  if (word === undefined) return text;
  return html`<span role="button" aria-haspopup="menu" tabindex="-1" class=${name} data-side=${side}
    data-sentence=${sentence} data-word=${word} data-start=${start}>${text}</span>`;
}

/** Alternatives of a word, or from the caret on. menu: {sentence, start, prefix, items, message}; text: of the
 * sentence; anchor, back, pane and close as of `Menu`; change: makes a text the sentence's translation. */
export function WordMenu({ menu, text, target, anchor, back, pane, close, change }) {
  const { prefix, items, message } = menu;
  const choose = (other) => {
    back();
    close();
    change(other);
  };
  const word = anchor()?.textContent;
  const label = word ? t("Alternatives from “{word}”", { word }) : t("Alternatives from here");
  return html`<${Menu} label=${label} anchor=${anchor} back=${back} pane=${pane} close=${close} content=${items}
    isBusy=${items === null}>
    ${items === null ? html`<p role="none" class="note">${t("Looking for alternatives …")}</p>` : null}
    ${items?.length === 0
      ? html`<p role="none" class="note"><bdi>${message || t("There is no alternative here.")}</bdi></p>`
      : null}
    ${(items ?? []).map((item) => html`<${Alternative} key=${item.text} item=${item} text=${text}
      prefix=${prefix} choose=${choose} target=${target} />`)}
  <//>`;
}

/** The word that a place names, below `root`. */
export function wordAt(root, { sentence, start }) {
  return root.querySelector(`[data-sentence="${sentence}"][data-start="${start}"]`);
}

/** What differs from the translation as it is, and how all goes on. */
function Alternative({ item, text, prefix, choose, target }) {
  const { differing, tail } = difference(item.text, text, prefix);
  return html`<button role="menuitem" tabindex="-1" class=${item.text === text ? "current" : ""} lang=${target}
    title=${item.text} onClick=${() => choose(item.text)}>
    <bdi class="onward"><b>${differing.trimStart()}</b>${firstWords(tail, TAIL)}</bdi>
    <span class="share">${percent(item.log_probability)}</span>
  </button>`;
}

/** The probability of a token; a logarithm of null is that of 0. */
function percent(logProbability) {
  const probability = logProbability === null ? 0 : Math.exp(logProbability);
  return probability < 0.01 ? `< ${number(1)} %` : `${number(Math.round(100 * probability))} %`;
}
