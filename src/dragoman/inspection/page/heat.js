// Heat maps. A heat map is a canvas with one pixel a number, which the browser enlarges.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";
import { Token, fixed, visible } from "./tokens.js";
import { useWindow } from "./window.js";

// Lightness changes in one direction from 0 to 1, so the scales can be read without colour vision. The signed
// scale is orange, ground, blue, as in the pictures.
const SCALES = {
  light: {
    weight: [[253, 254, 253], [143, 180, 226], [42, 95, 170], [9, 27, 66]],
    signed: [[150, 66, 0], [228, 152, 74], [250, 250, 248], [120, 163, 216], [20, 66, 140]],
  },
  dark: {
    weight: [[21, 28, 36], [33, 78, 140], [104, 160, 226], [240, 246, 255]],
    signed: [[255, 190, 120], [166, 92, 28], [24, 31, 39], [52, 104, 170], [150, 196, 255]],
  },
};

const darkness = matchMedia("(prefers-color-scheme: dark)");

/** Whether the page is dark: as chosen in its head, or as the reader's system is. */
const isDark = () => {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : darkness.matches;
};

function useDark() {
  const [dark, setDark] = useState(isDark);
  useEffect(() => {
    const follow = () => setDark(isDark());
    darkness.addEventListener("change", follow);
    const observer = new MutationObserver(follow);
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      darkness.removeEventListener("change", follow);
      observer.disconnect();
    };
  }, []);
  return dark;
}

function colour(stops, share) {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const index = Math.min(Math.floor(place), stops.length - 2);
  return stops[index].map((from, channel) => from + (place - index) * (stops[index + 1][channel] - from));
}

const SHADES = 255; // steps of a scale from its first to its last colour

/** The share of a colour scale that shows a weight. The root makes small weights visible. */
export function weightShare(weight) {
  return Math.sqrt(weight);
}

/** The greatest absolute value: the end of a scale. */
export function greatest(values) {
  let most = 1e-6;
  for (const value of values) most = Math.max(most, Math.abs(value));
  return most;
}

/** The numbers as pixels. share: of a number on the scale, 0 to 1. */
export function Heat({ values, columns, share, scale = "weight", label = null, ...rest }) {
  const canvas = useRef();
  const dark = useDark();
  const rows = values.length / columns;
  useEffect(() => {
    const stops = SCALES[dark ? "dark" : "light"][scale];
    const image = new ImageData(columns, rows);
    const shades = Array.from({ length: SHADES + 1 }, (_, step) => [...colour(stops, step / SHADES), 255]);
    values.forEach((value, place) => {
      const step = Math.round(SHADES * Math.min(Math.max(share(value), 0), 1)) || 0;
      image.data.set(shades[step], 4 * place);
    });
    canvas.current.getContext("2d").putImageData(image, 0, 0);
  }, [values, columns, dark, scale]);
  return html`<canvas ref=${canvas} width=${columns} height=${rows} role=${label ? "img" : null}
    aria-label=${label} aria-hidden=${label ? null : "true"} ...${rest}></canvas>`;
}

const LARGE = 60; // rows or columns of a heat map that is not drawn at once
const ROWS = 24; // of a large heat map that are drawn
const LEAST_COLUMNS = 4;
const CELL = 20; // pixels of a cell of a large heat map, as in style.css

/** A heat map with the names of its rows and columns, those of the window; the number under the pointer is
 * written below. Of a large one the part that is scrolled to is drawn. rowsAre: what a row is; a layer is
 * drawn whatever the window is. */
export function LabelledHeat({ rowNames, columnNames, ...others }) {
  const [rows, columns] = [useWindow(rowNames.length), useWindow(columnNames.length)];
  const drawn = others.rowsAre === "layer" ? [0, rowNames.length] : rows;
  const large = [drawn, columns].some(([start, stop]) => stop - start > LARGE);
  return html`<${large ? ScrolledHeat : PartOfHeat} rowNames=${rowNames} columnNames=${columnNames}
    key=${[drawn, columns].join()} rows=${drawn} columns=${columns} ...${others} />`;
}

/** The rows and columns of a heat map from a first one to the one before another. */
function PartOfHeat({ values, rowNames, columnNames, rows, columns, ...others }) {
  const [[top, bottom], [left, right]] = [rows, columns];
  const part = new Float32Array((bottom - top) * (right - left));
  for (let row = top; row < bottom; row++) {
    const start = row * columnNames.length;
    part.set(values.subarray(start + left, start + right), (row - top) * (right - left));
  }
  return html`<${NamedHeat} ...${others} values=${part} rowNames=${rowNames.slice(top, bottom)}
    columnNames=${columnNames.slice(left, right)} />`;
}

/** The part of a large heat map that can be seen. It stays in place while a sheet of the size of the whole
 * map is scrolled below it. rows, columns: those to which one can scroll. */
