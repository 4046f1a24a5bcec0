// Views that the model computes only if they are asked for: a button, and then the view.

import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { HeatView } from "./heat_view.js";
import { useKept } from "./parts.js";

/** A part of an inspection that is recorded or asked for:
 * {found, answer, busy, failure, progress, run, stop}.
 * name: of the part. ask: of options, a signal that ends it, and a function of its progress, a promise of an
 * inspection with them; absent if no model can be asked. answer: the inspection that has the part. progress:
 * {done, total} of what is asked for, if it is known. run: asks for the part, with these options, too. stop:
 * ends what was asked for. */
export function useAsked(inspection, name, ask, options) {
  const [state, setState] = useState({ answer: inspection, busy: false, failure: "" });
  const controller = useRef();
  const run = async (others) => {
    if (state.busy) return;
    controller.current = new AbortController();
    const { current: { signal } } = controller;
    const asked = { ...state, busy: true, failure: "" };
    const onProgress = (progress) => setState({ ...asked, progress });
    setState(asked);
    try {
      const answer = await ask({ ...options, ...others }, signal, onProgress);
      setState({ answer, busy: false, failure: "" });
    } catch (error) {
      setState({ ...state, busy: false, failure: signal.aborted ? "" : error.message });
    }
  };
  const stop = () => controller.current.abort();
  return { ...state, found: state.answer[name], run: ask && run, stop };
}

/** A button that asks, with what it waits for or why it failed. children: the options above it. */
export function Ask({ name, busy, failure, progress, run, stop, children }) {
  const submit = (event) => {
    event.preventDefault();
    run();
  };
  const end = (event) => {
    event.currentTarget.form.querySelector("button").focus(); // this one goes
    stop();
  };
  return html`<form class="ask" onSubmit=${submit}>
    ${children}
    <button class="try" aria-disabled=${busy}>${name}</button>
    ${busy ? html`<button type="button" class="try" onClick=${end}>Stop</button>` : null}
    ${busy && progress ? html`<progress max=${progress.total} value=${progress.done}
      aria-label="Progress"></progress>` : null}
    <p role="status">${busy ? "The model is computing …" : ""}</p>
    ${failure ? html`<p role="alert" class="failure">${failure}</p>` : null}
  </form>`;
}

/** The attribution, below a form that asks for another one. */
export function AskedAttribution({ attribution }) {
  return html`
    ${attribution.run ? html`<${AttributionForm} ...${attribution} />` : null}
    ${attribution.found ? html`<${HeatView} inspection=${attribution.answer} name="attribution" />` : null}`;
}

function AttributionForm({ found, run, ...others }) {
  const [contrast, setContrast] = useKept("contrast", false);
  const [targetTokens, setTargetTokens] = useKept("target tokens", false);
  const check = (name, value, change) => html`<label class="check"><input type="checkbox" checked=${value}
    onChange=${(event) => change(event.currentTarget.checked)} /> ${name}</label>`;
  return html`
    ${found ? null : html`<p>What each token contributes to the log-probability of each token of the
      translation. The model computes it for many inputs, which takes longer than the other views.</p>`}
    <${Ask} name="Compute contributions" ...${others}
      run=${() => run({ contrast, target_tokens: targetTokens })}>
      ${check("Contrast with the likeliest other token", contrast, setContrast)}
      ${check("Also earlier target tokens", targetTokens, setTargetTokens)}
    <//>`;
}

/** Value zeroing, or a button that asks for it. */
export function AskedZeroing({ zeroing }) {
  const { found, answer, ...others } = zeroing;
  const place = useRef();
  const isFirst = useRef(true);
  useEffect(() => {
    if (found && !isFirst.current) place.current.focus(); // the button that had the focus is gone
    isFirst.current = false;
  }, [found]);
  if (found) {
    return html`<div tabindex="-1" ref=${place} role="group" aria-label="Value zeroing">
      <${HeatView} inspection=${answer} name="value-zeroing" /></div>`;
  }
  return html`
    <p>How much the attention of a layer mixes each token into the others (value zeroing). Unlike attention
      weights, it takes account of the values, the output matrix, the residual connection and the
      feed-forward sub-layer.</p>
    <${Ask} name="Compute value zeroing" ...${others} />`;
}
