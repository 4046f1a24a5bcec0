// What-ifs: the search with changes beside the search without. The model computes each case, never the page.

import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { Beam, pathsOf, scoreFormula } from "./beam.js";
import { Effects } from "./effects.js";
import { Facts } from "./parts.js";
import { Token, count, fixed } from "./tokens.js";
import { Changes } from "./changes.js";

/** The cases so far, and `run`, which asks for another and tells whether it came.
 * ask: of options, a promise of an inspection with them. */
export function useBench(inspection, ask) {
  const [cases, setCases] = useState(inspection.what_if ?? []);
  const [chosen, choose] = useState(0);
  const [state, setState] = useState({ busy: false, failure: "" });
  const run = async (changes) => {
    if (state.busy) return false;
    setState({ busy: true, failure: "" });
    try {
      const all = [...cases, { ...(await ask({ changes })), changes }];
      setCases(all);
      choose(all.length - 1);
      setState({ busy: false, failure: "" });
      return true;
    } catch (error) {
      setState({ busy: false, failure: error.message });
      return false;
    }
  };
  return { cases, chosen, choose, run, ...state };
}

export function WhatIf({ inspection, bench, effects, tryOut }) {
  const status = useRef();
  const { cases, chosen, choose, busy, failure } = bench;
  const one = cases[chosen];
  useEffect(() => {
    if (busy) status.current.focus(); // what was clicked is in another view
  }, []);
  const same = one && one.translation === inspection.translation;
  const result = one ? `The translation ${same ? "stays the same" : "changes"}.` : "";
  return html`
    ${tryOut || one ? html`<p>Each case translates the same sentence again, with changes to the model, its
      input or the search. Marked tokens and hypotheses occur on one side only.</p>` : null}
    ${tryOut ? html`<${Changes} inspection=${inspection} run=${bench.run} busy=${busy} />` : null}
    ${cases.length > 1 ? html`<label class="case">Case <select value=${chosen}
      onChange=${(event) => choose(Number(event.currentTarget.value))}>
      ${cases.map(({ changes }, place) => html`<option key=${place} value=${place}>
        ${place + 1}: ${describe(changes).join(", ")}</option>`)}
    </select></label>` : null}
    ${failure ? html`<p role="alert" class="failure">${failure}</p>` : null}
    <p role="status" tabindex="-1" ref=${status}>${busy ? "The model is computing …" : result}</p>
    ${one ? html`<${Comparison} key=${chosen} before=${inspection} after=${one} tryOut=${tryOut} />` : null}
    ${effects.found || effects.run ? html`<${Effects} ...${effects} />` : null}`;
}

/** Changes as texts, forced beginnings as one. */
function describe(changes) {
  const tokens = changes.map((change) => /^target\.(\d+)=(.*)$/s.exec(change));
  const beginning = tokens.filter((found, place) => found && Number(found[1]) === place + 1);
  const rest = changes.slice(beginning.length);
  if (beginning.length < 2) return changes;
  return [`begins with ${beginning.map(([, , token]) => token).join(" ")}`, ...rest];
}

function Comparison({ before, after, tryOut }) {
  const [gone, fresh] = differences(before.target.tokens, after.target.tokens);
  const [left, entered] = differences(before.source.tokens, after.source.tokens);
  const pair = (one, other) => `${fixed(one)} → ${fixed(other)} (${signed(other - one)})`;
  const others = after.changes.filter((change) => !change.startsWith("target."));
  return html`
    <p class="tokens">${describe(after.changes).map((change) => html`<code key=${change}>
      <bdi>${change}</bdi></code>`)}</p>
    <${Facts} facts=${[
      ["Log-probability", pair(before.log_probability, after.log_probability)],
      ["Score", scoreFormula(before.search) === scoreFormula(after.search)
        ? pair(before.score, after.score)
        : `${fixed(before.score)} → ${fixed(after.score)} (other formula)`],
      ["Hypotheses", `${count(before.beam.nodes.length)} → ${count(after.beam.nodes.length)}`],
    ]} />
    <div class="compare">
      <${Part} title="Before" inspection=${before} marked=${gone} source=${left} kind="gone"
        others=${after} tryOut=${tryOut} />
      <${Part} title="After" inspection=${after} marked=${fresh} source=${entered} kind="fresh"
        others=${before} tryOut=${tryOut && ((forced) => tryOut([...forced, ...others]))} />
    </div>`;
}

function Part({ title, inspection, marked, source, kind, others, tryOut }) {
  const { translation, target } = inspection;
  return html`<section class="part" aria-label=${title}>
    <h3>${title}</h3>
    ${source.size ? html`<p class="note">Source</p>
      <${Marked} tokens=${inspection.source.tokens} marked=${source} kind=${kind} />` : null}
    <p dir="auto" class="translation">${translation}</p>
    <${Marked} tokens=${target.tokens} marked=${marked} kind=${kind} />
    <${Beam} inspection=${inspection} others=${pathsOf(others.beam)} tryOut=${tryOut} />
  </section>`;
}

function Marked({ tokens, marked, kind }) {
  const element = kind === "gone" ? "del" : "ins";
  return html`<p class="tokens">${tokens.map((token, place) => marked.has(place)
    ? html`<${element} key=${place} class=${kind}><${Token} token=${token} /></${element}>`
    : html`<${Token} key=${place} token=${token} />`)}</p>`;
}

function signed(number) {
  return `${number > 0 ? "+" : ""}${fixed(number)}`;
}

/** The places of two lists that no longest common subsequence has. */
function differences(one, other) {
  const lengths = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let row = one.length - 1; row >= 0; row--) {
    for (let column = other.length - 1; column >= 0; column--) {
      lengths[row][column] = one[row] === other[column]
        ? lengths[row + 1][column + 1] + 1
        : Math.max(lengths[row + 1][column], lengths[row][column + 1]);
    }
  }
  const [gone, fresh] = [new Set(one.keys()), new Set(other.keys())];
  for (let row = 0, column = 0; row < one.length && column < other.length;) {
    if (one[row] === other[column]) {
      gone.delete(row++);
      fresh.delete(column++);
    } else if (lengths[row + 1][column] >= lengths[row][column + 1]) row++;
    else column++;
  }
  return [gone, fresh];
}
