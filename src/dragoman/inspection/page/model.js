// The architecture as in Figure 1 of the paper, drawn from the model's settings and its modules.

import { html } from "./vendor/preact.js";
import { Numbers } from "./parts.js";
import { count } from "./tokens.js";

const TITLES = {
  self_attention: { encoder: "Multi-head self-attention", decoder: "Masked multi-head self-attention" },
  cross_attention: { decoder: "Encoder-decoder attention" },
  feed_forward: { encoder: "Feed-forward network", decoder: "Feed-forward network" },
};
const MIXERS = { // what an enriched model has in the place of self-attention
  "lstm-enriched": { encoder: "Bidirectional LSTM", decoder: "LSTM" },
  "gru-enriched": { encoder: "Bidirectional GRU", decoder: "GRU" },
  "conv-enriched": { encoder: "Convolution with GLU", decoder: "Convolution with GLU" },
};

const OF_CELLS = "The decoder's shapes are [hypotheses, features].";
const DECODER_SHAPES = {
  transformer: "The decoder computes a step at a time: its tokens are the last ones of the hypotheses.",
  lstm: OF_CELLS,
  gru: OF_CELLS,
  conv: "In the decoder, hypotheses are rows; in its attention during beam search, tokens of one sentence.",
};

export function Model({ inspection }) {
  const { model, modules, parameters } = inspection;
  const setting = (value) => (Array.isArray(value) ? value.join(", ") : String(value));
  return html`
    <p>Read the figure from bottom to top. At each arrow is the shape of what the part below gives in its
      first call, [sentences, tokens, features]; parameters are those of one layer. Click a box to see its
      definition in the code.${" "}
      ${DECODER_SHAPES[model.architecture] ?? "The decoder's shapes are [hypotheses, tokens, features]."}</p>
    <div class="figure" role="group" aria-label="The architecture">
      ${["encoder", "decoder"].map((side) => html`<${STACKS[model.architecture] ?? Stack} key=${side}
        side=${side} inspection=${inspection} />`)}
    </div>
    <${Numbers} title=${`All parts as a table, ${count(parameters)} parameters`}
      head=${["Part", "Parameters", "Shape", "Code"]}
      rows=${() => modules.map((each) =>
        [each.name, count(each.parameters), shapeText(each.shape), each.code])} />
    <${Numbers} title="Settings of the model" head=${["Setting", "Value"]}
      rows=${() => Object.entries(model).map(([name, value]) => [name, setting(value)])} />
    <${Numbers} title="Settings of the search" head=${["Setting", "Value"]}
      rows=${() => Object.entries(inspection.search).map(([name, value]) => [name, setting(value)])} />`;
}

function shapeText(shape) {
  return shape.length ? `[${shape.join(", ")}]` : "";
}

function Stack({ side, inspection }) {
  const { model, modules, source } = inspection;
  const layers = model[`${side}_layers`];
  const before = model.norm === "pre";
  const mixer = MIXERS[model.architecture];
  const own = mixer ? "token_mixer" : "self_attention";
  const parts = [own, ...side === "encoder" ? [] : ["cross_attention"], "feed_forward"];
  const titles = { ...TITLES, token_mixer: mixer };
  const find = (name) => modules.find((each) => each.name === name);
  const embedded = find(`${side}.0.${own}`)?.shape ?? [];
  const boxes = parts.map((name) => html`<${Box} key=${name} kind=${name === own ? "self_attention" : name}
    title=${titles[name][side]}
    module=${find(`${side}.0.${name}`)} note=${noteOf(name, model, side)} sum=${sumOf(model)}
    norm=${find(`${side}.0.${name}_residual`)} />`);
  const inputs = side === "encoder" ? `${source.tokens.length} source tokens` : "START and the tokens so far";
  const embedding = [
    model.positions === "none" ? "" : model.positions,
    model.scale_embeddings === false ? "" : `times √${model.d_model}`,
    side === "encoder" && model.tied === "all" ? "the matrix of the decoder" : "",
  ];
  return html`<div class="column">
    <h3>${side === "encoder" ? "Encoder" : "Decoder"}</h3>
    ${side === "decoder"
      ? html`<${Box} kind="output" title="Linear map and softmax" note=${tiedNote(model)}
          module=${find("output")} />`
      : html`<p class="arrow">to encoder-decoder attention of every decoder layer →</p>`}
    ${before ? html`<${Box} kind="norm" title="Layer normalisation"
      module=${withShape(find(`${side}_norm`), embedded)} />` : null}
    <div class="layer"><span class="times">× ${layers}</span>${boxes.reverse()}</div>
    <${Box} kind="embedding" title=${embeddingTitle(model)} note=${embedding.filter(Boolean).join(", ")}
      module=${withShape(find(`${side === "encoder" ? "source" : "target"}_embedding`), embedded)} />
    <p class="tokens-below">↑ ${inputs}</p>
  </div>`;
}

