// Works on the inspector page in its tests: shows an inspection, uses the controls, and reads what is shown.

const pause = () => new Promise((done) => setTimeout(done)); // afterwards all changes are rendered
const paint = async () => { // afterwards all pictures are drawn
  await pause();
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  await pause();
};

const all = (selector, place = document) => [...place.querySelectorAll(selector)];
const textOf = (element) => element.textContent.trim().replace(/\s+/g, " ");
const view = () => document.getElementById("view");
const labelled = (name, place = document) => all("[aria-label]", place).find(
  (each) => each.getAttribute("aria-label") === name,
);

const requests = []; // what the page asked a model for: {options, answer, fail}

/** Show an inspection. isLive: a model can be asked; `requests` has what the page asks. */
async function start(table, { isLive = false, parameters = null } = {}) {
  const { decoded } = modules["data.js"];
  const ask = (options, signal, onProgress) => new Promise((resolve, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason));
    requests.push({
      options, onProgress,
      answer: (answer) => resolve(decoded(answer)),
      fail: (message) => reject(new Error(message)),
    });
  });
  const top = parameters === null ? undefined : modules["links.js"].top(new URLSearchParams(parameters));
  modules["report.js"].show(decoded(table), "A note. ", isLive ? ask : undefined, top);
  await paint();
}

/** Answer the last request, or fail it. */
async function settle(answer, message) {
  const { [requests.length - 1]: last } = requests;
  if (message) last.fail(message);
  else last.answer(answer);
  await paint();
}

async function press(element) {
  if (!element) throw new Error("There is no such element to press.");
  element.click();
  await pause();
}

const buttonNamed = (name, place = document) => all("button", place).find((each) => textOf(each) === name);
const button = (name, place = document) => press(buttonNamed(name, place));
const tab = async (name) => {
  await press(all("[role=tab]").find((each) => textOf(each) === name));
  await paint();
};

/** The control of a label. */
const field = (name, place = document) => all("label", place).find(
  (label) => textOf(label).startsWith(name),
).querySelector("select, input");

async function give(control, value) {
  if (control.type === "checkbox") return press(control);
  control.value = String(value);
  control.dispatchEvent(new Event(control.type === "range" || control.type === "text" ? "input" : "change", {
    bubbles: true,
  }));
  await pause();
  return undefined;
}

async function key(name, element = document.activeElement) {
  const event = new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true });
  element.dispatchEvent(event);
  await pause();
  return event.defaultPrevented;
}

/** Open all tables of a place: they are made when they are opened. */
async function openTables(place = view()) {
  for (const details of all("details.numbers", place)) details.open = true;
  for (let turn = 0; turn < 50 && all("details.numbers", place).some((each) => !each.querySelector("table"));
    turn++) await pause();
}

const cellsOf = (row) => [...row.children].map(textOf);

/** Tables of numbers: [title, head, rows]. */
function tablesOf(place = view()) {
  return all("details.numbers[open]", place).map((details) => [
    textOf(details.querySelector("summary")), cellsOf(details.querySelector("thead tr")),
    all("tbody tr", details).map(cellsOf),
  ]);
}

/** The number of a style, such as a width in percent. */
const styleOf = (element, name) => parseFloat(element.style.getPropertyValue(name));

/** Tables of bars: {caption, rows: [name, width in percent, number]}. */
function barsOf(place = view()) {
  return all("table.bars", place).map((table) => ({
    caption: textOf(table.querySelector("caption")),
    rows: all("tr", table).map((row) => {
      const bar = row.querySelector(".bar div");
      return [textOf(row.querySelector("th")), bar && styleOf(bar, "width"), textOf(row.lastElementChild),
        row.lastElementChild.title];
    }),
  }));
}

const factsOf = (place = view()) => Object.fromEntries(all(".facts > div", place).map((each) =>
  [textOf(each.querySelector("dt")), textOf(each.querySelector("dd"))]));

/** The colours of a canvas, by rows, as numbers. */
function coloursOf(canvas) {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return Array.from({ length: data.length / 4 }, (_, place) => [...data.slice(4 * place, 4 * place + 3)]);
}

/** The colours of the legend, and its marks: the place in percent and the text. */
const legendOf = (place = view()) => all(".legend", place).map((legend) => ({
  name: textOf(legend.firstElementChild),
  colours: coloursOf(legend.querySelector("canvas")),
  marks: all(".marks span", legend).map((mark) => [styleOf(mark, "left"), textOf(mark)]),
}));

const names = (selector, place) => all(`${selector} > span`, place).map(textOf);

