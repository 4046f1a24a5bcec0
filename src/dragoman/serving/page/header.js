// The head of all pages: the name, links between the pages, and the theme. A page has the element #top with the
// address of the first page, data-root, and its own link, data-here.

import { html, render, useEffect, useReducer } from "./vendor/preact.js";
import { icon, tulip } from "./icons.js";

const THEME = "dragoman.theme"; // absent where the system decides
const LINKS = [["", "Translate"], ["inspect", "Look inside"], ["lab/", "Lab"], ["docs", "API"]];
const darkness = matchMedia("(prefers-color-scheme: dark)");

/** root: the address of the first page from this one. here: the link of this page. children: its own controls. */
export function Header({ root, here, children }) {
  const link = ([address, name]) => html`<a key=${name} href=${root + address}
    aria-current=${address === here ? "page" : null}>${name}</a>`;
  return html`
    <a class="name" href=${root}>${tulip()}<span>Dragoman</span></a>
    <nav aria-label="Pages">${LINKS.map(link)}</nav>
    ${children}
    <${ThemeSwitch} />`;
}

function ThemeSwitch() {
  const [, redraw] = useReducer((count) => count + 1, 0);
  useEffect(() => {
    darkness.addEventListener("change", redraw);
    return () => darkness.removeEventListener("change", redraw);
  }, []);
  const system = darkness.matches ? "dark" : "light";
  const { dataset } = document.documentElement;
  const theme = dataset.theme ?? system;
  const change = () => {
    const chosen = theme === "dark" ? "light" : "dark";
    keep(chosen === system ? null : chosen);
    if (chosen === system) delete dataset.theme;
    else dataset.theme = chosen;
    redraw();
  };
  return html`<button class="quiet" aria-pressed=${theme === "dark"} onClick=${change}>
    ${icon("moon")}<span>Dark</span></button>`;
}

/** Keep the chosen theme for the next page; null is the system's. */
function keep(theme) {
  try {
    if (theme) localStorage.setItem(THEME, theme);
    else localStorage.removeItem(THEME);
  } catch {
    // Storage is switched off: until the page is left.
  }
}

const top = document.getElementById("top");
if (top) render(html`<${Header} ...${top.dataset} />`, top);
