// Views of heat maps, as inspection/views/heat_maps.py describes them, with the arrays of an inspection.

import { html, useState } from "./vendor/preact.js";
import { part } from "./data.js";
import { Heat, LabelledHeat, Legend, WEIGHT_MARKS, greatest, matrixRows, weightShare } from "./heat.js";
import { Choice, Numbers, Slider } from "./parts.js";
import { fixed, visible } from "./tokens.js";
import { WindowOf, useWindow } from "./window.js";

const maskShade = (value) => 0.04 + 0.7 * value;
const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** How numbers are drawn and written; most: the greatest absolute value of the maps that are shown. */
function scaleOf({ scale }, most) {
  const size = {
    scale: "weight", share: (value) => value / most, marks: [[0, "0"], [1, fixed(most, 2)]], digits: 3,
  };
  return {
    share: { ...size, share: weightShare, marks: WEIGHT_MARKS },
    size,
    signed: {
      ...size, scale: "signed", share: (value) => (value / most + 1) / 2,
      marks: [[0, `−${fixed(most, 2)}`], [0.5, "0"], [1, fixed(most, 2)]],
    },
    mask: { ...size, share: maskShade, marks: null, digits: 0 },
  }[scale];
}

/** The maps of the options that are chosen. A choice whose option no map has shows its last one. */
function chosenMaps({ maps, choices }, wanted) {
  let shown = maps;
  const controls = choices.map((label, place) => {
    const options = [...new Set(shown.map(({ chosen }) => chosen[place]))].filter(Boolean);
    const value = options.includes(wanted[place]) ? wanted[place] : options.at(-1);
    shown = shown.filter(({ chosen }) => chosen[place] === value);
    return { label, options, value };
  });
  return { shown, controls };
}

export function HeatView({ inspection, view }) {
  const [wanted, setWanted] = useState(view.first);
  const [padding, setPadding] = useState(0);
  const { shown, controls } = chosenMaps(view, wanted);
  const arrays = shown.map(({ data: [name, key, ...places] }) => ({
    values: part(inspection[name][key], ...places), width: inspection[name][key].shape.at(-1),
  }));
  const { measure } = shown[0];
  const scale = scaleOf(measure, Math.max(...arrays.map(({ values }) => greatest(values))));
  const choose = (place) => (value) => setWanted(Object.assign([...wanted], { [place]: value }));
  return html`
    <p>${view.about} ${measure.about}</p>
    <div class="tools">
      ${controls.map((control, place) => control.options.length
        ? html`<${place ? Select : Buttons} key=${place} ...${control} choose=${choose(place)} />` : null)}
      ${view.padding ? html`<${Slider} label="Padding tokens" least=${0} most=${view.padding}
        value=${padding} change=${setPadding} />` : null}
      ${scale.marks ? html`<${Legend} name=${capital(measure.legend)} ...${scale} />`
        : html`<${MaskKey} ...${measure} />`}
    </div>
    <div class=${measure.scale === "mask" ? "masks" : ""}>${shown.map((map, place) => html`<${OneMap}
      key=${map.chosen[0] ?? map.heading} map=${map} view=${view} padding=${padding}
      array=${arrays[place]} scale=${scale} alone=${shown.length === 1} />`)}</div>`;
}

function Buttons({ label, options, value, choose }) {
  const choices = options.map((name) => [name, name]);
  return html`<${Choice} label=${label} choices=${choices} value=${value} choose=${choose} />`;
}

function Select({ label, options, value, choose }) {
  return html`<label>${label} <select value=${value} onChange=${(event) => choose(event.currentTarget.value)}>
    ${options.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label>`;
}

function MaskKey({ words }) {
  return html`<p class="key">${words.map((name, value) => html`<span key=${name}><span class="swatch"><${Heat}
    values=${Float32Array.of(value)} columns=${1} share=${maskShade} /></span>${name}</span>`)}</p>`;
}

/** The places of the tokens in the window, then those of the padding, which follows the last token. */
function useShown(tokens, padding) {
  const [first, stop] = useWindow(tokens);
  return [...Array(tokens + padding).keys()].filter(
    (place) => (place >= first && place < stop) || place >= tokens,
  );
}

/** The numbers of these rows and columns of an array, of which the first column has place `first`. */
function partOf({ values, width }, first, rows, columns) {
  const found = new Float32Array(rows.length * columns.length);
  rows.forEach((row, y) => columns.forEach((column, x) => {
    found[y * columns.length + x] = values[row * width + first + column];
  }));
  return found;
}

function OneMap({ map, view, padding, array, scale, alone }) {
  const { heading, table, rows, columns, first_column: first } = map;
  const names = [rows, columns].map(
    (axis) => [...view.names[axis.names], ...Array.from({ length: padding }, () => "PAD")],
  );
  const places = names.map((side) => useShown(side.length - padding, padding));
  const all = names.map((side) => [...side.keys()]);
  const [rowNames, columnNames] = names.map((side, axis) => places[axis].map((place) => side[place]));
  return html`<section class=${alone ? "" : "panel"} aria-label=${heading}>
    <h3>${heading}</h3>
    <${WindowOf} value=${null}>
      <${LabelledHeat} values=${partOf(array, first, ...places)} rowNames=${rowNames}
        columnNames=${columnNames} share=${scale.share} scale=${scale.scale} rowsAre=${rows.word}
        columnsAre=${columns.word} digits=${scale.digits}
        label=${table === heading ? heading : `${table}: ${heading}`} />
    <//>
    <${Numbers} title=${`${table} as a table`}
      head=${[capital(rows.word), ...names[1].map(visible)]}
      rows=${() => matrixRows(partOf(array, first, ...all), names[1].length, names[0], scale.digits && 4)} />
  </section>`;
}
