// The attention weights of all heads, of one head, and the word alignment that is read from them.

import { html, useMemo, useState } from "./vendor/preact.js";
import { KINDS, decoderKeys, part } from "./data.js";
import { Heat, LabelledHeat, Legend, WEIGHT_MARKS, matrixRows, weightShare } from "./heat.js";
import { ChosenByOption, HeadNumbers, nameOfHeld } from "./numbers.js";
import { Choice, Facts, Grid, Lines, Numbers, useKept } from "./parts.js";
import { statisticNames } from "./statistics.js";
import { fixed, visible } from "./tokens.js";

const SWITCHES = [["off", "Switch this head off"], ["uniform", "Make it uniform"]];
const FEWEST = 0.02; // weights below this have no line

const UNITS = [["tokens", "Tokens"], ["words", "Words"]];

export function Attention({ inspection, tryOut }) {
  const [kind, setKind] = useKept("kind", "cross");
  const [unit, setUnit] = useKept("unit", "tokens");
  const hasWords = inspection.attention[kind].words !== undefined;
  const kinds = KINDS.filter(([each]) => inspection.attention[each].shape[0] > 0);
  const heads = inspection.statistics.cross.entropy[0].length;
  return html`
    ${kinds.length > 1 ? null : html`<p>The model has only encoder-decoder attention, with
      ${heads === 1 ? " one head" : ` ${heads} heads`} in each layer.</p>`}
    <div class="tools">
      ${kinds.length > 1
        ? html`<${Choice} label="Kind of attention" choices=${kinds} value=${kind} choose=${setKind} />`
        : null}
      ${hasWords
        ? html`<${Choice} label="Rows and columns" choices=${UNITS} value=${unit} choose=${setUnit} />`
        : null}
    </div>
    ${hasWords ? null : html`<p class="note">The sentence is long, so there is no room for the weights between
      words. <code>dragoman inspect --show ${kind} --words</code> draws them; a .json file has all.</p>`}
    <${Heads} key=${kind} inspection=${inspection} kind=${kind} unit=${hasWords ? unit : "tokens"}
      tryOut=${["lstm", "gru"].includes(inspection.model.architecture) ? null : tryOut} />`;
}

/** The queries and keys of a kind: the names of their tokens and of their words. */
function sidesOf(inspection, kind) {
  const { source, target } = inspection;
  const [from, to] = [source, target].map(({ tokens, words, names }) => ({
    tokens, words: [...new Set(words)].map((word) => names[word]), // a word may have no token of its own
  }));
  const inputs = {
    tokens: decoderKeys(inspection),
    words: [decoderKeys(inspection)[0], ...to.words.slice(0, -1)],
  };
  return { queries: kind === "encoder" ? from : to, keys: kind === "decoder" ? inputs : from };
}

/** All heads of a kind: {index, layer, head, tokens, weights, map, statistics}. tokens: the weights between
 * tokens, and weights those between tokens or words; null if there was no room for them. */
function headsOf(inspection, kind, unit) {
  const array = inspection.attention[kind];
  const { [kind]: tables } = inspection.statistics;
  const [layers, heads] = [tables.entropy.length, tables.entropy[0].length];
  return Array.from({ length: layers * heads }, (_, index) => {
    const [layer, head] = [Math.floor(index / heads), index % heads];
    const place = [array.layers.indexOf(layer + 1), array.heads.indexOf(head + 1)];
    const tokens = place.includes(-1) ? null : part(array, ...place);
    const weights = tokens && unit === "words" && array.words ? part(array.words, ...place) : tokens;
    const small = array.overview;
    const map = small ? { values: part(small, layer, head), columns: small.shape[3] } : null;
    const numbers = Object.entries(tables).map(([name, table]) => [name, table[layer][head]]);
    return { index, layer, head, tokens, weights, map, statistics: Object.fromEntries(numbers) };
  });
}

