// Both panes scroll together, in proportion to the heights of their texts.

let driven = null; // the element that has been scrolled by this file, and not by the reader

export function scrollTogether({ target, currentTarget }) {
  if (target === driven) {
    driven = null;
    return;
  }
  const other = [...currentTarget.querySelectorAll(".pane > .text")].find((text) => text !== target);
  const before = other.scrollTop;
  other.scrollTop = room(target) ? (target.scrollTop / room(target)) * room(other) : 0;
  if (other.scrollTop !== before) driven = other;
}

function room({ scrollHeight, clientHeight }) {
  return scrollHeight - clientHeight;
}
