// Parts that several views have: tables of numbers, bars of probabilities, grids and lines.

import { html, useRef, useState } from "./vendor/preact.js";
import { Token, fixed, percent, probability, visible } from "./tokens.js";
import { useWindow } from "./window.js";

export const PAGE = 60; // tokens of a long sentence that are shown at once
const MAX_CELLS = 20000; // of a table that is shown at once

/** Moves through a long list by pages. Nothing if all of it is shown. */
export function Pager({ label, start, total, move, size = PAGE }) {
  if (total <= size) return null;
  const last = Math.min(start + size, total);
  return html`<div class="pager" role="group" aria-label=${`${label}: pages`}>
    <button disabled=${start === 0} onClick=${() => move(Math.max(0, start - size))}>Previous</button>
    <span role="status">${label} ${start + 1} to ${last} of ${total}</span>
    <button disabled=${last === total} onClick=${() => move(start + size)}>Next</button>
  </div>`;
}

/** The numbers of a picture. The table is made when it is opened: it can have thousands of cells. */
export function Numbers({ title, head, rows }) {
  const [open, setOpen] = useState(false);
  return html`<details class="numbers" onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>${title}</summary>
    ${open ? html`<${NumbersTable} title=${title} head=${head} rows=${rows()} />` : null}
  </details>`;
}

function NumbersTable({ title, head, rows }) {
  const [asked, setStart] = useState(0);
  const start = asked < rows.length ? asked : 0; // another head can have fewer rows
  const size = Math.max(10, Math.floor(MAX_CELLS / head.length));
  return html`
    <${Pager} label="Rows" start=${start} total=${rows.length} move=${setStart} size=${size} />
    <div class="scroll" tabindex="0" role="group" aria-label=${title}>
      <table>
        <thead><tr>${head.map(
          (name, index) => html`<th key=${index} scope="col" dir="auto">${name}</th>`,
        )}</tr></thead>
        <tbody>${rows.slice(start, start + size).map(([first, ...others], row) => html`<tr key=${start + row}>
          <th scope="row" dir="auto">${first}</th>
          ${others.map((cell, index) => html`<td key=${index} dir="auto">${cell}</td>`)}
        </tr>`)}</tbody>
      </table>
    </div>`;
}

/** Tokens with their probabilities as bars. tokens: pairs of a token and its log-probability. */
export function Bars({ tokens, caption }) {
  return html`<table class="bars">
    <caption>${caption}</caption>
    <tbody>${tokens.map(([token, logProbability], index) => {
      const share = probability(logProbability);
      return html`<tr key=${index}>
        <th scope="row"><${Token} token=${token} /></th>
        <td class="bar"><div style=${{ width: `${100 * share}%` }}></div></td>
        <td title=${`log-probability ${fixed(logProbability, 4)}`}>${percent(share)}</td>
      </tr>`;
    })}</tbody>
  </table>`;
}

/** A formula whose exponents are after ^. */
export function Formula({ text }) {
  return text.split(/\^(−?[\d.]+|[αβp])/u).map(
    (each, place) => (place % 2 ? html`<sup>${each}</sup>` : each),
  );
}

const kept = new Map(); // what has been chosen in the views

/** As useState; the value is kept while another view is shown. name: of the choice, unique on the page. */
export function useKept(name, initial) {
  const [value, setValue] = useState(kept.has(name) ? kept.get(name) : initial);
  const change = (next) => {
    kept.set(name, next);
    setValue(next);
  };
  return [value, change];
}

/** About four round numbers from the least to the most. */
export function ticks(least, most) {
  const span = most - least;
  if (!(span > 0) || !Number.isFinite(span)) return [least];
  const power = Number((span / 4).toExponential(3).replace(/^[\d.]+/, "1"));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => span / each <= 5);
  const [first, last] = [Math.ceil(least / step - 1e-9), Math.floor(most / step + 1e-9)];
  const value = (_, place) => Number(((first + place) * step).toPrecision(6));
  return Array.from({ length: last - first + 1 }, value);
}