/** A part with the shape of what it gives, if that was not recorded. */
function withShape(module, shape) {
  return { ...module, shape };
}

function noteOf(name, model, side) {
  if (name === "token_mixer") {
    return model.architecture === "conv-enriched" ? kernelNote(model, side === "encoder") : "";
  }
  const { d_model: d, activation } = model;
  const inner = (side === "decoder" && model.decoder_d_ff) || model.d_ff;
  if (name === "feed_forward") return `${d} → ${inner} → ${d}, ${activation}`;
  const width = d / model.heads;
  const keys = `${model.heads} heads, d_k = ${model.d_k ?? width}, d_v = ${model.d_v ?? width}`;
  const scores = model.attention_score ? `${keys}; ${model.attention_score} scores` : keys;
  if (name === "cross_attention") return `${scores}; keys and values from the encoder`;
  return model.neighbourhood ? `${scores}; neighbourhood of ${model.neighbourhood}` : scores;
}

/** What follows a sub-layer: its residual sum and its normalisation. */
function sumOf({ norm, residual }) {
  if (norm === "pre") return residual ? "⊕ normalise before, then add" : "normalise before";
  const normalise = { post: "normalise", batch: "normalise over the batch", none: "" }[norm];
  const words = [residual ? "add" : "", normalise].filter(Boolean).join(", then ");
  return residual ? `⊕ ${words}` : words;
}

function embeddingTitle({ positions, concatenate_positions: beside }) {
  if (positions === "none") return "Embedding";
  return beside ? "Embedding and position, concatenated" : "Embedding + position";
}

function tiedNote({ tied }) {
  if (tied === "all") return "the matrix of both embeddings";
  return tied === "target" ? "the matrix of the target embedding" : "a matrix of its own";
}

