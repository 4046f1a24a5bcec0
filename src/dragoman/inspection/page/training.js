// The training of the model's run: curves of its log, the schedule's formula, and samples.

import { html } from "./vendor/preact.js";
import { Formula, Numbers, ticks } from "./parts.js";

const PLOT = { width: 640, height: 200, left: 64, right: 12, top: 12, bottom: 36 };
const UNITS = {
  loss: "nats per target token",
  "negative log-likelihood": "nats per target token",
};
const DIGITS = { maximumSignificantDigits: 6 };
const FROM_ZERO = ["BLEU", "BLEU of the old text", "learning rate", "norm of the gradient"];

export function Training({ inspection }) {
  const { curves, samples, schedule } = inspection.training;
  const charts = [...new Set(curves.map(({ chart }) => chart))];
  const last = Math.max(...curves.map(({ points }) => points.at(-1)[0]));
  return html`
    <p>These curves are from the log of the run. The schedule of section 5.3 with its numbers: learning
      rate = ${" "}<${Formula} text=${schedule} />.</p>
    <div class="charts">${charts.map((chart) => html`<${Chart} key=${chart} chart=${chart} last=${last}
      curves=${curves.filter((curve) => curve.chart === chart)} />`)}</div>
    ${samples === null ? html`<p class="note">This server does not show the sentences of the validation data.
      It shows them if it is started with ${" "}<code>--show-samples</code>.</p>` : null}
    ${samples?.length ? html`<section class="panel" aria-label="Samples"><h3>Samples</h3>
      <p class="note">Sentences of the validation data as the model translated them during training.</p>
      <${Numbers} title="Samples as a table" head=${["Update", "Source", "Translation", "Reference"]}
        rows=${() => samples.map(({ step, source, translation, reference }) =>
          [step, source, translation, reference])} />
    </section>` : null}`;
}

function Chart({ chart, curves, last }) {
  const { width, height, left, right, top, bottom } = PLOT;
  const values = curves.flatMap(({ points }) => points.map(([, value]) => value));
  const [least, most] = [FROM_ZERO.includes(chart) ? 0 : Math.min(...values), Math.max(...values)];
  const x = (step) => left + (step / (last || 1)) * (width - left - right);
  const y = (value) => top + ((most - value) / (most - least || 1)) * (height - top - bottom);
  const title = `${chart[0].toUpperCase()}${chart.slice(1)}${UNITS[chart] ? `, ${UNITS[chart]}` : ""}`;
  return html`<section class="panel" aria-label=${title}>
    <h3>${title}</h3>
    <p class="key">${curves.map(({ name }) => html`<span key=${name}>
      <svg width="26" height="10" aria-hidden="true">
        <line class=${lineClass(name)} x2="26" y1="5" y2="5" />
      </svg>${name}</span>`)}</p>
    <div class="scroll" tabindex="0" role="group" aria-label=${`Plot: ${title}`}>
      <svg class="plot" viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${`${title}, by update`}>
        <line class="rule" x1=${left} x2=${width - right} y1=${y(least)} y2=${y(least)} />
        ${ticks(least, most).map((value) => html`<g key=${value}>
          <line class="rule" x1=${left} x2=${width - right} y1=${y(value)} y2=${y(value)} />
          <text x=${left - 6} y=${y(value) + 4} text-anchor="end">
            ${value.toLocaleString("en", DIGITS)}</text></g>`)}
        ${ticks(0, last).map((step) => html`<text key=${step} x=${x(step)} y=${height - bottom + 18}
          text-anchor=${step === last ? "end" : "middle"}>${step.toLocaleString("en")}</text>`)}
        <text x=${(left + width - right) / 2} y=${height - 3} text-anchor="middle">update</text>
        ${[...curves].reverse().map(({ name, points }) => html`<g key=${name}>
          <polyline class=${lineClass(name)} points=${points.map(([s, v]) => `${x(s)},${y(v)}`).join(" ")} />
          ${name === "validation" ? points.map(([step, value]) => html`<circle key=${step} class="mark"
            cx=${x(step)} cy=${y(value)} r="3" />`) : null}
        </g>`)}
      </svg>
    </div>
    <${Numbers} title=${`${title} as a table`} head=${["Update", "Curve", "Value"]}
      rows=${() => curves.flatMap(({ name, points }) =>
        points.map(([step, value]) => [step, name, value]))} />
  </section>`;
}

function lineClass(name) {
  return `trace ${name === "schedule" ? "formula-trace" : name}`;
}
