// The tree of the search: columns are steps, and rows are ranks by log-probability.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";
import { Bars, Facts, Formula, Numbers, Slider } from "./parts.js";
import { Token, fixed, percent, probability, visible } from "./tokens.js";
import { useWindow } from "./window.js";

const STEP = 132; // pixels from column to column
const RANK = 36;
const BOX = { width: 100, height: 28 };
const DRAWN = 60; // steps of a long tree that are drawn at once
const BEFORE = 20; // of them, those to the left of what can be seen

const ENDS = {
  finished: "It ends with the END token.",
  "below the beam": "It ranked below the hypotheses that its beam kept.",
  "below a translation": "Its score was below that of a translation that had been found.",
  "found by another group": "Another group of the beam has the same hypothesis.",
  "no extension in the beam": "None of its extensions was kept.",
  "the search was over": "The search was over while it was in the beam.",
};

const EXTENDED = "An extension of it was kept.";
const STATES = { // of ends, how their boxes are drawn
  finished: "finished", "no extension in the beam": "kept", "the search was over": "kept",
};

/** The tokens of each hypothesis as one text. */
function textsOf(nodes) {
  const texts = [];
  for (const { parent, token } of nodes) texts.push(`${parent === null ? "" : texts[parent]}\n${token}`);
  return texts;
}

/** The hypotheses of a search, for comparison with those of another. */
export function pathsOf({ nodes }) {
  return new Set(textsOf(nodes));
}

/** The nodes with their step, their rank in it, and the places of their boxes.
 * others: the hypotheses of a search to compare with, as `pathsOf` gives them. */
function layOut({ nodes, best_path: bestPath, met }, others) {
  const texts = textsOf(nodes);
  const best = new Set(bestPath);
  const placed = [];
  nodes.forEach((node, number) => {
    const step = node.parent === null ? 0 : placed[node.parent].step + 1;
    placed.push({ ...node, number, step, rank: 0, best: best.has(number), children: [],
      differs: others !== undefined && !others.has(texts[number]) });
    if (node.parent !== null) placed[node.parent].children.push(number);
  });
  const steps = [];
  for (const node of placed) (steps[node.step] ??= []).push(node);
  for (const column of steps) {
    const beamOf = ({ number }) => met?.[number]?.tokens ?? 0;
    column.sort(
      (one, other) => beamOf(one) - beamOf(other) || other.log_probability - one.log_probability,
    );
    column.forEach((node, rank) => Object.assign(node, { rank, x: STEP * node.step, y: RANK * rank }));
  }
  for (const node of placed) node.children.sort((one, other) => placed[one].rank - placed[other].rank);
  return { placed, steps };
}

function pathTo(placed, number) {
  const path = [];
  for (let each = number; each !== null; each = placed[each].parent) path.push(each);
  return path.reverse();
}

