/* The scores of search results: those of Sphinx, but a title that contains the query comes before pages that
   contain its words. */
"use strict";

var Scorer = {
  score: ([, , , , score, , kind]) => (kind === "title" ? 2 * score : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
