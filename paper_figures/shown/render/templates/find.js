"use strict";

// All timed cases in a table of the library DataTables (tables.js), which draws, sorts, filters and turns its pages.  What it
// does not know is here: the words of a shape, the shapes nearest to it, and a view's address.
const { names, words, rows } = JSON.parse(document.getElementById("cases").textContent);
const cases = rows.map((row) => Object.fromEntries(names.map((name, place) => [name, row[place]])));
for (const one of cases) {
  one.command = one.command.map((place) => words[place]).join(" ");
  one.far = 0; // from the shape that was asked for
  one.keys = new Map(one.problem.toLowerCase().split(";").map((word) => word.split("=")));
  one.text = [one.operation, one.direction, one.direction === "bwd" ? "backward" : "forward", one.dtype, one.problem,
    one.library].join(" ").toLowerCase();
}
const form = document.querySelector("form.filters");
const region = document.querySelector("[aria-label=Cases]");
const titles = [...document.querySelectorAll("table.found th")].map((one) => one.textContent);
const CHOICES = ["operation", "direction", "dtype", "gpu", "library"];
const FEW = 100;
const NEAREST = 2; // distances of problems that are shown where none is the one asked for
const byText = new Intl.Collator("en", { numeric: true });

// A case without a number is last in either direction.
const inOrder = (way) => (a, b) => a === null || b === null ? (a === null) - (b === null)
  : way * (typeof a === "number" ? a - b : byText.compare(a, b));
DataTable.type("ours", { order: { asc: inOrder(1), desc: inOrder(-1) } });

function element(name, text, also) {
  return Object.assign(document.createElement(name), { textContent: text }, also);
}

function copyButton(command, one) {
  const copy = element("button", "Copy", { type: "button", title: command });
  copy.setAttribute("aria-label", `Copy the command of ${one.library}, ${one.problem}`);
  copy.addEventListener("click", () => copyText(command, copy));
  return copy;
}

// `show`: the value as the table has it; order and filters take the value itself.
const column = (data, show, also) => ({ data, name: data, type: "ours", orderSequence: ["asc", "desc", ""],
  render: (value, use, one) => (use === "display" ? show(value, one) : value), ...also });
const number = (data, show, first = "desc") => column(data, (value, one) => (value === null ? "–" : show(value, one)),
  { className: "number", orderSequence: [first, first === "asc" ? "desc" : "asc", ""] });
const hidden = (data) => column(data, String, { visible: false });
const three = (value) => String(Number(value.toPrecision(3)));

const table = new DataTable("table.found", {
  data: cases,
  autoWidth: false,
  order: [],
  pageLength: FEW,
  lengthMenu: [FEW, 500, { label: "all", value: -1 }],
  layout: { topStart: null, topEnd: null, bottomStart: ["info", "pageLength"], bottomEnd: "paging" },
  language: { info: "Cases _START_ to _END_ of _TOTAL_", infoFiltered: "", thousands: "", lengthMenu: "Cases a page _MENU_", zeroRecords: "No case is like this." },
  columnDefs: [{ targets: "_all", createdCell: (cell, text, one, row, place) => { cell.dataset.label = titles[place]; } }],
  columns: [
    column("operation", (value, one) => `${value} ${one.direction}, ${one.dtype}`),
    column("problem", (value) => value.replaceAll(";", " ")),
    column("library", (value, one) => element("a", value, { className: "case", href: one.page })),
    number("tflops", (value, one) => three(value) + one.mark),
    number("times_fastest", (value) => value.toFixed(3)),
    number("roof_pct_datasheet", (value) => value.toFixed(1)),
    number("roof_pct_measured", (value) => value.toFixed(1)),
    number("latency_us", three, "asc"),
    number("rel_l2_error", (value) => value.toExponential(1), "asc"),
    column("command", copyButton, { orderable: false }),
    ...["direction", "dtype", "gpu", "best", "far"].map(hidden),
  ],
  orderFixed: { post: [14, "asc"] }, // the nearest shapes first
  createdRow: (row, one) => row.cells[2].classList.toggle("winner", one.fastest),
});
document.getElementById("pages").append(...table.table().container().querySelectorAll(".dt-info, .dt-length, .dt-paging"));

for (const name of CHOICES) {
  const values = [...new Set(cases.map((one) => one[name]))].sort(byText.compare);
  form.elements[name].append(new Option("all", ""), ...values.map((value) => new Option(value, value)));
}

// What may be typed, as a case has it: one of causal attention backward where there is one.
const example = cases.find((one) => one.direction === "bwd" && one.keys.has("causal")) || cases[0];
if (example) {
  const way = example.direction === "bwd" ? "backward" : "forward";
  form.elements.problem.placeholder = `${example.problem.replaceAll(";", " ")} ${way}`;
}

