// Masked self-attention step by step: what a query may attend to, and what it predicts.

import { html, useEffect, useState } from "./vendor/preact.js";
import { decoderKeys, part } from "./data.js";
import { matrixRows } from "./heat.js";
import { Bars, Numbers, Slider, useKept } from "./parts.js";
import { Token, fixed, visible } from "./tokens.js";

const SECONDS = 1.2; // of a step while it plays
const MEAN = -1; // the mean of all heads

const stillness = matchMedia("(prefers-reduced-motion: reduce)");

export function Steps({ inspection }) {
  const { attention, beam, target } = inspection;
  const { layers, heads } = attention.decoder; // the numbers of those that are held
  const [step, setStep] = useKept("step", 1);
  const [layer, setLayer] = useKept("steps layer", layers.length - 1);
  const [head, setHead] = useKept("steps head", MEAN);
  const [playing, setPlaying] = useState(false);
  const keys = decoderKeys(inspection);
  const steps = keys.length;
  const weights = headWeights(attention.decoder, layer, head);
  const show = (next) => setStep(Math.min(Math.max(next, 1), steps));
  useEffect(() => {
    if (!playing) return undefined;
    const timer = setTimeout(() => (step < steps ? show(step + 1) : setPlaying(false)), 1000 * SECONDS);
    return () => clearTimeout(timer);
  }, [playing, step]);
  const play = () => {
    if (!playing && step === steps) show(1);
    setPlaying(!playing);
  };
  const onKeyDown = (event) => {
    const next = { ArrowLeft: step - 1, ArrowRight: step + 1, Home: 1, End: steps }[event.key];
    if (next === undefined || event.target.matches("input, select")) return;
    event.preventDefault();
    show(next);
  };
  const row = weights.subarray((step - 1) * steps, step * steps);
  return html`
    <p>At each step the last token is the query. It attends to itself and to the tokens before it; later ones
      are masked, because they do not exist yet. The decoder then predicts the next token. Arrow keys change
      the step.</p>
    <div class="tools" onKeyDown=${onKeyDown}>
      <${Slider} label="Step" least=${1} most=${steps} value=${step} change=${show} />
      ${stillness.matches ? null : html`<button class="play" onClick=${play}>
        ${playing ? "Pause" : "Play"}</button>`}
      <label>Layer <select value=${layer} onChange=${(event) => setLayer(Number(event.currentTarget.value))}>
        ${layers.map((number, place) => html`<option value=${place}>${number}</option>`)}
      </select></label>
      <label>Head <select value=${head} onChange=${(event) => setHead(Number(event.currentTarget.value))}>
        <option value=${MEAN}>mean of all</option>
        ${heads.map((number, place) => html`<option value=${place}>${number}</option>`)}
      </select></label>
    </div>
    <section class="hypothesis steps" aria-label=${`Step ${step}`} tabindex="0" onKeyDown=${onKeyDown}>
      <table class="bars">
        <caption>Keys of the query <${Token} token=${keys[step - 1]} />, with its weights</caption>
        <tbody>${keys.map((key, index) => html`<tr key=${index} class=${rowClass(index, step)}>
          <th scope="row"><${Token} token=${key} /></th>
          <td class="bar">${index < step
            ? html`<div style=${{ width: `${100 * row[index]}%` }}></div>` : null}</td>
          <td>${index < step ? fixed(row[index]) : "masked"}</td>
        </tr>`)}</tbody>
      </table>
      <div>
        <p>Predicted: <b><${Token} token=${target.tokens[step - 1]} /></b></p>
        <${Bars} tokens=${beam.candidates[beam.best_path[step - 1]]} caption="Likeliest next tokens" />
      </div>
    </section>
    <${Numbers} title="Weights of all steps as a table" head=${["Query", "Predicts", ...keys.map(visible)]}
      rows=${() => matrixRows(weights, steps, keys).map(([query, ...values], index) => [
        query, visible(target.tokens[index]), ...values.map((value, key) => (key > index ? "masked" : value)),
      ])} />`;
}

function rowClass(index, step) {
  return index === step - 1 ? "query" : index < step ? "" : "masked";
}

/** The weights of a head, or the mean of all heads of a layer, in rows of queries. Places of what is held. */
function headWeights(held, layer, head) {
  return head === MEAN ? part(held.mean, layer) : part(held, layer, head);
}
