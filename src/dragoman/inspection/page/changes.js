// The form in which one chooses what to change. A change is a text such as cross.2.3=off.

import { html, useState } from "./vendor/preact.js";
import { Token, visible } from "./tokens.js";

const ATTENTION = {
  cross: "Encoder-decoder attention",
  encoder: "Encoder self-attention",
  decoder: "Decoder self-attention",
};
const SUBLAYERS = {
  encoder: { self_attention: "self-attention", feed_forward: "feed-forward" },
  decoder: {
    self_attention: "self-attention",
    cross_attention: "encoder-decoder attention",
    feed_forward: "feed-forward",
  },
};
const POSITIONS = { positions: "both sides", "positions.source": "source", "positions.target": "target" };
const SETTINGS = {
  beam_size: "Beam size",
  length_penalty: "Length penalty α",
  min_length: "Minimum length",
  max_length: "Maximum length",
  no_repeat_ngram: "No n-gram of this size twice",
  groups: "Groups of diverse beam search",
  temperature: "Temperature of sampling",
  n_best: "Number of samples or translations",
};
const [OFF, UNIFORM] = [["off", "switched off"], ["uniform", "uniform attention"]];

/** Groups of parts: [group, [[part, name], …], the values that it may have; null for a text]. */
function groupsOf({ model, source, target }) {
  const numbers = (most) => Array.from({ length: most }, (_, place) => place + 1);
  const known = { transformer: partsOf, conv: convolutionalPartsOf, lstm: () => [], gru: () => [] };
  const groups = (known[model.architecture] ?? enrichedPartsOf)(model, numbers);
  const places = (side, tokens) => tokens.map((token, place) =>
    [`${side}.${place + 1}`, `${place + 1}: ${visible(token)}`]);
  groups.push(["Source token", places("source", source.tokens.slice(0, -1)), null]);
  groups.push(["Token of the translation", places("target", target.tokens), null]);
  groups.push(["Search", Object.entries(SETTINGS), null]);
  return groups;
}

/** Groups of the parts of an enriched model: a Transformer without self-attention. */
function enrichedPartsOf(model, numbers) {
  const { self_attention: _, ...decoder } = SUBLAYERS.decoder;
  const { feed_forward } = SUBLAYERS.encoder;
  return partsOf(model, numbers, { cross: ATTENTION.cross }, { encoder: { feed_forward }, decoder });
}

/** Groups of the parts of a Transformer. */
function partsOf(model, numbers, attention = ATTENTION, sublayers = SUBLAYERS) {
  const groups = [];
  for (const [use, name] of Object.entries(attention)) {
    const layers = numbers(use === "encoder" ? model.encoder_layers : model.decoder_layers);
    const heads = layers.flatMap((layer) => numbers(model.heads).map((head) =>
      [`${use}.${layer}.${head}`, `Layer ${layer}, head ${head}`]));
    groups.push([name, heads, [OFF, UNIFORM]]);
    const whole = layers.map((layer) => [`${use}.${layer}`, `Layer ${layer}`]);
    groups.push([`${name}, all heads`, whole, [UNIFORM]]);
  }
  for (const [side, parts] of Object.entries(sublayers)) {
    const layers = numbers(model[`${side}_layers`]).flatMap((layer) => [
      [`${side}.${layer}`, `Layer ${layer}`],
      ...Object.entries(parts).map(([part, name]) => [`${side}.${layer}.${part}`, `Layer ${layer}, ${name}`]),
    ]);
    groups.push([side === "encoder" ? "Encoder" : "Decoder", layers, [OFF]]);
  }
  groups.push(["Positional encoding", Object.entries(POSITIONS), [OFF]]);
  return groups;
}