/** The heat maps with names. count: of the cells that are pointed at, spread over the map. */
async function mapsOf(count, place = view()) {
  const maps = [];
  for (const map of all(".labelled", place)) {
    const canvas = map.querySelector("canvas");
    const readouts = [];
    const cells = canvas.width * canvas.height;
    for (let turn = 0; turn < Math.min(count, cells); turn++) {
      const cell = (turn * (7 * canvas.width + 1) + cells - 1) % cells;
      readouts.push([cell, ...await pointAt(map, cell)]);
    }
    canvas.dispatchEvent(new PointerEvent("pointerleave"));
    await pause();
    maps.push({
      label: canvas.getAttribute("aria-label"), role: canvas.getAttribute("role"),
      corner: all(".corner span", map).map(textOf),
      rows: names(".row-names", map), columns: names(".column-names", map),
      colours: coloursOf(canvas), readouts, silent: textOf(map.querySelector(".readout")),
    });
  }
  return maps;
}

/** The readout of a cell of a heat map, and the numbers of the rows and columns that are marked. */
async function pointAt(map, cell) {
  const canvas = map.querySelector("canvas");
  moveTo(canvas, Math.floor(cell / canvas.width), cell % canvas.width);
  await pause();
  const marked = (selector) => all(`${selector} > span`, map).flatMap(
    (each, place) => (each.classList.contains("on") ? [place] : []),
  );
  return [textOf(map.querySelector(".readout")), marked(".row-names"), marked(".column-names")];
}

function moveTo(canvas, row, column) {
  const box = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new PointerEvent("pointermove", {
    clientX: box.left + ((column + 0.5) * box.width) / canvas.width,
    clientY: box.top + ((row + 0.5) * box.height) / canvas.height,
    bubbles: true,
  }));
}

/** What is wrong with the roles of a place: each composite has one stop of the tab key and one choice. */
function faultsOf(place = document) {
  const faults = [];
  const check = (name, number) => number === 1 || faults.push(`${name}: ${number}`);
  for (const [composite, item] of [["tablist", "tab"], ["grid", "gridcell"], ["tree", "treeitem"]]) {
    for (const each of all(`[role=${composite}]`, place)) {
      const name = each.getAttribute("aria-label");
      const items = all(`[role=${item}]`, each);
      check(`stops of ${name}`, items.filter((one) => one.tabIndex === 0).length);
      check(`choices of ${name}`, items.filter((one) => one.getAttribute("aria-selected") === "true").length);
      if (item === "gridcell") {
        for (const one of items) if (!one.getAttribute("aria-label")) faults.push(`a cell of ${name}`);
      }
    }
  }
  for (const each of all(".choice", place)) {
    const buttons = all("button", each);
    if (buttons.length < 2) continue;
    check(`pressed of ${each.getAttribute("aria-label")}`,
      buttons.filter((one) => one.getAttribute("aria-pressed") === "true").length);
  }
  const panel = view();
  const chosen = document.querySelector("[role=tab][aria-selected=true]");
  if (panel.getAttribute("aria-labelledby") !== chosen.id) faults.push("the label of the view");
  if (chosen.getAttribute("aria-controls") !== "view") faults.push("what the tab controls");
  return faults;
}

/** All that a view shows. points: in each heat map; without any, the tables of numbers stay closed. */
async function shown(state, points = 3) {
  if (points > 0) await openTables();
  await paint();
  return {
    state, text: textOf(view()), tables: tablesOf(), bars: barsOf(), facts: factsOf(), legends: legendOf(),
    maps: await mapsOf(points), faults: faultsOf(), headings: all("h3", view()).map(textOf),
  };
}

/** The lines between two columns: [left, right, opacity, class], and the names of the buttons. */
function linesOf(place) {
  const height = 26;
  return {
    lines: all(".lines line", place).map((line) => [
      Number(line.getAttribute("y1")) / height - 0.5, Number(line.getAttribute("y2")) / height - 0.5,
      Number(line.getAttribute("stroke-opacity")), line.getAttribute("class").trim(),
    ]),
    buttons: all(".lines ol", place).map((list) => all("button", list).map(
      (each) => each.getAttribute("aria-label"),
    )),
    heads: all(".lines > p", place).map(textOf),
  };
}

const KIND_NAMES = {
  encoder: "Encoder self-attention", decoder: "Decoder self-attention", cross: "Encoder-decoder attention",
};

