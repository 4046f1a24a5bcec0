// Neurons: the hidden units of the feed-forward sub-layers, by layer and token.

import { html, useState } from "./vendor/preact.js";
import { part } from "./data.js";
import { greatest } from "./heat.js";
import { Choice, Facts, Grid, Numbers } from "./parts.js";
import { Token, count, fixed, percent, visible } from "./tokens.js";
import { useWindow } from "./window.js";

const SIDES = [["encoder", "Encoder"], ["decoder", "Decoder"]];
const LISTED = 3; // tokens of a neuron in the table of a layer

export function Neurons({ inspection }) {
  const [side, setSide] = useState("encoder");
  const tokens = (side === "encoder" ? inspection.source : inspection.target).tokens;
  const drawn = useWindow(tokens.length);
  return html`
    <p>A neuron is a hidden unit of a feed-forward sub-layer. Its activation is its value after
      ${" "}${inspection.model.activation}, which the second linear map reads; it has no unit.
      ${side === "decoder" ? " Each column is the position that predicts the token." : ""}</p>
    <${Choice} label="Side" choices=${SIDES} value=${side} choose=${setSide} />
    <${Side} key=${[side, drawn].join()} neurons=${inspection.neurons[side]} tokens=${tokens} drawn=${drawn}
      side=${side} />`;
}

/** neurons: those of a side, as docs/inspection-data.md has them. drawn: the first token that the grid has,
 * and the one after the last. */
function Side({ neurons, tokens, drawn: [start, stop], side }) {
  const { active, width, zeros } = neurons;
  const [layers, columns, most] = [zeros.length, stop - start, greatest(active.values)];
  const [chosen, setChosen] = useState(0);
  const [layer, token] = [Math.floor(chosen / columns), start + (chosen % columns)];
  const [neuron, setNeuron] = useState(active.neurons[0][start][0]);
  const choose = (place) => {
    setChosen(place);
    setNeuron(active.neurons[Math.floor(place / columns)][start + (place % columns)][0]);
  };
  const cell = (place) => {
    const [row, column] = [Math.floor(place / columns), start + (place % columns)];
    const [first] = part(active, row, column);
    const number = first === 0 ? "all are 0" : active.neurons[row][column][0];
    return {
      name: `${visible(tokens[column])}, layer ${row + 1}: ${first === 0 ? number
        : `neuron ${number}, ${fixed(first, 2)}`}`,
      content: html`<span>${number}</span>
        <span class="under"><span style=${{ width: `${(100 * Math.abs(first)) / most}%` }}></span></span>`,
    };
  };
  return html`
    <h3>Most active neuron by layer and token</h3>
    <p class="note">A cell has the number of the neuron with the greatest absolute activation. The bar is this
      activation; the longest is ${fixed(most, 2)}. Arrow keys move in the grid; Enter or a click shows
      the neurons of a cell below.</p>
    <div class="scroll"><${Grid} label="Most active neurons" kind="lens" rows=${layers} columns=${columns}
      rowNames=${zeros.map((_, index) => `Layer ${index + 1}`)} chosen=${chosen} choose=${choose}
      columnNames=${tokens.slice(start, stop).map((each) => html`<${Token} token=${each} />`)}
      cell=${cell} /></div>
    <${Numbers} title="Most active neurons of each token as a table"
      head=${["Layer", "Token", "Neurons with their activations"]}
      rows=${() => active.neurons.flatMap((row, index) => row.map((numbers, place) => {
        const values = part(active, index, place);
        return [index + 1, visible(tokens[place]),
          numbers.map((number, rank) => `${number}: ${fixed(values[rank])}`).join(", ")];
      }))} />
    <section class="panel hypothesis" aria-label="Neurons of a token">
      <${Active} numbers=${active.neurons[layer][token]} values=${part(active, layer, token)} most=${most}
        token=${tokens[token]} layer=${layer} choose=${setNeuron} chosen=${neuron} />
      <${Facts} facts=${[
        ["Neurons in a layer", count(width)],
        [`Activations that are 0, layer ${layer + 1}`, percent(zeros[layer])],
      ]} />
    </section>
    <${Neuron} neurons=${neurons} layer=${layer} neuron=${neuron} choose=${setNeuron} tokens=${tokens}
      drawn=${[start, stop]} side=${side} />`;
}

