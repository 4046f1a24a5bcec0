// Views of heat maps, as inspection/views/heat_maps.py describes them, with the arrays of an inspection.

import { html, useState } from "./vendor/preact.js";
import { part } from "./data.js";
import { Heat, LabelledHeat, Legend, WEIGHT_MARKS, greatest, matrixRows, weightShare } from "./heat.js";
import { Choice, Numbers, Slider } from "./parts.js";
import { fixed, visible } from "./tokens.js";
import { WindowOf, useWindow } from "./window.js";

const maskShare = (value) => 0.04 + 0.7 * value;
const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** How the numbers of a measure are drawn. most: the greatest absolute value of the maps that are shown. */
function scaleOf({ scale }, most) {
  const end = fixed(most, 2);
  return {
    share: { share: weightShare, marks: WEIGHT_MARKS },
    size: { share: (value) => value / most, marks: [[0, "0"], [1, end]] },
    signed: {
      scale: "signed", share: (value) => (value / most + 1) / 2,
      marks: [[0, `−${end}`], [0.5, "0"], [1, end]],
    },
    mask: { share: maskShare, digits: 0 },
  }[scale];
}

/** The maps of the options that are chosen, and the controls. A choice that lacks its option has its last. */
function chosenMaps({ maps, choices }, chosen) {
  let shown = maps;
  const controls = choices.map((label, place) => {
    const options = [...new Set(shown.map((map) => map.chosen[place]))].filter(Boolean);
    const value = options.includes(chosen[place]) ? chosen[place] : options.at(-1);
    shown = shown.filter((map) => map.chosen[place] === value);
    return { label, options, value };
  });
  return { shown, controls };
}

/** name: of the view in the descriptions of the inspection. */
export function HeatView({ inspection, name }) {
  const { [name]: view } = inspection.views;
  const [chosen, setChosen] = useState(view.first);
  const [padding, setPadding] = useState(0);
  const { shown, controls } = chosenMaps(view, chosen);
  const matrices = shown.map(({ data: [table, key, ...places] }) => ({
    values: part(inspection[table][key], ...places), width: inspection[table][key].shape.at(-1),
  }));
  const [{ measure }] = shown;
  const scale = scaleOf(measure, Math.max(...matrices.map(({ values }) => greatest(values))));
  const choose = (place) => (option) => setChosen(Object.assign([...chosen], { [place]: option }));
  const isMask = measure.scale === "mask";
  return html`
    <p>${view.about} ${measure.about}</p>
    <div class="tools">
      ${controls.map((control, place) => control.options.length
        ? html`<${place ? Select : Buttons} key=${place} ...${control} choose=${choose(place)} />` : null)}
      ${view.padding ? html`<${Slider} label="Padding tokens" least=${0} most=${view.padding}
        value=${padding} change=${setPadding} />` : null}
      ${isMask ? html`<${MaskKey} ...${measure} />`
        : html`<${Legend} name=${capital(measure.legend)} ...${scale} />`}
    </div>
    <div class=${isMask ? "masks" : ""}>${shown.map((map, place) => html`<${OneMap} key=${place} map=${map}
      tokens=${view.names} padding=${padding} matrix=${matrices[place]} scale=${scale}
      css=${shown.length > 1 ? "panel" : ""} />`)}</div>`;
}

function Buttons({ options, ...others }) {
  return html`<${Choice} choices=${options.map((name) => [name, name])} ...${others} />`;
}

function Select({ label, options, value, choose }) {
  return html`<label>${label} <select value=${value} onChange=${(event) => choose(event.currentTarget.value)}>
    ${options.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label>`;
}

function MaskKey({ words }) {
  return html`<p class="key">${[1, 0].map((value) => html`<span key=${value}>
    <span class="swatch"><${Heat} values=${Float32Array.of(value)} columns=${1} share=${maskShare} /></span>
    ${words[value]}
  </span>`)}</p>`;
}

/** The places of tokens that are drawn: all, of which LabelledHeat draws the window; if padding follows them,
 * those of the window and the padding. */
function useDrawn(names, padding) {
  const tokens = names.length - padding;
  const [first, stop] = useWindow(tokens);
  return [...names.keys()].filter((place) => !padding || place >= tokens || (place >= first && place < stop));
}

function OneMap({ map, tokens, padding, matrix, scale, css }) {
  const { heading, table, rows, columns, first_column: first, chosen } = map;
  const [rowNames, columnNames] = [rows, columns].map(
    ({ names }) => [...tokens[names], ...Array.from({ length: padding }, () => "PAD")],
  );
  const [drawnRows, drawnColumns] = [useDrawn(rowNames, padding), useDrawn(columnNames, padding)];
  const numbers = (rowPlaces, columnPlaces) => Float32Array.from(rowPlaces.flatMap(
    (row) => columnPlaces.map((column) => matrix.values[row * matrix.width + first + column]),
  ));
  const heat = html`<${LabelledHeat} key=${chosen[0]} values=${numbers(drawnRows, drawnColumns)}
    rowNames=${drawnRows.map((place) => rowNames[place])} rowsAre=${rows.word}
    columnNames=${drawnColumns.map((place) => columnNames[place])} columnsAre=${columns.word}
    label=${table === heading ? heading : `${table}: ${heading}`} ...${scale} />`;
  return html`<section class=${css} aria-label=${heading}>
    <h3>${heading}</h3>
    ${padding ? html`<${WindowOf} value=${null}>${heat}<//>` : heat}
    <${Numbers} title=${`${table} as a table`} head=${[capital(rows.word), ...columnNames.map(visible)]}
      rows=${() => matrixRows(
        numbers([...rowNames.keys()], [...columnNames.keys()]), columnNames.length, rowNames,
        scale.digits ?? 4,
      )} />
  </section>`;
}
