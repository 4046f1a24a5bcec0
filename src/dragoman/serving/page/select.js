// A choice of one of several things: a menu, or where there are many a field that finds them by their names.

import { html, useRef } from "./vendor/preact.js";

const MANY = 12;

export function Select(props) {
  return props.options.length > MANY ? html`<${Finder} ...${props} />` : html`<${Menu} ...${props} />`;
}

function Menu({ label, options, value, choose }) {
  return html`<span class="select">
    <select aria-label=${label} value=${value} onChange=${(event) => choose(event.target.value)}
      disabled=${!options.length}>
      ${options.map(({ code, name }) =>
        html`<option key=${code} value=${code} selected=${code === value}>${name}</option>`)}
    </select>
  </span>`;
}

/** The field is empty while one writes, so that the browser lists all names; left without one of them, it has the
 * former name again. */
function Finder({ label, options, value, choose }) {
  const field = useRef();
  const chosen = options.find(({ code }) => code === value)?.name ?? "";
  const id = `names-${label}`.replace(/\s/g, "-");
  const onChange = () => {
    const typed = field.current.value.trim().toLowerCase();
    const fitting = options.filter(({ name }) => name.toLowerCase().includes(typed));
    const isOne = typed && fitting.length === 1;
    const found = fitting.find(({ name }) => name.toLowerCase() === typed) ?? (isOne ? fitting[0] : null);
    if (found && found.code !== value) choose(found.code);
    field.current.value = found ? found.name : chosen;
  };
  return html`<span class="select find">
    <input ref=${field} aria-label=${label} list=${id} value=${chosen} placeholder=${chosen} autocomplete="off"
      spellcheck="false" onFocus=${() => (field.current.value = "")} onBlur=${onChange} onChange=${onChange} />
    <datalist id=${id}>${options.map(({ code, name }) => html`<option key=${code} value=${name} />`)}</datalist>
  </span>`;
}