/** The most active neurons of a token; a click on one shows it below. */
function Active({ numbers, values, most, token, layer, choose, chosen }) {
  return html`<table class="bars">
    <caption>Most active neurons of layer ${layer + 1} at <${Token} token=${token} />; a click shows one
      below</caption>
    <tbody>${numbers.map((number, rank) => html`<tr key=${number}>
      <th scope="row"><button class="link" aria-pressed=${number === chosen}
        onClick=${() => choose(number)}>${number}</button></th>
      <td class="bar"><div style=${{ width: `${(100 * Math.abs(values[rank])) / most}%` }}></div></td>
      <td>${fixed(values[rank])}</td>
    </tr>`)}</tbody>
  </table>`;
}

/** A neuron's activation at each token; null where the data do not have it. */
function activationsOf({ neurons, active, values, shape }, layer, neuron, tokens) {
  const row = neurons[layer].indexOf(neuron);
  if (row >= 0) return Array.from(part({ values, shape }, layer, row));
  return tokens.map((_, place) => {
    const rank = active.neurons[layer][place].indexOf(neuron);
    return rank >= 0 ? part(active, layer, place)[rank] : null;
  });
}

/** Tokens by the absolute activation of a neuron, greatest first: [token, activation]. */
function highest(tokens, activations) {
  return tokens.map((token, place) => [token, activations[place]])
    .filter(([, value]) => value)
    .sort(([, one], [, other]) => Math.abs(other) - Math.abs(one));
}

function Neuron({ neurons, layer, neuron, choose, tokens, drawn: [start, stop], side }) {
  const activations = activationsOf(neurons, layer, neuron, tokens);
  const isHeld = neurons.neurons[layer].includes(neuron);
  const most = greatest(activations.filter((value) => value !== null));
  const best = highest(tokens, activations).slice(0, 10);
  const change = ({ currentTarget: { value } }) =>
    choose(Math.min(Math.max(Math.round(Number(value)) || 1, 1), neurons.width));
  return html`<section class="panel" aria-label="One neuron">
    <h3>Neuron ${neuron} of layer ${layer + 1}</h3>
    <div class="from-to"><label>Neuron <input type="number" min="1" max=${neurons.width} value=${neuron}
      onChange=${change} /></label> <span>of ${count(neurons.width)}</span></div>
    ${isHeld ? null : html`<p class="note">Only the ${count(neurons.neurons[layer].length)} most active
      neurons of each layer are here with all tokens; of others, where they are among the
      ${" "}${neurons.active.shape[2]} most active of a token. <code>dragoman inspect --show neurons --kind
      ${" "}${side} --layer ${layer + 1} --neuron ${neuron}</code> draws this one; a .json file has all.</p>`}
    <ul class="activations">${tokens.slice(start, stop).map((token, index) => {
      const value = activations[start + index];
      return html`<li key=${index} class=${value < 0 ? "loss" : "gain"}
        style=${{ "--share": Math.abs(value ?? 0) / most }}><${Token} token=${token} />
        <small>${value === null ? "–" : value === 0 ? "0" : fixed(value, 2)}</small></li>`;
    })}</ul>
    ${best.length ? html`<table class="bars">
      <caption>Tokens at which it is most active</caption>
      <tbody>${best.map(([token, value], rank) => html`<tr key=${rank}>
        <th scope="row"><${Token} token=${token} /></th>
        <td class="bar"><div style=${{ width: `${(100 * Math.abs(value)) / most}%` }}></div></td>
        <td>${fixed(value)}</td>
      </tr>`)}</tbody>
    </table>` : html`<p>Its activation is 0 at all tokens${isHeld ? "" : " for which it is known"}.</p>`}
    <${Numbers} title=${`Activations of neuron ${neuron} as a table`} head=${["Token", "Activation"]}
      rows=${() => tokens.map((token, place) => [
        visible(token), activations[place] === null ? "not known here" : fixed(activations[place], 4),
      ])} />
    <${Numbers} title=${`Most active neurons of layer ${layer + 1} as a table`}
      head=${["Neuron", "Greatest activation", "Tokens"]}
      rows=${() => neurons.neurons[layer].map((number) => {
        const found = highest(tokens, activationsOf(neurons, layer, number, tokens)).slice(0, LISTED);
        return [number, fixed(found[0]?.[1] ?? 0),
          found.map(([token, value]) => `${visible(token)} ${fixed(value, 2)}`).join(", ")];
      })} />
  </section>`;
}
