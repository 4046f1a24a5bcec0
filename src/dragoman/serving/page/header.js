// The header of all pages: the name, links between the pages, and the theme. The inspector's page and the lab's have
// an element #top with the properties of `Header` as data-root, data-here and data-has-docs, and are English.

import { html, render, useEffect, useReducer } from "./vendor/preact.js";
import { t } from "./i18n.js";
import { icon, tulip } from "./icons.js";
import { store } from "./storage.js";

const THEME = "dragoman.theme"; // absent where the system decides
const darkness = matchMedia("(prefers-color-scheme: dark)");

/** root: the address of the first page from this one. here: the address of this page from the first one. hasDocs:
 * the server describes its APIs. children: the page's own controls. */
export function Header({ root, here, hasDocs, children }) {
  const links = [["", t("Translate")], ["inspect", t("Inspector")], ["lab/", t("Lab")]];
  if (hasDocs) links.push(["docs", t("API")]);
  return html`
    <a class="name" href=${root}>${tulip()}<span>Dragoman</span></a>
    <nav aria-label=${t("Pages")}>${links.map(([address, name]) => html`<a key=${address} href=${root + address}
      aria-current=${address === here ? "page" : null}>${name}</a>`)}</nav>
    ${children}
    <${ThemeSwitch} />`;
}

export function ThemeSwitch() {
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
    store(THEME, chosen === system ? null : chosen);
    if (chosen === system) delete dataset.theme;
    else dataset.theme = chosen;
    redraw();
  };
  return html`<button class="quiet" aria-pressed=${theme === "dark"} aria-label=${t("Dark")} onClick=${change}>
    ${icon("moon")}<span>${t("Dark")}</span></button>`;
}

const top = document.getElementById("top");
if (top) render(html`<${Header} ...${top.dataset} />`, top);