function Heads({ inspection, kind, unit, tryOut }) {
  const sides = useMemo(() => sidesOf(inspection, kind), [kind]);
  const [queries, keys] = [sides.queries[unit], sides.keys[unit]];
  const all = useMemo(() => headsOf(inspection, kind, unit), [kind, unit]);
  const [order, setOrder] = useKept(`order ${kind}`, "layer");
  const held = inspection.attention[kind];
  const columns = inspection.statistics[kind].entropy[0].length;
  const layers = all.length / columns;
  const { layer: first, head: firstHead } = held.clearest;
  const [chosen, setChosen] = useKept(`head ${kind}`, (first - 1) * columns + firstHead - 1);
  const names = statisticNames(kind);
  const inLayers = order === "layer";
  const highestFirst = (one, other) => other.statistics[order] - one.statistics[order];
  const sorted = inLayers ? all : [...all].sort(highestFirst);
  const cell = (place) => {
    const each = sorted[place];
    const value = inLayers ? "" : fixed(each.statistics[order], 2);
    return {
      name: `${nameOf(each)}${value && `, ${value}`}`,
      content: html`<${Heat} values=${each.map?.values ?? each.weights} share=${weightShare}
          columns=${each.map?.columns ?? keys.length} />
        ${inLayers ? null : html`<span class="caption">${shortName(each)}<b>${value}</b></span>`}`,
    };
  };
  return html`
    <p>${aboutKind(kind)} Arrow keys move in the grid; Enter or a click shows a head below. The first one
      ${kind === "cross" ? " agrees best with the word alignment" : " has the lowest entropy"}.${" "}
      ${unit === "words" ? WORDS : ""}</p>
    ${held.overview ? html`<p class="note">The sentence is long, so there is room only for the weights
      of ${nameOfHeld(held)}. The small maps of all heads show the largest weight of each part.</p>` : null}
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
    ${inLayers ? null : html`<p class="note">Below each map are layer.head and the statistic; the highest is
      first.</p>`}
    <${Numbers} title="Statistics of all heads as a table"
      head=${["Layer.head", ...names.map(({ name, unit }) => (unit ? `${name} (${unit})` : name))]}
      rows=${() => sorted.map((each) => [
        shortName(each),
        ...names.map(({ key }) => fixed(each.statistics[key])),
      ])} />
    <${Head} inspection=${inspection} one=${all[chosen]} all=${all} sides=${sides} unit=${unit} names=${names}
      kind=${kind} tryOut=${tryOut} />`;
}

const WORDS = `The weights to the tokens of a word are summed, and the queries of a word are averaged; the
  results are rounded to 1/255.`;

function aboutKind(kind) {
  const query = kind === "encoder" ? "of a source token" : "that predicts a target token";
  const keys = kind === "decoder" ? "START and the tokens before it" : "the source tokens";
  return `Each row is the query ${query}; the columns are its keys, ${keys}.`;
}

/** The changes that buttons ask for: [change, what it does]. Attention of a ConvS2S has no heads. */
function switchesOf({ model }, kind, one) {
  if (model.architecture !== "conv") {
    return SWITCHES.map(([change, words]) => [`${kind}.${shortName(one)}=${change}`, words]);
  }
  const layer = one.layer + 1;
  return [
    [`decoder.${layer}.cross_attention=off`, "Switch this attention off"],
    [`cross.${layer}=uniform`, "Make it uniform"],
  ];
}

function shortName({ layer, head }) {
  return `${layer + 1}.${head + 1}`;
}

function nameOf({ layer, head }) {
  return `Layer ${layer + 1}, head ${head + 1}`;
}