/** The attention view in the states {kind, unit, order, place, query, full}. */
async function attentionStates(states) {
  await tab("Attention");
  const found = [];
  for (const state of states) {
    if (buttonNamed(KIND_NAMES[state.kind])) await button(KIND_NAMES[state.kind]);
    if (state.unit) await button(state.unit === "words" ? "Words" : "Tokens");
    await give(field("Order"), state.order);
    await press(all("[role=gridcell]")[state.place]);
    const query = labelled("One query in numbers");
    if (query && state.query !== undefined && query.querySelector("select")) {
      await give(query.querySelector("select"), state.query);
    }
    const head = labelled("The head");
    await button("Lines", head);
    const lines = linesOf(head);
    await button("Lines of the layer's heads", head);
    const layerLines = linesOf(head);
    await button("Heat map", head);
    const alignment = labelled("Word alignment");
    found.push({
      ...await shown(state, 2), lines, layerLines,
      alignment: alignment ? linesOf(alignment) : null,
      chosen: all("[role=gridcell]").findIndex((each) => each.getAttribute("aria-selected") === "true"),
      cells: all("[role=gridcell]").map((each) => each.getAttribute("aria-label")),
      title: textOf(head.querySelector("h3")),
      small: all("[role=gridcell] canvas").map((each) => [each.width, each.height, coloursOf(each)]),
      query: query ? {
        text: textOf(query), label: query.querySelector("label") && textOf(query.querySelector("label")),
        head: all("thead th", query).map(textOf), rows: all("tbody tr", query).map(cellsOf),
        bars: all(".under span", query).map((bar) => styleOf(bar, "width")),
      } : null,
    });
  }
  return found;
}

/** Do one thing: [what, …arguments]. */
async function act([what, name, value]) {
  if (what === "tab") await tab(name);
  if (what === "button") await button(name);
  if (what === "give") await give(field(name), value);
  if (what === "cell") await press(all("[role=gridcell]", view())[name]);
  if (what === "press") await press(all(name)[value ?? 0]);
  if (what === "key") await key(name, value ? document.querySelector(value) : undefined);
  if (what === "window") {
    const inputs = all("[aria-label=Window] input");
    await give(inputs[0], name);
    await give(all("[aria-label=Window] input")[1], value);
  }
  if (what === "paint") await paint();
}

const numbersIn = (text) => text.split(/[ ,]+/).filter(Boolean).map(Number);

/** What else a view shows. */
function drawnIn(place = view()) {
  return {
    cells: all("[role=gridcell]", place).map((cell) => {
      const bar = cell.querySelector(".under span");
      return [cell.getAttribute("aria-label"), cell.getAttribute("aria-selected") === "true",
        bar && styleOf(bar, "width"), cell.firstElementChild.className.trim()];
    }),
    columns: all("[role=columnheader]", place).map(textOf),
    rows: all("[role=rowheader]", place).map(textOf),
    plots: all("svg.plot", place).map((plot) => ({
      label: plot.getAttribute("aria-label"), size: numbersIn(plot.getAttribute("viewBox")).slice(2),
      curves: all("polyline", plot).map((each) => [each.getAttribute("class"),
        numbersIn(each.getAttribute("points"))]),
      bands: all("polygon", plot).map((each) => numbersIn(each.getAttribute("points"))),
      marks: all("circle", plot).map((each) => ["cx", "cy"].map((name) => Number(each.getAttribute(name)))),
      heights: all("text[text-anchor=end]", plot).filter((each) => Number(each.getAttribute("x")) < 70).map(
        (each) => [textOf(each), Number(each.getAttribute("y")) - 4],
      ),
    })),
    stacks: all(".stack", place).map((stack) => all("span", stack).map(
      (each) => [parseFloat(each.style.flexBasis), textOf(each), each.title],
    )),
    activations: all(".activations li", place).map(
      (each) => [each.className, styleOf(each, "--share"), all(".token, small", each).map(textOf)],
    ),
    effects: all(".effects tbody", place).map((body) => all("tr", body).map((row) => [...row.children].map(
      (each) => [textOf(each), each.className, styleOf(each, "--share")],
    ))),
    figure: all(".figure .column", place).map((column) => [
      textOf(column.querySelector(".times")),
      all(".box", column).map((box) => all("b, .box > span, summary > span", box).map(textOf)),
    ]),
    options: all("label", place).filter((each) => each.querySelector("select")).map((each) => [
      textOf(each).split(" ")[0], all("option", each).map(textOf), each.querySelector("select").value,
    ]),
  };
}

/** The view after each list of things to do. */
async function walk(lists, points = 2) {
  const found = [];
  for (const actions of lists) {
    for (const action of actions) await act(action);
    await paint();
    found.push({ ...await shown(actions, points), ...drawnIn() });
  }
  return found;
}

