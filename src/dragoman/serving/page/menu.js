// A menu below an element of a pane.

import { html, useEffect, useLayoutEffect, useRef } from "./vendor/preact.js";

/** label: its name; anchor: gives the element above it; pane: a reference to the element that has both; back: gives
 * the focus back; content: what a change of means that the items are others. */
export function Menu({ label, anchor, pane, back, close, content, isBusy = false, children }) {
  const box = useRef();
  useLayoutEffect(() => placeBelow(box.current, anchor(), pane.current), [content]);
  useEffect(() => (box.current.querySelector("[role=menuitem]") ?? box.current).focus(), [content]);
  const onKey = (event) => {
    const choices = [...box.current.querySelectorAll("[role=menuitem]")];
    const at = choices.indexOf(document.activeElement);
    const count = choices.length;
    const next = { ArrowDown: (at + 1) % count, ArrowUp: (at + count - 1) % count, Home: 0, End: count - 1 };
    const to = next[event.key];
    if (event.key === "Escape" || event.key === "Tab") {
      back();
      close();
    } else if (to === undefined) return;
    else choices[to]?.focus();
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<div class="menu" ref=${box} role="menu" tabindex="-1" onKeyDown=${onKey} aria-label=${label}
    aria-busy=${isBusy}>${children}</div>`;
}

/** Puts the menu under an element, inside the pane's width. */
function placeBelow(menu, element, pane) {
  if (!element) return;
  const rectangles = element.getClientRects();
  const last = rectangles[rectangles.length - 1];
  const frame = pane.getBoundingClientRect();
  const most = Math.max(frame.width - menu.offsetWidth - 12, 12);
  menu.style.left = `${Math.min(Math.max(last.left - frame.left - 12, 12), most)}px`;
  menu.style.top = `${last.bottom - frame.top + 6}px`;
  menu.scrollIntoView({ block: "nearest" });
}