export function Facts({ facts }) {
  return html`<dl class="facts">${facts.map(
    ([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`,
  )}</dl>`;
}

/** One of several ways to show the same. choices: pairs of a value and its name. */
export function Choice({ label, choices, value, choose }) {
  return html`<div class="choice" role="group" aria-label=${label}>${choices.map(
    ([each, name]) => html`<button key=${each} aria-pressed=${each === value} onClick=${() => choose(each)}>
      ${name}</button>`,
  )}</div>`;
}

export function Slider({ label, least, most, value, change }) {
  return html`<label class="slider"><span>${label}</span>
    <input type="range" min=${least} max=${most} value=${value}
      onInput=${(event) => change(Number(event.currentTarget.value))} />
    <output>${value} of ${most}</output></label>`;
}

/** The ARIA pattern of a grid: one stop of the tab key, arrow keys inside, Enter or a click chooses a cell.
 * cell: of a place, counted by rows, {name, content}. */
export function Grid({ label, rows, columns, rowNames, columnNames, cell, chosen, choose, kind }) {
  const grid = useRef();
  const [place, setPlace] = useState(chosen ?? 0);
  const onKeyDown = (event) => {
    const next = placeAfter(event.key, place, rows * columns, columns);
    if (event.key === "Enter" || event.key === " ") choose(place);
    else if (next === null) return;
    event.preventDefault();
    if (next === null) return;
    setPlace(next);
    grid.current.querySelector(`[data-place="${next}"]`).focus();
  };
  const onClick = (index) => () => {
    setPlace(index);
    choose(index);
  };
  const header = (role, name) => html`<div role=${role} class=${role}>${name}</div>`;
  return html`<div class=${`grid ${kind}`} role="grid" aria-label=${label} ref=${grid} onKeyDown=${onKeyDown}
    style=${{ "--columns": columns }}>
    ${columnNames ? html`<div role="row" class="row">
      ${rowNames ? header("columnheader", html`<span class="hidden">Layer</span>`) : null}
      ${columnNames.map((name) => header("columnheader", name))}
    </div>` : null}
    ${Array.from({ length: rows }, (_, row) => html`<div role="row" class="row" key=${row}>
      ${rowNames ? header("rowheader", rowNames[row]) : null}
      ${Array.from({ length: columns }, (__, column) => {
        const index = row * columns + column;
        const { name, content } = cell(index);
        return html`<div role="gridcell" class="cell" key=${column} data-place=${index} aria-label=${name}
          aria-selected=${index === chosen} tabindex=${index === place ? 0 : -1} onClick=${onClick(index)}>
          ${content}</div>`;
      })}
    </div>`)}
  </div>`;
}

function placeAfter(key, place, places, columns) {
  const first = place - (place % columns);
  const next = {
    ArrowLeft: place === first ? place : place - 1,
    ArrowRight: place === first + columns - 1 ? place : place + 1,
    ArrowUp: place - columns < 0 ? place : place - columns,
    ArrowDown: place + columns >= places ? place : place + columns,
    Home: first,
    End: first + columns - 1,
  };
  return next[key] ?? null;
}

const ROW = 26; // pixels of a line of tokens
const WIDTH = 200;

/** Lines between two columns of tokens, those of the window. lines: {left, right, weight, group}; a weight is
 * a line's opacity. Pointing at a token, or focusing it, leaves its lines alone. Long columns are shown by
 * pages. */
export function Lines({ left, right, ...others }) {
  const [from, to] = [useWindow(left.length), useWindow(right.length)];
  return html`<${PagedLines} key=${[from, to].join()} left=${left} right=${right} from=${from} to=${to}
    ...${others} />`;
}

/** from, to: the first token on the left and on the right that the pages have, and the one after the last. */
function PagedLines({ left, right, from, to, lines, ...others }) {
  const [start, setStart] = useState(0);
  const page = ([first, stop]) => {
    const last = Math.min(first + start + PAGE, stop);
    return [Math.max(first, last - PAGE), last]; // the last page of a column stays while the other goes on
  };
  const [leftPage, rightPage] = [page(from), page(to)];
  const inside = (place, [first, stop]) => place >= first && place < stop;
  const shown = lines.filter((line) => inside(line.left, leftPage) && inside(line.right, rightPage));
  return html`
    <${Pager} label="Tokens" start=${start} total=${Math.max(from[1] - from[0], to[1] - to[0])}
      move=${setStart} />
    <${PageOfLines} key=${start} left=${left.slice(...leftPage)} right=${right.slice(...rightPage)}
      lines=${shown.map((line) => ({
        ...line, left: line.left - leftPage[0], right: line.right - rightPage[0],
      }))}
      isElsewhere=${(side, index) => {
        const place = index + { left: leftPage, right: rightPage }[side][0];
        return lines.some((line) => line[side] === place);
      }} ...${others} />`;
}

function PageOfLines({ left, right, lines, isElsewhere, label, leftName, rightName }) {
  const [pointed, setPointed] = useState(null);
  const shown = pointed === null ? lines : lines.filter((line) => line[pointed.side] === pointed.index);
  const height = ROW * Math.max(left.length, right.length);
  const middle = (index) => ROW * (index + 0.5);
  const column = (side, tokens) => html`<ol>${tokens.map((token, index) => {
    const reached = pointed !== null && shown.some((line) => line[side] === index);
    const on = pointed?.side === side ? pointed.index === index : reached;
    const point = () => setPointed({ side, index });
    return html`<li key=${index}><button class=${on ? "on" : ""} aria-label=${describe(side, index, token)}
      onPointerEnter=${point} onPointerLeave=${() => setPointed(null)} onFocus=${point}
      onBlur=${() => setPointed(null)}><${Token} token=${token} /></button></li>`;
  })}</ol>`;
  const describe = (side, index, token) => {
    const other = side === "left" ? "right" : "left";
    const names = { left, right }[other];
    const strongest = lines
      .filter((line) => line[side] === index)
      .sort((one, another) => another.weight - one.weight)
      .slice(0, 3);
    const ends = strongest.map((line) => `${visible(names[line[other]])} ${fixed(line.weight, 2)}`);
    const none = () => (isElsewhere(side, index) ? "no line on this page" : "no line");
    return `${visible(token)}: ${ends.join(", ") || none()}`;
  };
  return html`<div class="scroll"><div class="lines" role="group" aria-label=${label}>
    <p>${leftName}</p><p></p><p>${rightName}</p>
    ${column("left", left)}
    <svg width=${WIDTH} height=${height} viewBox=${`0 0 ${WIDTH} ${height}`} preserveAspectRatio="none"
      aria-hidden="true">
      ${shown.map(({ left: from, right: to, weight, group, dashed }, index) => html`<line key=${index}
        class=${`group-${group} ${dashed ? "dashed" : ""}`} x1="0" x2=${WIDTH}
        y1=${middle(from)} y2=${middle(to)}
        stroke-opacity=${Math.min(1, weight)} stroke-width=${1 + 2 * Math.min(1, weight)} />`)}
    </svg>
    ${column("right", right)}
  </div></div>`;
}