function Head({ inspection, one, all, sides, unit, names, kind, tryOut }) {
  return html`<section class="panel" aria-label="The head">
    <h3>${nameOf(one)}</h3>
    ${tryOut ? html`<p>${switchesOf(inspection, kind, one).map(([change, words]) => html`<button class="try"
      key=${change} onClick=${() => tryOut([change])}>${words}</button> `)}</p>` : null}
    ${one.weights
      ? html`<${HeadWeights} one=${one} all=${all} queries=${sides.queries[unit]}
          keys=${sides.keys[unit]} kind=${kind} />`
      : html`<p class="note">There is no room for its weights here.
          <${ChosenByOption} ...${one} /> writes a file with them; a .json file has all.</p>`}
    <${Facts} facts=${names.map(({ key, name: title, unit: of }) => [
      title,
      `${fixed(one.statistics[key], 2)} ${of}`,
    ])} />
  </section>
  ${kind === "cross" ? html`<${Alignment} inspection=${inspection} one=${one} />` : null}
  <${HeadNumbers} projections=${inspection.projections} kind=${kind} layer=${one.layer} head=${one.head}
      queries=${sides.queries.tokens} keys=${sides.keys.tokens} weights=${one.tokens}
      bias=${inspection.model.attention_bias} />`;
}

function HeadWeights({ one, all, keys, queries, kind }) {
  const [view, setView] = useState("map");
  const kindName = Object.fromEntries(KINDS)[kind];
  const rowsAre = kind === "encoder" ? "query" : "predicts";
  const name = nameOf(one).toLowerCase();
  return html`
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
    ${view === "map" ? null : html`<p class="note">The opacity of a line is the weight; weights below
      ${" "}${FEWEST} have no line. Point at a token to see only its lines.${view === "layer"
        ? " Each colour is a head; after 8 heads the colours repeat." : ""}</p>`}
    <${Numbers} title=${`Weights of ${name} as a table`}
      head=${[kind === "encoder" ? "Query" : "Predicts", ...keys.map(visible)]}
      rows=${() => matrixRows(one.weights, keys.length, queries)} />`;
}

/** The links [source word, word of the translation] of a head that differ from the word alignment, the word
 * alignment by words of the translation, and how many words have both. */
function differencesOf({ alignment, head_alignment: heads }, one) {
  const aligned = new Map(alignment.map(([from, to]) => [to, from]));
  const links = heads[one.layer][one.head].filter(([, to]) => aligned.has(to));
  const others = links.filter(([from, to]) => aligned.get(to) !== from);
  return { others, aligned, count: links.length };
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

/** The word alignment, and where a head's own differs, as lines: the head's are dashed. */
function Alignment({ inspection, one }) {
  const { source, target, alignment } = inspection;
  const [left, right] = [source, target].map(({ names }) => names.slice(0, -1));
  const { others, aligned, count } = differencesOf(inspection, one);
  const line = ([from, to], group, dashed) => ({ left: from, right: to, weight: 1, group, dashed });
  const lines = [
    ...alignment.map((each) => line(each, 0, false)),
    ...others.map((each) => line(each, 1, true)),
  ];
  return html`<section class="panel" aria-label="Word alignment">
    <h3>Word alignment</h3>
    <p class="note">The result of dragoman align, from the weights of the last layer,${" "}
      ${inspection.model.alignment_head == null ? "averaged over its heads"
        : `head ${inspection.model.alignment_head}`}.</p>
    <p class="key">
      <${LineKey} name="the word alignment" group=${0} />
      <${LineKey} name=${`where ${nameOf(one).toLowerCase()} attends most to another word`} group=${1} />
    </p>
    <${Lines} left=${left} right=${right} lines=${lines} label="Word alignment" leftName="source"
      rightName="translation" />
    <${Numbers} title="Word alignment as a table" head=${["Source word", "Word of the translation"]}
      rows=${() => alignment.map(([from, to]) => [visible(left[from] ?? ""), visible(right[to] ?? "")])} />
    <${Numbers} rows=${() => others.map(([from, to]) =>
        [right[to], left[from], left[aligned.get(to)]].map(visible))}
      title=${`Where the word alignment differs: ${others.length} of ${count} words`}
      head=${["Word of the translation", "This head attends most to", "Word alignment"]} />
  </section>`;
}

function LineKey({ name, group }) {
  return html`<span><svg class="line-key" width="26" height="14" aria-hidden="true"><line x1="0" y1="7"
    x2="26" y2="7" class=${`group-${group} ${group ? "dashed" : ""}`}
    stroke-width="3" /></svg>${name}</span>`;
}
