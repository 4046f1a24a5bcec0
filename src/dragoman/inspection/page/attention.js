// The attention weights of all heads, of one head, and the word alignment that is read from them.

import { html, useMemo, useState } from "./vendor/preact.js";
import { decoderKeys, part } from "./data.js";
import { Heat, LabelledHeat, Legend, WEIGHT_MARKS, matrixRows, weightShare } from "./heat.js";
import { Choice, Facts, Grid, Lines, Numbers } from "./parts.js";
import { statisticNames, statistics } from "./statistics.js";
import { fixed, visible } from "./tokens.js";

const KINDS = [
  ["encoder", "Encoder self-attention"],
  ["decoder", "Decoder self-attention"],
  ["cross", "Encoder-decoder attention"],
];
const SWITCHES = [["off", "Switch this head off"], ["uniform", "Make it uniform"]];
const FEWEST = 0.02; // weights below this have no line

export function Attention({ inspection, tryOut }) {
  const [kind, setKind] = useState("cross");
  const kinds = KINDS.filter(([each]) => inspection.attention[each].shape[0] > 0);
  return html`
    ${kinds.length > 1
      ? html`<${Choice} label="Kind of attention" choices=${kinds} value=${kind} choose=${setKind} />`
      : html`<p>The model has encoder-decoder attention alone, with one head.</p>`}
    <${Heads} key=${kind} inspection=${inspection} kind=${kind} tryOut=${tryOut} />
    ${kind === "cross" ? html`<${Alignment} inspection=${inspection} />` : null}`;
}

/** All heads of a kind: {index, layer, head, weights, statistics}. */
function headsOf({ attention }, kind, keys) {
  const array = attention[kind];
  const [layers, heads] = array.shape;
  const edge = kind === "decoder" ? 0 : keys.length - 1;
  return Array.from({ length: layers * heads }, (_, index) => {
    const [layer, head] = [Math.floor(index / heads), index % heads];
    const weights = part(array, layer, head);
    return { index, layer, head, weights, statistics: statistics(weights, keys.length, edge) };
  });
}

function Heads({ inspection, kind, tryOut }) {
  const keys = kind === "decoder" ? decoderKeys(inspection) : inspection.source.tokens;
  const queries = kind === "encoder" ? inspection.source.tokens : inspection.target.tokens;
  const all = useMemo(() => headsOf(inspection, kind, keys), [kind]);
  const [order, setOrder] = useState("layer");
  const [chosen, setChosen] = useState(0);
  const [layers, columns] = inspection.attention[kind].shape;
  const names = statisticNames(kind);
  const inLayers = order === "layer";
  const highestFirst = (one, other) => other.statistics[order] - one.statistics[order];
  const sorted = inLayers ? all : [...all].sort(highestFirst);
  const cell = (place) => {
    const each = sorted[place];
    const value = inLayers ? "" : fixed(each.statistics[order], 2);
    return {
      name: `${nameOf(each)}${value && `, ${value}`}`,
      content: html`<${Heat} values=${each.weights} columns=${keys.length} share=${weightShare} />
        ${inLayers ? null : html`<span class="caption">${shortName(each)}<b>${value}</b></span>`}`,
    };
  };
  return html`
    <p>${aboutKind(kind)} Arrow keys move in the grid; Enter or a click shows a
      head below.</p>
    <div class="tools">
      <label>Order <select value=${order} onChange=${(event) => setOrder(event.currentTarget.value)}>
        <option value="layer">Layers and heads</option>
        ${names.map(({ key, name }) => html`<option key=${key} value=${key}>${name}</option>`)}
      </select></label>
      <${Legend} name="Weight" marks=${WEIGHT_MARKS} />
    </div>
    <div class="scroll"><${Grid} label="Attention heads" kind="heads" rows=${layers} columns=${columns}
      rowNames=${inLayers ? Array.from({ length: layers }, (_, layer) => `Layer ${layer + 1}`) : null}
      columnNames=${inLayers ? Array.from({ length: columns }, (_, head) => `Head ${head + 1}`) : null}
      cell=${cell} chosen=${sorted.findIndex(({ index }) => index === chosen)}
      choose=${(place) => setChosen(sorted[place].index)} /></div>
    ${inLayers ? null : html`<p class="note">Layer.head and the statistic, highest first.</p>`}
    <${Head} one=${all[chosen]} all=${all} keys=${keys} queries=${queries} names=${names} kind=${kind}
      tryOut=${tryOut} />
    <${Numbers} title="Statistics of all heads as a table"
      head=${["Layer.head", ...names.map(({ name, unit }) => (unit ? `${name} (${unit})` : name))]}
      rows=${() => sorted.map((each) => [
        shortName(each),
        ...names.map(({ key }) => fixed(each.statistics[key])),
      ])} />`;
}