export function Beam({ inspection, others, tryOut }) {
  const { beam, search } = inspection;
  const [tree] = useState(() => layOut(beam, others));
  const [first, last] = useWindow(tree.steps.length - 1); // steps after the hypotheses that they extend
  const [asked, setStep] = useState(tree.steps.length - 1);
  const [chosen, setSelected] = useState(beam.best_path[1] ?? 0);
  const [pointed, setPointed] = useState(null);
  const step = Math.min(Math.max(asked, first), last);
  const isDrawn = (number) => tree.placed[number].step >= first && tree.placed[number].step <= step;
  const selected = isDrawn(chosen) ? chosen : bestAt(tree, beam, Math.min(first + 1, step));
  const showStep = (next) => {
    setStep(next);
    if (tree.placed[selected].step > next) setSelected(bestAt(tree, beam, next));
  };
  const show = (number) => {
    setStep(Math.max(step, tree.placed[number].step));
    setSelected(number);
  };
  const shown = pointed ?? selected;
  const continueFrom = (number) =>
    tryOut && canContinue(tree.placed[number], inspection) ? () => tryOut(beginningOf(tree, number)) : null;
  return html`
    <p>Each box is a hypothesis and shows its last token. Each column is a step of the search, with the best
      hypothesis on top. The thick path is the translation. ${kindOf(search)}</p>
    <p>Score: <span class="formula"><${Formula} text=${scoreFormula(search)} /></span>. ${won(tree, beam)}</p>
    <${Slider} label="Step" least=${first} most=${last} value=${step} change=${showStep} />
    <${Tree} key=${first} tree=${tree} first=${first} step=${step} last=${last}
      selected=${selected} select=${setSelected} point=${setPointed}
      continueFrom=${continueFrom} path=${new Set(pathTo(tree.placed, shown))} />
    <${Key} compared=${others !== undefined} samples=${Boolean(search.temperature)} />
    <${Hypothesis} tree=${tree} number=${shown} beam=${beam} show=${show}
      continueFrom=${continueFrom(shown)} />
    <${Numbers} title=${`All ${beam.nodes.length} hypotheses as a table`}
      head=${["Number", "Step", "Token", "Extends", "Log-probability, nats", "Score", "End", "Cut by",
        "In the translation"]}
      rows=${() => tree.placed.map((node) => [
        node.number, node.step, visible(node.token), node.parent ?? "", fixed(node.log_probability, 4),
        fixed(node.score, 4), node.end ?? "extended", node.cut_by ?? "", node.best ? "yes" : "",
      ])} />`;
}

function bestAt({ placed }, { best_path: bestPath }, step) {
  return bestPath.findLast((number) => placed[number].step <= step);
}

function kindOf(search) {
  const list = (what, words) => (words?.length ? ` ${what}: ${words.join(", ")}.` : "");
  return methodOf(search) + list("Forced words", search.force_words) +
    list("Banned words", search.ban_words) + list("Prefix", search.prefix && [search.prefix]);
}

function methodOf({ temperature, top_k: topK, top_p: topP, force_words: forced, groups, diversity, mbr }) {
  if (temperature) {
    const kept = `${topK ? ` from the ${topK} likeliest tokens` : ""}${topP < 1 ? `, top p ${topP}` : ""}`;
    const choice = mbr ? "minimum Bayes risk chose the translation"
      : "the likeliest is the translation";
    return `Each path is a sample, drawn at temperature ${temperature}${kept}; ${choice}.`;
  }
  if (forced?.length) return "There is a beam for each number of forced tokens met; the fewest are on top.";
  if (groups > 1) {
    return `The beam has ${groups} groups; a token loses ${diversity} nats for each use in an earlier group.`;
  }
  return "";
}

export function scoreFormula({ temperature, length_penalty: alpha, length_power: power }) {
  if (temperature) return "log-probability";
  if (power !== null && power !== undefined) return `log-probability / |Y|^p, p = ${power}`;
  return `log-probability / ((5 + |Y|) / 6)^α, α = ${alpha}`;
}

/** One stop of the tab key. The keys left and right follow the branches, up and down the ranks.
 * first, step, last: the steps of the window from the first to the one that is shown, and its last. */
