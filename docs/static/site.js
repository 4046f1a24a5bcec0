/* What furo leaves out for the keyboard and for screen readers. */
function setLabels() {
  const labels = { "aside.sidebar-drawer": "Pages", "aside.toc-drawer": "Contents of this page" };
  for (const [selector, label] of Object.entries(labels)) {
    document.querySelector(selector)?.setAttribute("aria-label", label);
  }
}

/* Whatever scrolls to the side is a tab stop, so that arrow keys can scroll it. */
function setTabStops() {
  for (const box of document.querySelectorAll("article pre, article .table-wrapper, article math, article p:has(> img)")) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
    } else {
      box.removeAttribute("tabindex");
    }
  }
}

/* A name in a table may break after a dot, a slash or an underscore. */
function allowBreaks() {
  for (const code of document.querySelectorAll("article td code span.pre")) {
    const parts = code.textContent.split(/(?<=[._/])/);
    code.replaceChildren(...parts.flatMap((part, number) => (number ? [document.createElement("wbr"), part] : [part])));
  }
}

document.addEventListener("DOMContentLoaded", () => {
  allowBreaks();
  setLabels();
  setTabStops();
});
window.addEventListener("resize", setTabStops);
document.addEventListener("toggle", setTabStops, true);