function ScrolledHeat({ rowNames, columnNames, rows: allRows, columns: allColumns, label, ...others }) {
  const area = useRef();
  const [fitting, setFitting] = useState(LARGE);
  const [[row, column], setFirst] = useState([0, 0]);
  const [rowCount, columnCount] = [allRows, allColumns].map(([start, stop]) => stop - start);
  const [rows, columns] = [Math.min(ROWS, rowCount), Math.min(fitting, columnCount)];
  const [hiddenRows, hiddenColumns] = [rowCount - rows, columnCount - columns];
  useLayoutEffect(() => {
    const fit = () => {
      const names = area.current.querySelector(".row-names").offsetWidth;
      const cells = Math.floor((area.current.clientWidth - names) / CELL);
      setFitting(Math.min(Math.max(cells, LEAST_COLUMNS), LARGE));
    };
    const observer = new ResizeObserver(fit);
    observer.observe(area.current);
    fit();
    return () => observer.disconnect();
  }, []);
  const follow = ({ currentTarget: { scrollTop, scrollLeft } }) =>
    setFirst([Math.round(scrollTop / CELL), Math.round(scrollLeft / CELL)]);
  const top = allRows[0] + Math.min(row, hiddenRows);
  const left = allColumns[0] + Math.min(column, hiddenColumns);
  return html`<p class="note">Rows ${top + 1} to ${top + rows} of ${rowNames.length}, columns ${left + 1} to
      ${" "}${left + columns} of ${columnNames.length}. Scroll, or use the arrow keys in the map, to see
      others.</p>
    <div class="window" ref=${area} tabindex="0" role="group" aria-label=${`${label}, to scroll`}
      style=${{ "--seen": rows }} onScroll=${follow}>
      <div class="whole" style=${{ "--hidden-rows": hiddenRows, "--hidden-columns": hiddenColumns }}>
        <div class="pane"><${PartOfHeat} ...${others} label=${label} still
          rowNames=${rowNames} columnNames=${columnNames}
          rows=${[top, top + rows]} columns=${[left, left + columns]} /></div>
      </div>
    </div>`;
}

/** still: it is in a window that scrolls. */
function NamedHeat({
  values, rowNames, columnNames, rowsAre, columnsAre, share, label, digits, still, scale = "weight",
}) {
  const [place, setPlace] = useState(null);
  const columns = columnNames.length;
  const follow = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    const row = Math.floor(((event.clientY - box.top) / box.height) * rowNames.length);
    setPlace(column >= 0 && column < columns && row >= 0 && row < rowNames.length ? { row, column } : null);
  };
  const size = { "--columns": columns, "--rows": rowNames.length };
  return html`<div class="labelled">
    <div class=${still ? "" : "scroll"} tabindex=${still ? null : "0"} role="group" aria-label=${label}>
      <div class="map" style=${size}>
        <div class="corner"><span>${rowsAre} ↓</span><span>${columnsAre} →</span></div>
        <div class="column-names">${columnNames.map(
          (name, index) => html`<span key=${index} class=${place?.column === index ? "on" : ""}>
            <${Token} token=${name} /></span>`,
        )}</div>
        <div class="row-names">${rowNames.map(
          (name, index) => html`<span key=${index} class=${place?.row === index ? "on" : ""}>
            <${Token} token=${name} /></span>`,
        )}</div>
        <div class="cells"><${Heat} values=${values} columns=${columns} share=${share} label=${label}
          scale=${scale} onPointerMove=${follow} onPointerLeave=${() => setPlace(null)} /></div>
      </div>
    </div>
    <p class="note readout">${place
      ? html`<${Token} token=${rowNames[place.row]} /> → ${" "}
          <${Token} token=${columnNames[place.column]} />: ${" "}
          <b>${fixed(values[place.row * columns + place.column], digits ?? 3)}</b>`
      : "Point at a cell to read its number."}</p>
  </div>`;
}

/** The colours of a scale, with the numbers at these shares of it. */
export function Legend({ scale = "weight", marks, name }) {
  const shares = Float32Array.from({ length: 64 }, (_, place) => place / 63);
  return html`<div class="legend">
    <span>${name}</span>
    <div>
      <${Heat} values=${shares} columns=${64} share=${(value) => value} scale=${scale} />
      <div class="marks">${marks.map(
        ([share, text]) => html`<span key=${text} style=${{ left: `${100 * share}%` }}>${text}</span>`,
      )}</div>
    </div>
  </div>`;
}

export const WEIGHT_MARKS = [0, 0.1, 0.5, 1].map((weight) => [weightShare(weight), String(weight)]);

export function matrixRows(values, columns, rowNames, digits = 3) {
  return rowNames.map((name, row) => [
    visible(name),
    ...Array.from(values.subarray(row * columns, (row + 1) * columns), (value) => fixed(value, digits)),
  ]);
}