function Tree({ tree, first, step, last, selected, select, point, path, continueFrom }) {
  const area = useRef();
  const { placed, steps } = tree;
  const seen = placed.filter((node) => node.step >= first && node.step <= step);
  const isSeen = (number) => number !== null && placed[number].step >= first;
  const [left, setLeft] = useState(0);
  const drawn = seen.filter((node) => node.number === selected ||
    (node.step - first >= left - BEFORE && node.step - first < left - BEFORE + DRAWN));
  const followScroll = ({ currentTarget: { scrollLeft } }) =>
    setLeft(BEFORE * Math.floor(scrollLeft / STEP / BEFORE));
  const byKey = useRef(false); // the focus is where the keys moved it to, also when other nodes are drawn
  const moveTo = (number) => {
    byKey.current = true;
    select(number);
  };
  const focus = (preventScroll) => {
    const node = area.current.querySelector(`[data-number="${selected}"]`);
    if (byKey.current && node !== document.activeElement) node.focus({ preventScroll });
  };
  useLayoutEffect(() => focus(false), [selected]);
  useLayoutEffect(() => focus(true), [left]);
  const onFocusOut = ({ relatedTarget }) => {
    if (relatedTarget && !area.current.contains(relatedTarget)) byKey.current = false;
  };
  const onKeyDown = (event) => {
    const node = placed[selected];
    const column = steps[node.step];
    if (event.key === "Enter") continueFrom(selected)?.();
    const next = {
      ArrowLeft: isSeen(node.parent) ? node.parent : null,
      ArrowRight: node.step < step ? node.children[0] : null,
      ArrowUp: column[node.rank - 1]?.number,
      ArrowDown: column[node.rank + 1]?.number,
      Home: seen.find(({ best }) => best)?.number,
      End: seen.findLast(({ best }) => best)?.number,
    };
    if (!(event.key in next)) return;
    event.preventDefault();
    moveTo(next[event.key] ?? selected);
  };
  const width = STEP * (step - first) + BOX.width + 8;
  const height = RANK * Math.max(...steps.slice(first, last + 1).map((column) => column.length));
  useEffect(() => {
    const { scrollLeft, clientWidth } = area.current;
    const right = STEP * (step - first) + BOX.width + 24;
    if (step < last && (right > scrollLeft + clientWidth || right < scrollLeft)) {
      area.current.scrollTo({ left: right - clientWidth });
    }
  }, [step]);
  return html`<div class="scroll tree" ref=${area} onScroll=${followScroll} onfocusout=${onFocusOut}>
    <div role="tree" aria-label="Hypotheses of the search" onKeyDown=${onKeyDown}
      style=${{ width: `${width}px`, height: `${height}px` }} onPointerLeave=${() => point(null)}>
      <svg width=${width} height=${height} aria-hidden="true">
        <g transform=${`translate(${-STEP * first})`}>
        ${drawn.filter(({ parent }) => isSeen(parent)).map((node) => html`<path key=${node.number}
          class=${classes(node, path)} d=${edge(placed[node.parent], node)} />`)}</g>
      </svg>
      ${drawn.map((node) => html`<div key=${node.number} role="treeitem" data-number=${node.number}
        class=${`node ${classes(node, path)}`} aria-level=${node.step + 1} aria-label=${nameOf(node)}
        aria-selected=${node.number === selected} tabindex=${node.number === selected ? 0 : -1}
        style=${{ left: `${node.x - STEP * first + 3}px`, top: `${node.y + 4}px` }}
        onClick=${() => select(node.number)} onFocus=${() => select(node.number)}
        onPointerEnter=${() => point(node.number)}><${Token} token=${node.token} /></div>`)}
    </div>
  </div>`;
}

/** Whether a search can continue from a hypothesis: it has tokens, and END is none of them. */
function canContinue({ step, token }, { target }) {
  return step > 0 && token !== target.tokens.at(-1);
}

/** The changes that force a search to begin with a hypothesis. */
function beginningOf({ placed }, number) {
  return pathTo(placed, number).slice(1).map((each, place) => `target.${place + 1}=${placed[each].token}`);
}

function classes({ end, best, number, differs }, path) {
  const state = end === null ? "extended" : STATES[end] ?? "ended";
  return `${state} ${best ? "best" : ""} ${path.has(number) ? "path" : ""} ${differs ? "differs" : ""}`;
}

function nameOf({ token, step, log_probability: logProbability, end, best, differs }) {
  const state = end ?? "extended";
  const place = `${best ? ", in the translation" : ""}${differs ? ", only in this search" : ""}`;
  return `${visible(token)}, step ${step}, ${fixed(logProbability, 2)}, ${state}${place}`;
}

function edge(parent, node) {
  const [x1, y1] = [parent.x + 3 + BOX.width, parent.y + 4 + BOX.height / 2];
  const [x2, y2] = [node.x + 3, node.y + 4 + BOX.height / 2];
  return `M${x1} ${y1}C${x1 + 16} ${y1} ${x2 - 16} ${y2} ${x2} ${y2}`;
}