function restore() {
  const state = new URLSearchParams(location.search);
  for (const name of [...CHOICES, "problem"]) form.elements[name].value = state.get(name) || "";
  for (const name of CHOICES) if (form.elements[name].selectedIndex < 0) form.elements[name].value = "";
  form.elements.fastest.checked = state.has("fastest");
  const [name, way] = (state.get("sort") || "").split(".");
  const place = table.column(`${name}:name`).index();
  if (name && place !== undefined) table.order([[place, way === "down" ? "desc" : "asc"]]);
}

const ordered = () => table.order().filter(([place, way]) => way && table.column(place).visible());

function keep() {
  const state = new URLSearchParams();
  for (const name of [...CHOICES, "problem"]) if (form.elements[name].value) state.set(name, form.elements[name].value);
  if (form.elements.fastest.checked) state.set("fastest", "");
  for (const [place, way] of ordered()) state.set("sort", `${table.column(place).dataSrc()}.${way === "desc" ? "down" : "up"}`);
  const text = state.toString();
  history.replaceState(history.state, "", `${location.pathname}${text ? `?${text}` : ""}${location.hash}`);
}

// `N=3072 D=128 causal`: a key with a value is the problem's own; another word is a part of what the row says.
const isKey = (word) => /^\w+=\w/.test(word);
const has = (one, word) => (isKey(word) ? one.keys.get(word.split("=")[0]) === word.split("=")[1] : one.text.includes(word));

// What to say of a key that no case is near: none has it, or none its value, which is no number.  Empty where one is.
function unknown(word, within) {
  const key = word.split("=")[0];
  const having = within.filter((one) => one.keys.has(key));
  if (having.some((one) => Number.isFinite(farFrom(one, word)))) return "";
  const there = having.length ? having.map((one) => one.keys.get(key))
    : within.flatMap((one) => one.problem.split(";").map((own) => own.split("=")[0]));
  return `No ${having.length ? word : `key ${key}`}: there is ${[...new Set(there)].sort(byText.compare).join(", ")}.`;
}

// A factor of two in a key is one; no number where either has none.
function farFrom(one, word) {
  const [key, value] = word.split("=");
  return has(one, word) ? 0 : Math.abs(Math.log2(Number(one.keys.get(key)) / Number(value)));
}

// How far a problem is from the one that was asked for: a key that it lacks counts three.
function distance(one, wanted) {
  return wanted.map((word) => farFrom(one, word)).reduce((sum, far) => sum + (Number.isFinite(far) ? far : 3), 0);
}

function measure(keys) {
  let changed = false;
  for (const one of cases) {
    const far = distance(one, keys);
    changed ||= far !== one.far;
    one.far = far;
  }
  if (changed) table.rows().invalidate();
}

// The cases that pass the filters and the test, which the table shows from then on.
const found = (test) => table.search.fixed("shape", (text, one) => test(one)).draw().rows({ search: "applied" }).data().toArray();

// Where no case has all that was asked for: those of the nearest problems, or what none has; with what to say.
function instead(wanted, keys) {
  const within = found(() => true);
  const without = within.length ? keys.map((word) => unknown(word, within)).filter(Boolean) : [];
  if (without.length) return [found(() => false), without.join(" ")];
  measure(keys);
  const others = wanted.filter((word) => !isKey(word));
  const allowed = found((one) => others.every((word) => has(one, word)));
  const nearest = [...new Set(allowed.map((one) => one.far))].sort((a, b) => a - b).slice(0, NEAREST);
  const shown = found((one) => one.far <= nearest.at(-1) && others.every((word) => has(one, word)));
  return [shown, shown.length ? `No case has this shape. These ${shown.length} are of the nearest shapes, the nearest first.` : ""];
}

// Those with all that was asked for, or what is shown instead.
function show() {
  for (const name of CHOICES) table.column(`${name}:name`).search(form.elements[name].value, { exact: true });
  table.column("best:name").search(form.elements.fastest.checked ? "true" : "");
  const wanted = form.elements.problem.value.toLowerCase().replace(/\s*=\s*/g, "=").split(/[\s;,]+/).filter(Boolean);
  const keys = wanted.filter(isKey);
  measure([]);
  let shown = found((one) => wanted.every((word) => has(one, word)));
  let said = "";
  if (!shown.length && keys.length) [shown, said] = instead(wanted, keys);
  document.getElementById("found").textContent = said || `${shown.length} of ${cases.length} cases`;
  document.getElementById("pages").hidden = shown.length <= FEW;
}

restore();
table.on("draw", () => {
  const nodes = table.rows({ page: "current" }).nodes().toArray();
  const problems = table.rows({ page: "current" }).data().toArray().map((one) => one.problem);
  nodes.forEach((row, place) => row.classList.toggle("group", !ordered().length && place > 0 && problems[place] !== problems[place - 1]));
});
form.addEventListener("input", () => { show(); keep(); });
form.addEventListener("submit", (event) => event.preventDefault());
form.hidden = false;
region.hidden = false;
show();
table.on("order", keep);
table.on("page", () => region.scrollIntoView());
openTarget(); // the case of the address is in the table now
