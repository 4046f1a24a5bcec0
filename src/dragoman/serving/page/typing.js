// Changes of a text area that the browser can undo.

/** Replaces a part of the text as typing does; the area's input event tells the page. */
export function type(area, text, start = 0, end = area.value.length) {
  area.focus();
  area.setSelectionRange(start, end);
  document.execCommand(text ? "insertText" : "delete", false, text);
}

/** Chromium undoes the latest change of any field; that of one that has not the focus would not be seen. */
export function keepFromAfar(event) {
  if (event.inputType.startsWith("history") && document.activeElement !== event.target) event.preventDefault();
}