function Key({ compared, samples }) {
  return html`<p class="key">
    <span><span class="node extended best"></span>the translation</span>
    <span><span class="node extended"></span>extended</span>
    <span><span class="node finished"></span>finished</span>
    ${samples ? null : html`<span><span class="node kept"></span>in the beam, not extended</span>
      <span><span class="node ended"></span>below the beam</span>`}
    ${compared ? html`<span><span class="node differs"></span>only in this search</span>` : null}
  </p>`;
}

/** By how much the translation is ahead of the other hypotheses that have finished. */
function won(tree, beam) {
  const winner = tree.placed[beam.best_path.at(-1)];
  const others = tree.placed.filter(({ end, number }) => end === "finished" && number !== winner.number);
  if (!others.length) return "No other hypothesis has finished.";
  const margin = winner.score - Math.max(...others.map(({ score }) => score));
  if (margin === 0) return "The next finished one has the same score.";
  const sign = margin < 0 ? "below" : "above";
  return `The translation's score is ${fixed(Math.abs(margin), 4)} ${sign} that of the next finished one.`;
}

/** By how much a finished hypothesis is behind the translation. */
function marginOf(tree, beam, node) {
  if (node.end !== "finished" || node.best) return [];
  return [["Score minus the translation's", fixed(node.score - tree.placed[beam.best_path.at(-1)].score, 4)]];
}

/** The button that shows the hypothesis that took another's place. */
function cutBy(tree, { cut_by: by }, show) {
  if (by === null || by === undefined) return [];
  const other = tree.placed[by];
  return [["What took its place", html`<button class="link" onClick=${() => show(by)}>
    <${Token} token=${other.token} />, ${fixed(other.log_probability, 4)}</button>`]];
}

function metBy(beam, number) {
  const met = beam.met?.[number];
  if (!met) return [];
  return [["Forced tokens met", met.words.length ? `${met.tokens}: ${met.words.join(", ")}` : met.tokens]];
}

/** The probability that a sample's last token was drawn with. */
function drawnWith(beam, { parent, token }) {
  const drawn = beam.drawn?.[parent]?.find(([each]) => each === token);
  return drawn ? [["Probability with which it was drawn", percent(probability(drawn[1]))]] : [];
}

function Hypothesis({ tree, number, beam, show, continueFrom }) {
  const node = tree.placed[number];
  const path = pathTo(tree.placed, number);
  const parent = node.parent === null ? null : tree.placed[node.parent];
  const step = parent ? node.log_probability - parent.log_probability : null;
  const candidates = beam.candidates[number];
  return html`<section class="panel hypothesis" aria-label="The hypothesis">
    <div>
      <h3>Hypothesis ${number}, step ${node.step}</h3>
      <p class="tokens">${path.map(
        (each) => html`<${Token} key=${each} token=${tree.placed[each].token} />`,
      )}</p>
      <${Facts} facts=${[
        ["Log-probability, nats", fixed(node.log_probability, 4)],
        ["Score", fixed(node.score, 4)],
        ...(parent ? [["Probability of the last token", percent(probability(step))]] : []),
        ...drawnWith(beam, node),
        ...metBy(beam, number),
        ["What became of it", node.end ? (ENDS[node.end] ?? node.end) : EXTENDED],
        ...cutBy(tree, node, show),
        ...marginOf(tree, beam, node),
      ]} />
      ${continueFrom ? html`<p><button class="try" onClick=${continueFrom}>Continue from here</button></p>
        <p class="note">A new search begins with these tokens. Enter in the tree does the same.</p>` : null}
    </div>
    ${candidates
      ? html`<div><${Bars} tokens=${candidates} caption="Likeliest next tokens" />
          ${beam.drawn?.[number]
            ? html`<${Bars} tokens=${beam.drawn[number]}
              caption="Distribution from which the next token was drawn" />`
            : null}</div>`
      : html`<p class="note">The search did not extend it, so there are no next tokens.</p>`}
  </section>`;
}
