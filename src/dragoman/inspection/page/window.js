// The window: which tokens, positions and steps of a long sentence are drawn.
// inspection/views/labels.py has the same rule for pictures.

import { createContext, html, useContext } from "./vendor/preact.js";

const LONG = 60; // tokens or steps; a longer sentence has the form
const Window = createContext(null); // the first and the last that are drawn, counted from 1; null is all

export const WindowOf = Window.Provider;

/** The first place of so many that is drawn, and the one after the last. A side that ends before the window
 * shows as many of its last ones. */
export function useWindow(count) {
  const window = useContext(Window);
  if (window === null) return [0, count];
  const [first, last] = window;
  const stop = Math.min(last, count);
  return [Math.max(0, stop - (last - first + 1)), stop];
}

/** Two numbers, the first and the last of `count` that are drawn. A number that does not fit the other moves
 * it. Nothing for a short sentence. */
export function WindowForm({ count, value, change }) {
  if (count <= LONG) return null;
  const [first, last] = value ?? [1, count];
  const clamp = (text) => Math.min(Math.max(Math.round(Number(text)) || 1, 1), count);
  const from = (event) => {
    const start = clamp(event.currentTarget.value);
    change([start, start <= last ? last : Math.min(start + last - first, count)]);
  };
  const to = (event) => {
    const stop = clamp(event.currentTarget.value);
    change([Math.min(first, stop), stop]);
  };
  const field = (name, number, onChange) => html`<label>${name} <input type="number" min="1" max=${count}
    value=${number} onChange=${onChange} /></label>`;
  return html`<div class="from-to" role="group" aria-label="Window">
    <span>Tokens, positions and steps</span>
    ${field("from", first, from)} ${field("to", last, to)} <span>of ${count}</span>
    <button disabled=${value === null} onClick=${() => change(null)}>All</button>
    ${value
      ? html`<span class="note">If one text is shorter, its last tokens are drawn. Tables and small maps
          contain everything.</span>` : null}
  </div>`;
}
