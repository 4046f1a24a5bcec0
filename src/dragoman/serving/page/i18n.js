// The words of the page in the reader's language. A message's key is its English text; languages/CODE.json has the
// others. A message that counts has a text for each plural category of its language.

import { recall, store } from "./storage.js";

export const LANGUAGES = {
  ar: "العربية",
  de: "Deutsch",
  en: "English",
  es: "Español",
  fr: "Français",
  pt: "Português",
  uk: "Українська",
  zh: "中文",
};
const RIGHT_TO_LEFT = ["ar"];
const CHOSEN = "dragoman.language"; // absent where the browser decides

let messages = {};
export let language = "en";

/** The language that was chosen, else the first of the browser's that the page has. */
export function preferredLanguage() {
  const codes = [recall(CHOSEN), ...navigator.languages].map((code) => code?.split("-")[0]);
  return codes.find((code) => code in LANGUAGES) ?? "en";
}

/** Uses a language from now on; if its file does not come, English. */
export async function useLanguage(code) {
  messages = code === "en" ? {} : await fetchMessages(code);
  language = messages === null ? "en" : code;
  messages ??= {};
  document.documentElement.lang = language;
  document.documentElement.dir = RIGHT_TO_LEFT.includes(language) ? "rtl" : "ltr";
}

export async function chooseLanguage(code) {
  store(CHOSEN, code);
  await useLanguage(code);
}

async function fetchMessages(code) {
  try {
    return await (await fetch(`page/languages/${code}.json`)).json();
  } catch {
    return null;
  }
}

/** A message with its values in the places of {name}. */
export function t(message, values = {}) {
  return filled(messages[message] ?? message, values);
}

/** A message about a number, which is its {n}. `others`, its English text for most numbers, is the key. */
export function plural(n, one, others, values = {}) {
  const texts = messages[others] ?? { one, other: others };
  const category = new Intl.PluralRules(language).select(n);
  return filled(texts[category] ?? texts.other, { n, ...values });
}

export function number(value, options = {}) {
  return value.toLocaleString(language, options);
}

/** The name of a language by its code; `name` is the server's, which is English. */
export function languageName(code, name = code) {
  if (language === "en" || code === "und") return SIDES[name]?.() ?? name;
  try {
    return new Intl.DisplayNames(language, { type: "language" }).of(code);
  } catch {
    return name;
  }
}

/** The name of a script by its code of ISO 15924. */
export function scriptName(code) {
  return new Intl.DisplayNames(language, { type: "script" }).of(code);
}

/** The sides of a model whose languages are unknown. */
const SIDES = {
  Source: () => t("Source"),
  Target: () => t("Target"),
  Spelling: () => t("Spelling"),
  Phonemes: () => t("Phonemes"),
};

/** Texts are isolated, so that a name of another direction does not change the order of a sentence. */
function filled(message, values) {
  return message.replace(/\{(\w+)\}/g, (_, name) => {
    const value = values[name];
    if (typeof value === "number") return number(value);
    return RIGHT_TO_LEFT.includes(language) ? `\u2068${value}\u2069` : value;
  });
}