function aboutKind(kind) {
  const query = kind === "encoder" ? "of a source token" : "that predicts a target token";
  const keys = kind === "decoder" ? "START and the tokens before it" : "the source tokens";
  return `A row is the query ${query}; its keys, the columns, are ${keys}.`;
}

function shortName({ layer, head }) {
  return `${layer + 1}.${head + 1}`;
}

function nameOf({ layer, head }) {
  return `Layer ${layer + 1}, head ${head + 1}`;
}

function Head({ one, all, keys, queries, names, kind, tryOut }) {
  const [view, setView] = useState("map");
  const kindName = Object.fromEntries(KINDS)[kind];
  const rowsAre = kind === "encoder" ? "query" : "predicts";
  const name = nameOf(one).toLowerCase();
  return html`<section class="panel" aria-label="The head">
    <h3>${nameOf(one)}</h3>
    ${tryOut ? html`<p>${SWITCHES.map(([change, words]) => html`<button class="try" key=${change}
      onClick=${() => tryOut([`${kind}.${shortName(one)}=${change}`])}>${words}</button> `)}</p>` : null}
    <${Choice} label="How the head is shown" value=${view} choose=${setView}
      choices=${[["map", "Heat map"], ["lines", "Lines"], ["layer", "Lines of the layer's heads"]]} />
    ${view === "map"
      ? html`<${LabelledHeat} values=${one.weights} rowNames=${queries} columnNames=${keys}
          share=${weightShare} rowsAre=${rowsAre} columnsAre="key"
          label=${`Weights of ${nameOf(one)}, ${kindName}`} />`
      : html`<${Lines} left=${queries} right=${keys} leftName=${rowsAre} rightName="key"
          label=${`Weights of ${nameOf(one)} as lines`}
          lines=${(view === "lines" ? [one] : all.filter(({ layer }) => layer === one.layer)).flatMap(
            (each) => linesOf(each, keys.length),
          )} />`}
    ${view === "map" ? null : html`<p class="note">Opacity is the weight; weights below ${FEWEST} have no
      line. Point at a token to see its lines alone.${view === "layer" ? " A colour is a head." : ""}</p>`}
    <${Facts} facts=${names.map(({ key, name: title, unit }) => [
      title,
      `${fixed(one.statistics[key], 2)} ${unit}`,
    ])} />
    <${Numbers} title=${`Weights of ${name} as a table`} head=${["Query", ...keys.map(visible)]}
      rows=${() => matrixRows(one.weights, keys.length, queries)} />
  </section>`;
}

/** A head's weights as lines from queries to keys; `group` is a number for the head's colour. */
function linesOf({ weights, head }, keys) {
  const lines = [];
  weights.forEach((weight, place) => {
    if (weight < FEWEST) return;
    lines.push({ left: Math.floor(place / keys), right: place % keys, weight, group: head % 8 });
  });
  return lines;
}

function Alignment({ inspection }) {
  const { source, target, alignment } = inspection;
  const [left, right] = [wordsOf(source), wordsOf(target)];
  const lines = alignment.map(([from, to]) => ({ left: from, right: to, weight: 1, group: 0 }));
  return html`<section class="panel" aria-label="Word alignment">
    <h3>Word alignment</h3>
    <p class="note">As Translator.align reads it from these weights.</p>
    <${Lines} left=${left} right=${right} lines=${lines} label="Word alignment" leftName="source"
      rightName="translation" />
    <${Numbers} title="Word alignment as a table" head=${["Source word", "Word of the translation"]}
      rows=${() => alignment.map(([from, to]) => [visible(left[from] ?? ""), visible(right[to] ?? "")])} />
  </section>`;
}

/** The words of a side without END: the tokens of each word together. */
function wordsOf({ tokens, words }) {
  const texts = [];
  tokens.slice(0, -1).forEach((token, place) => {
    texts[words[place]] = (texts[words[place]] ?? "") + token.replaceAll("▁", "");
  });
  return Array.from(texts, (text) => text ?? "");
}