/** The tree of a search, and the hypothesis that is shown below it. place: of the tree, on the page. */
function treeIn(place = view()) {
  const tree = place.querySelector("[role=tree]");
  const hypothesis = labelled("The hypothesis", place);
  const group = tree.querySelector("svg g").getAttribute("transform");
  return {
    step: textOf(place.querySelector("output")),
    nodes: all("[role=treeitem]", tree).map((each) => ({
      number: Number(each.dataset.number), left: styleOf(each, "left"), top: styleOf(each, "top"),
      level: Number(each.getAttribute("aria-level")), label: each.getAttribute("aria-label"),
      isSelected: each.getAttribute("aria-selected") === "true", isStop: each.tabIndex === 0,
      text: textOf(each), classes: each.className.split(" ").filter(Boolean),
    })),
    shift: Number(/-?\d+/.exec(group)[0]),
    edges: all("svg path", tree).map((each) => [each.getAttribute("class").split(" ").filter(Boolean),
      each.getAttribute("d").match(/-?[\d.]+/g).map(Number)]),
    size: ["width", "height"].map((name) => styleOf(tree, name)),
    title: textOf(hypothesis.querySelector("h3")), tokens: all(".tokens .token", hypothesis).map(textOf),
    facts: factsOf(hypothesis), bars: barsOf(hypothesis), text: textOf(hypothesis),
    key: all("p.key > span", place).map(textOf),
  };
}

/** Do one thing with a tree. */
async function actInTree([what, name], place = view()) {
  const node = (number) => place.querySelector(`[role=treeitem][data-number="${number}"]`);
  if (what === "node") await press(node(name));
  else if (what === "hover") node(name).dispatchEvent(new PointerEvent("pointerenter"));
  else if (what === "leave") {
    place.querySelector("[role=tree]").dispatchEvent(new PointerEvent("pointerleave"));
  } else if (what === "key") await key(name, place.querySelector("[role=treeitem][tabindex='0']"));
  else await act([what, ...[name].flat()]);
  await paint();
}

async function walkInTree(lists) {
  const found = [];
  for (const actions of lists) {
    for (const action of actions) await actInTree(action);
    found.push(treeIn());
  }
  return found;
}

/** Where the selection of a composite is after a key at each of these places: [place, key, place after]. */
async function afterKeys(item, attribute, places, keys) {
  const found = [];
  const at = (place) => document.querySelector(`[role=${item}][${attribute}="${place}"]`);
  for (const place of places) {
    for (const name of keys) {
      at(place).focus();
      await press(at(place));
      const isHandled = await key(name, at(place));
      await pause();
      const { activeElement: focused } = document;
      found.push([place, name, Number(focused.getAttribute(attribute)), focused.tabIndex, isHandled,
        all(`[role=${item}][aria-selected=true]`).map((each) => Number(each.getAttribute(attribute)))]);
    }
  }
  return found;
}

/** The heat maps after these things are done. */
async function walkMaps(actions) {
  for (const action of actions) await act(action);
  await paint();
  return mapsOf(2);
}

const optionsOf = (select) => all("option", select).map((each) => [each.value, textOf(each)]);

/** All groups of the form of changes: the name, the parts, the values, and the suggestions by part. */
async function groupsOf() {
  const form = labelled("Changes");
  const select = (name) => field(name, form);
  const groups = [];
  for (const [group, name] of optionsOf(select("What"))) {
    await give(select("What"), group);
    const parts = optionsOf(select("Which"));
    const hasValues = Boolean(all("label", form).find((each) => textOf(each).startsWith("Change")));
    const suggestions = [];
    if (!hasValues) {
      for (const [part] of parts) {
        await give(select("Which"), part);
        suggestions.push(all("#likely option").map((each) => each.value));
      }
    }
    groups.push([name, parts, hasValues ? optionsOf(select("Change")) : null, suggestions]);
  }
  return groups;
}

/** What the view of what-ifs shows. */
function comparison() {
  const part = (name) => {
    const place = labelled(name, view());
    if (!place) return null;
    return {
      text: textOf(place.querySelector(".translation")), tree: treeIn(place),
      tokens: all("p.tokens", place).filter((each) => !each.closest(".hypothesis")).map(
        (line) => [...line.children].map((each) => [each.localName, textOf(each)]),
      ),
    };
  };
  return {
    view: textOf(view().querySelector("h2")), status: all("[role=status]", view()).map(textOf),
    alert: all("[role=alert]", view()).map(textOf), facts: factsOf(view().querySelector(".facts") ?? view()),
    codes: all("code", view()).filter((each) => !each.closest(".lab")).map(textOf),
    before: part("Before"), after: part("After"), cases: all(".case option", view()).map(textOf),
    added: all(".added button").map((each) => each.ariaLabel),
    busy: all("button[aria-disabled]").map((each) => [textOf(each), each.getAttribute("aria-disabled")]),
  };
}
