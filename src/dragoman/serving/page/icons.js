// Line icons of 16 × 16; decoration beside a label.

import { html } from "./vendor/preact.js";

const PATHS = {
  swap: "M2.5 5.5h10M10 3l2.5 2.5L10 8M13.5 10.5h-10M6 8l-2.5 2.5L6 13",
  copy: "M5.5 5.5h7v8h-7zM3.5 10.5v-8h7",
  check: "M3 8.5l3.5 3.5L13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  file: "M4 2.5h5l3 3v8H4zM9 2.5v3h3",
  down: "M8 2.5v8M4.5 7L8 10.5 11.5 7M3.5 13.5h9",
  list: "M3 4.5h10M3 8h10M3 11.5h6",
  again: "M12.5 5.5A5 5 0 1 0 13 8.5M12.8 2.5v3.2H9.6",
  clock: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M8 5v3l2 1.5",
  book: "M8 4.5C6.5 3.3 4.6 3 2.5 3.2v9c2.1-.2 4 .1 5.5 1.3 1.5-1.2 3.4-1.5 5.5-1.3v-9C11.4 3 9.5 3.3 8 4.5v9",
  pen: "M3 13l.7-3L11 2.7 13.3 5 6 12.3zM9.5 4.2l2.3 2.3",
  question: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M6.3 6.3a1.7 1.7 0 1 1 2.5 1.5c-.5.3-.8.6-.8 1.2M8 11v.2",
  moon: "M12.5 9.5A5.2 5.2 0 0 1 6.5 3.2a5.2 5.2 0 1 0 6 6.3z",
};

export function icon(name) {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}

/** The sign of the page: a tulip of two leaves, which are two texts. */
export function tulip() {
  return html`<svg class="tulip" viewBox="0 0 32 32" aria-hidden="true">
    <path class="leaf" d="M16 30C9 29 4 23 4 15c6 1 11 6 12 15zM16 30c7-1 12-7 12-15-6 1-11 6-12 15z" />
    <path class="petal" d="M16 20c-4-3-6-7-6-11 0-2 .6-4 1.5-5.5 1.5 1 2.6 2 3.3 3.2L16 2
      l1.2 4.7c.7-1.2 1.8-2.2 3.3-3.2C21.4 5 22 7 22 9c0 4-2 8-6 11z" />
  </svg>`;
}
