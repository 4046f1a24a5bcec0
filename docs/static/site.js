/* What furo leaves out for the keyboard and for screen readers. */
function setLabels() {
  const labels = { "aside.sidebar-drawer": "Pages", "aside.toc-drawer": "Contents of this page" };
  for (const [selector, label] of Object.entries(labels)) {
    document.querySelector(selector)?.setAttribute("aria-label", label);
  }
}

/* Whatever scrolls to the side is a tab stop, so that arrow keys can scroll it. */
function setTabStops() {
  for (const box of document.querySelectorAll("article pre, article .table-wrapper, article math")) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
    } else {
      box.removeAttribute("tabindex");
    }
  }
}

document.addEventListener("DOMContentLoaded", () => {
  setLabels();
  setTabStops();
});
window.addEventListener("resize", setTabStops);
document.addEventListener("toggle", setTabStops, true);
