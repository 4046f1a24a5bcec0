// The tree of the beam search: columns are steps, and rows are ranks by log-probability.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";
import { Bars, Facts, Numbers, Slider } from "./parts.js";
import { Token, fixed, percent, probability, visible } from "./tokens.js";

const STEP = 132; // pixels from column to column
const RANK = 36;
const BOX = { width: 100, height: 28 };
const DRAWN = 60; // steps of a long tree that are drawn at once
const BEFORE = 20; // of them, those to the left of what can be seen

const ENDS = {
  finished: "It ends with the END token.",
  "below the beam": "Its log-probability was below those of the beam.",
  "found by another group": "Another group of the beam has the same hypothesis.",
  "no extension in the beam": "None of its extensions stayed in the beam.",
  "the search was over": "The search was over while it was in the beam.",
};

const EXTENDED = "It did not: an extension of it stayed in the beam.";

/** The nodes with their step, their rank in it, and the places of their boxes. */
function layOut({ nodes, best_path: bestPath }) {
  const best = new Set(bestPath);
  const placed = [];
  nodes.forEach((node, number) => {
    const step = node.parent === null ? 0 : placed[node.parent].step + 1;
    placed.push({ ...node, number, step, rank: 0, best: best.has(number), children: [] });
    if (node.parent !== null) placed[node.parent].children.push(number);
  });
  const steps = [];
  for (const node of placed) (steps[node.step] ??= []).push(node);
  for (const column of steps) {
    column.sort((one, other) => other.log_probability - one.log_probability);
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

export function Beam({ inspection }) {
  const { beam, search } = inspection;
  const [tree] = useState(() => layOut(beam));
  const [step, setStep] = useState(tree.steps.length - 1);
  const [selected, setSelected] = useState(beam.best_path[1] ?? 0);
  const [pointed, setPointed] = useState(null);
  const showStep = (next) => {
    setStep(next);
    if (tree.placed[selected].step > next) setSelected(bestAt(tree, beam, next));
  };
  const shown = pointed ?? selected;
  return html`
    <p>A box is a hypothesis; its text is its last token. A column is a step of the search, best first. The
      translation is the thick path. Score: <span class="formula">${scoreFormula(search)}</span>.</p>
    <${Slider} label="Step" least=${0} most=${tree.steps.length - 1} value=${step} change=${showStep} />
    <${Tree} tree=${tree} step=${step} selected=${selected} select=${setSelected} point=${setPointed}
      path=${new Set(pathTo(tree.placed, shown))} />
    <${Key} />
    <${Hypothesis} tree=${tree} number=${shown} beam=${beam} />
    <${Numbers} title=${`All ${beam.nodes.length} hypotheses as a table`}
      head=${["Number", "Step", "Token", "Extends", "Log-probability", "Score", "End", "In the translation"]}
      rows=${() => tree.placed.map((node) => [
        node.number, node.step, visible(node.token), node.parent ?? "", fixed(node.log_probability, 4),
        fixed(node.score, 4), node.end ?? "extended", node.best ? "yes" : "",
      ])} />`;
}

function bestAt({ placed }, { best_path: bestPath }, step) {
  return bestPath.findLast((number) => placed[number].step <= step);
}

function scoreFormula({ length_penalty: alpha, length_power: power }) {
  if (power !== null && power !== undefined) return `log-probability / |Y|^β, β = ${power}`;
  return `log-probability / ((5 + |Y|) / 6)^α, α = ${alpha}`;
}

/** One stop of the tab key. The keys left and right follow the branches, up and down the ranks. */
function Tree({ tree, step, selected, select, point, path }) {
  const area = useRef();
  const { placed, steps } = tree;
  const seen = placed.filter((node) => node.step <= step);
  const [left, setLeft] = useState(0);
  const drawn = seen.filter((node) => node.number === selected ||
    (node.step >= left - BEFORE && node.step < left - BEFORE + DRAWN));
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
    const next = {
      ArrowLeft: node.parent,
      ArrowRight: node.step < step ? node.children[0] : null,
      ArrowUp: column[node.rank - 1]?.number,
      ArrowDown: column[node.rank + 1]?.number,
      Home: 0,
      End: seen.findLast(({ best }) => best)?.number,
    };
    if (!(event.key in next)) return;
    event.preventDefault();
    moveTo(next[event.key] ?? selected);
  };
  const width = STEP * step + BOX.width + 8;
  const height = RANK * Math.max(...steps.map((column) => column.length));
  useEffect(() => {
    const { scrollLeft, clientWidth } = area.current;
    const right = STEP * step + BOX.width + 24;
    if (step < steps.length - 1 && (right > scrollLeft + clientWidth || right < scrollLeft)) {
      area.current.scrollTo({ left: right - clientWidth });
    }
  }, [step]);
  return html`<div class="scroll tree" ref=${area} onScroll=${followScroll} onFocusOut=${onFocusOut}>
    <div role="tree" aria-label="Hypotheses of the beam search" onKeyDown=${onKeyDown}
      style=${{ width: `${width}px`, height: `${height}px` }} onPointerLeave=${() => point(null)}>
      <svg width=${width} height=${height} aria-hidden="true">
        ${drawn.filter(({ parent }) => parent !== null).map((node) => html`<path key=${node.number}
          class=${classes(node, path)} d=${edge(placed[node.parent], node)} />`)}
      </svg>
      ${drawn.map((node) => html`<div key=${node.number} role="treeitem" data-number=${node.number}
        class=${`node ${classes(node, path)}`} aria-level=${node.step + 1} aria-label=${nameOf(node)}
        aria-selected=${node.number === selected} tabindex=${node.number === selected ? 0 : -1}
        style=${{ left: `${node.x + 3}px`, top: `${node.y + 4}px` }}
        onClick=${() => select(node.number)} onFocus=${() => select(node.number)}
        onPointerEnter=${() => point(node.number)}><${Token} token=${node.token} /></div>`)}
    </div>
  </div>`;
}

function classes({ end, best, number }, path) {
  const state = end === null ? "extended" : end === "finished" ? "finished" : "ended";
  return `${state} ${best ? "best" : ""} ${path.has(number) ? "path" : ""}`;
}

function nameOf({ token, step, log_probability: logProbability, end, best }) {
  const state = end ?? "extended";
  const place = best ? ", in the translation" : "";
  return `${visible(token)}, step ${step}, ${fixed(logProbability, 2)}, ${state}${place}`;
}

function edge(parent, node) {
  const [x1, y1] = [parent.x + 3 + BOX.width, parent.y + 4 + BOX.height / 2];
  const [x2, y2] = [node.x + 3, node.y + 4 + BOX.height / 2];
  return `M${x1} ${y1}C${x1 + 16} ${y1} ${x2 - 16} ${y2} ${x2} ${y2}`;
}

function Key() {
  return html`<p class="key">
    <span><span class="node extended best"></span>the translation</span>
    <span><span class="node extended"></span>extended</span>
    <span><span class="node finished"></span>finished</span>
    <span><span class="node ended"></span>dropped</span>
  </p>`;
}

function Hypothesis({ tree, number, beam }) {
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
        ["Log-probability", fixed(node.log_probability, 4)],
        ["Score", fixed(node.score, 4)],
        ...(parent ? [["Probability of the last token", percent(probability(step))]] : []),
        ["Why it ended", node.end ? (ENDS[node.end] ?? node.end) : EXTENDED],
      ]} />
    </div>
    ${candidates
      ? html`<${Bars} tokens=${candidates} caption="Likeliest next tokens" />`
      : html`<p class="note">The search did not extend it, so there are no next tokens.</p>`}
  </section>`;
}