/** The parts of an LSTM or GRU; the decoder's shapes are [hypotheses, features]. */
function RecurrentStack({ side, inspection }) {
  const { model, modules, source } = inspection;
  const find = (name) => modules.find((each) => each.name === name);
  const name = model.architecture.toUpperCase();
  const shared = side === "encoder" && model.tied === "all" ? "the matrix of the decoder" : null;
  const own = find(`${side === "encoder" ? "source" : "target"}_embedding`);
  const embedded = side === "encoder" ? [1, source.tokens.length, model.d_model]
    : [...(find("decoder.0")?.shape ?? []).slice(0, 1), model.d_model];
  const embedding = html`<${Box} kind="embedding" title="Embedding" note=${shared}
    module=${withShape(own, embedded)} />`;
  const score = { dot: "Dot", general: "General" }[model.attention_score] ?? "Additive";
  const fed = model.input_feeding ? "; the first layer also reads the last features" : "";
  if (side === "encoder") {
    return html`<div class="column">
      <h3>Encoder</h3>
      <p class="arrow">to the decoder's attention →</p>
      <div class="layer"><span class="times">× ${model.encoder_layers}</span>
        <${Box} kind="self_attention" title=${`Bidirectional ${name}`} module=${find("encoder")}
          note="of all layers" /></div>
      ${embedding}
      <p class="tokens-below">↑ ${source.tokens.length} source tokens</p>
    </div>`;
  }
  return html`<div class="column">
    <h3>Decoder</h3>
    <${Box} kind="output" title="Linear map and softmax" note=${tiedNote(model)} module=${find("output")} />
    <${Box} kind="norm" title="tanh of a linear map" note="of state, context and embedding"
      module=${find("features")} />
    <div class="layer"><span class="times">× ${model.decoder_layers}</span>
      <${Box} kind="feed_forward" title=${name} module=${find("decoder.0")} /></div>
    <${Box} kind="cross_attention" title=${`${score} attention`} module=${find("attention")}
      note=${`query: the first layer's state before the token${fed}`} />
    ${embedding}
    <p class="tokens-below">↑ START and the tokens so far</p>
  </div>`;
}

/** The parts of a ConvS2S. */
function ConvolutionalStack({ side, inspection }) {
  const { model, modules, source } = inspection;
  const find = (name) => modules.find((each) => each.name === name);
  const isEncoder = side === "encoder";
  const input = isEncoder ? "source" : "target";
  const own = find(`${input}_embedding`);
  const embedded = find(`${side}_input`)?.shape ?? []; // the linear map keeps it
  const shared = isEncoder && model.tied === "all" ? "the matrix of the decoder" : null;
  return html`<div class="column">
    <h3>${isEncoder ? "Encoder" : "Decoder"}</h3>
    ${isEncoder
      ? html`<p class="arrow">to the attention of every decoder layer →</p>`
      : html`<${Box} kind="output" title="Linear map and softmax" note=${tiedNote(model)}
          module=${find("output")} />`}
    <${Box} kind="norm" title="Linear map" module=${find(`${side}_output`)}
      note=${isEncoder ? "its output: the keys; with the embedding added: the values" : null} />
    <div class="layer"><span class="times">× ${model[`${side}_layers`]}</span>
      ${isEncoder ? null : html`<${Box} kind="cross_attention" title="Attention"
        sum="⊕ add its input, then that of the layer, each times √0.5"
        note="one head, not scaled" module=${find("decoder.0.attention")} />`}
      <${Box} kind="feed_forward" title="Convolution with GLU" module=${find(`${side}.0.convolution`)}
        note=${kernelNote(model, isEncoder)}
        sum=${isEncoder ? "⊕ add, times √0.5" : ""} />
    </div>
    <${Box} kind="norm" title="Linear map" module=${find(`${side}_input`)} />
    ${model.positions === "none" ? null : html`<${Box} kind="embedding" title="Add positions"
      note=${model.positions === "learned" ? "learned" : `${model.positions}, times 0.1`}
      module=${withShape(find(`${input}_positions`), embedded)} />`}
    <${Box} kind="embedding" title="Embedding" note=${shared} module=${withShape(own, embedded)} />
    <p class="tokens-below">↑ ${isEncoder ? `${source.tokens.length} source tokens`
      : "START and the tokens so far"}</p>
  </div>`;
}

function kernelNote({ kernel_width: width, dilated }, isEncoder) {
  return `kernel of ${width}${isEncoder ? "" : ", causal"}${dilated ? ", dilated" : ""}`;
}

const STACKS = { lstm: RecurrentStack, gru: RecurrentStack, conv: ConvolutionalStack };

/** A part of Figure 1, below the arrow that leaves it. A click shows its definition in the code.
 * sum: its residual sum and normalisation, which norm computes; absent for parts without them. */
function Box({ kind, title, module, note, sum, norm }) {
  const content = html`<b>${title}</b>
    ${note ? html`<span>${note}</span>` : null}
    ${module?.parameters >= 0 ? html`<span>${parametersText(module)}</span>` : null}
    ${sum ? html`<span class="sum">${sum}${norm?.parameters ? `, ${parametersText(norm)}` : ""}</span>`
      : null}`;
  const parts = [module, norm].filter((part) => part?.code);
  return html`<p class="arrow">↑ ${module?.shape ? shapeText(module.shape) : ""}</p>
    ${parts.length
      ? html`<details class=${`box ${kind}`}><summary>${content}</summary>
          ${parts.map((part) => html`<${Definition} key=${part.code} ...${part} />`)}</details>`
      : html`<div class=${`box ${kind}`}>${content}</div>`}`;
}

function parametersText({ parameters }) {
  return parameters ? `${count(parameters)} parameters` : "no parameters of its own";
}

/** Where the code of a part is, and what it says of itself. */
function Definition({ code, definition }) {
  return html`<p class="definition"><code>${code.split(".").map((name, place) =>
    html`${place ? "." : ""}<wbr />${name}`)}</code> ${definition}</p>`;
}
