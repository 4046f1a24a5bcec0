// Keyboard shortcuts, with the keys that the device has.

import { t } from "./i18n.js";

const IS_APPLE = /Mac|iPhone|iPad/.test(navigator.platform);

/** What a shortcut does, and its keys. */
export function shortcuts() {
  const modifier = IS_APPLE ? "⌘" : t("Ctrl");
  const shift = IS_APPLE ? "⇧" : t("Shift");
  return [
    [t("Translate at once"), [modifier, t("Enter")]],
    [t("Copy the translation"), [modifier, shift, t("Enter")]],
    [t("Swap the languages"), [modifier, shift, "S"]],
    [t("Alternatives from the caret on, while you edit the translation"), [modifier, "."]],
    [t("Close what was opened last, or stop"), [t("Esc")]],
    [t("Help"), [modifier, "/"]],
  ];
}

/** Whether the device's key for shortcuts is down. */
export function isModified(event) {
  return event.ctrlKey || event.metaKey;
}