/** Groups of the parts of a ConvS2S. */
function convolutionalPartsOf(model, numbers) {
  const [encoder, decoder] = [numbers(model.encoder_layers), numbers(model.decoder_layers)];
  const named = (layers, start, end = "") => layers.map((layer) =>
    [`${start}.${layer}${end}`, `Layer ${layer}${end ? ", encoder-decoder attention" : ""}`]);
  return [
    [ATTENTION.cross, named(decoder, "cross"), [UNIFORM]],
    ["Encoder", named(encoder, "encoder"), [OFF]],
    ["Decoder", [...named(decoder, "decoder"), ...named(decoder, "decoder", ".cross_attention")], [OFF]],
    ["Positional encoding", Object.entries(POSITIONS), [OFF]],
  ];
}

/** The likeliest tokens at a place of the translation, or the neighbours of a source token. */
function suggestions({ beam, source, neighbours }, part) {
  const [side, position] = part.split(".");
  const matrix = neighbours.find(({ parts }) => parts.includes("source embedding"));
  const near = matrix?.tokens.find(([token]) => token === source.tokens[position - 1]);
  const found = { source: near?.[1], target: beam.candidates[beam.best_path[position - 1]] }[side];
  return (found ?? []).map(([token]) => token);
}

export function Changes({ inspection, run, busy }) {
  const groups = groupsOf(inspection);
  const [added, setAdded] = useState([]);
  const [group, setGroup] = useState(0);
  const [part, setPart] = useState(groups[0][1][0][0]);
  const [value, setValue] = useState(groups[0][2]?.[0][0] ?? "");
  const [, parts, values] = groups[group];
  const isToken = part.startsWith("source.") || part.startsWith("target.");
  const choosePart = (next, itsGroup) => {
    setPart(next);
    setGroup(itsGroup);
    const its = groups[itsGroup][2];
    if (itsGroup !== group) setValue(its ? its[0][0] : "");
  };
  const chooseGroup = (next) => choosePart(groups[next][1][0][0], next);
  const current = `${part}=${isToken ? value.replaceAll(" ", "▁") : value.trim()}`;
  const hasChange = values || value.trim();
  const all = hasChange && !added.includes(current) ? [...added, current] : added;
  const submit = async (event) => {
    event.preventDefault();
    if (await run(all)) setAdded([]);
  };
  const add = (event) => event.currentTarget.form.reportValidity() && setAdded(all);
  return html`<form class="changes" aria-label="Changes" onSubmit=${submit}>
    <label>What <select value=${group} onChange=${(event) => chooseGroup(Number(event.currentTarget.value))}>
      ${groups.map(([title], place) => html`<option key=${title} value=${place}>${title}</option>`)}
    </select></label>
    <label>Which <select value=${part} onChange=${(event) => choosePart(event.currentTarget.value, group)}>
      ${parts.map(([each, title]) => html`<option key=${each} value=${each}>${title}</option>`)}
    </select></label>
    ${values
      ? html`<label>Change <select value=${value} onChange=${(event) => setValue(event.currentTarget.value)}>
          ${values.map(([each, title]) => html`<option key=${each} value=${each}>${title}</option>`)}
        </select></label>`
      : html`<label>${isToken ? "Token" : "Value"} <input required=${!added.length} value=${value}
          list="likely" autocomplete="off" spellcheck="false"
          onInput=${(event) => setValue(event.currentTarget.value)} />
        </label>
        <datalist id="likely">${suggestions(inspection, part).map((token) => html`<option key=${token}
          value=${token} />`)}</datalist>`}
    <button class="go" aria-disabled=${busy}>Run</button>
    <button type="button" onClick=${add}>Add another change</button>
    ${isToken ? html`<p class="note">Enter a token of the vocabulary. A space stands for ▁, with which the
      first token of a word begins.</p>` : null}
    ${added.length ? html`<ul class="added" aria-label="Changes so far">
      ${added.map((change, place) => html`<li key=${place}><button type="button"
        aria-label=${`Remove ${visible(change)}`}
        onClick=${() => setAdded(added.filter((_, other) => other !== place))}>
        <${Token} token=${change} /> ×</button></li>`)}
    </ul>` : null}
  </form>`;
}
