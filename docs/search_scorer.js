/* The scores of search results. Explanations come before the reference, unless the query is a name of the code
   or an option. */
"use strict";

const query = (new URLSearchParams(location.search).get("q") ?? "").trim();
const asksForName = /^--|[.(]|^[A-Z][a-z]+[A-Za-z]*$|[a-z][A-Z]/.test(query);
const name = query.replace(/\(.*/, ""); // translate() is the function translate

/* How much pages count whose names begin like this; the first that fits. */
const PAGE_WEIGHTS = [
  ["explanation/questions", 2],
  ["explanation/paper", 2],
  ["glossary", 2],
  ["explanation/experiments", 1.2],
  ["reference/python", 0.3],
  ["reference/changes", 0.3],
];

function score(result) {
  const [page, title, , , points, , kind] = result;
  if (kind === "object") {
    const isNamed = title === name || title.endsWith(`.${name}`);
    result[1] = title.replace(/^dragoman-?(.*)\.(--.*)$/, "dragoman $1 $2");
    return points * (asksForName && isNamed ? 20 : 0.25);
  }
  const weight = PAGE_WEIGHTS.find(([beginning]) => page.startsWith(beginning))?.[1] ?? 1;
  const isTableHeading = page.startsWith("explanation/experiments") && title.includes(" > ");
  return points * weight * (kind === "title" && !isTableHeading ? 2 : 1);
}

var Scorer = {
  score,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
