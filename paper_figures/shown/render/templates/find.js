"use strict";

// One table of all timed cases, by DataTables (tables.js): rows, order, pages.  Ours are the words of a shape, the
// nearest shapes where none is the one asked for, and an address that holds filters and order.
const { names, words, rows } = JSON.parse(document.getElementById("cases").textContent);
const cases = rows.map((row) => Object.fromEntries(names.map((name, place) => [name, row[place]])));
for (const one of cases) {
  one.command = one.command.map((place) => words[place]).join(" ");
  one.keys = new Map(one.problem.split(";").map((word) => word.split("=")));
  one.text = [one.operation, one.direction, one.direction === "bwd" ? "backward" : "forward", one.dtype, one.problem,
    one.library].join(" ").toLowerCase();
}
const form = document.querySelector("form.filters");
const CHOICES = ["operation", "direction", "dtype", "gpu", "library"];
const COLUMNS = [...document.querySelectorAll("table.found th")].map((one) => one.dataset.column);
const TITLES = [...document.querySelectorAll("table.found th")].map((one) => one.textContent);
const LEAST_FIRST = ["latency_us", "rel_l2_error"];
const NEAREST = 2; // distances of problems that are shown where none is the one asked for
let far = null; // of each case that is shown, where no problem is the one asked for

for (const name of CHOICES) {
  const values = [...new Set(cases.map((one) => one[name]))].sort(new Intl.Collator("en", { numeric: true }).compare);
  form.elements[name].append(new Option("all", ""), ...values.map((value) => new Option(value, value)));
}

// The order that the address asks for, as DataTables says it.
function restore() {
  const state = new URLSearchParams(location.search);
  for (const name of [...CHOICES, "problem"]) form.elements[name].value = state.get(name) || "";
  for (const name of CHOICES) if (form.elements[name].selectedIndex < 0) form.elements[name].value = "";
  form.elements.fastest.checked = state.has("fastest");
  const [column, direction] = (state.get("sort") || "").split(".");
  return COLUMNS.includes(column) ? [[COLUMNS.indexOf(column), direction === "down" ? "desc" : "asc"]] : [];
}

function keep(order) {
  const state = new URLSearchParams();
  for (const name of [...CHOICES, "problem"]) if (form.elements[name].value) state.set(name, form.elements[name].value);
  if (form.elements.fastest.checked) state.set("fastest", "");
  if (order.length) state.set("sort", `${COLUMNS[order[0][0]]}.${order[0][1] === "desc" ? "down" : "up"}`);
  const text = state.toString();
  history.replaceState(history.state, "", `${location.pathname}${text ? `?${text}` : ""}${location.hash}`);
}

// `N=3072 D=128 causal`: a key with a value is the problem's own; another word is a part of what the row says.
const isKey = (word) => /^\w+=\w/.test(word);
const has = (one, word) => (isKey(word) ? one.keys.get(word.split("=")[0]) === word.split("=")[1] : one.text.includes(word.toLowerCase()));

// How far a problem is from the one that was asked for: a factor of two in a key is one, a key that it lacks is three.
function distance(one, wanted) {
  return wanted.reduce((sum, word) => {
    const [key, value] = word.split("=");
    const factor = Math.abs(Math.log2(Number(one.keys.get(key)) / Number(value)));
    return sum + (has(one, word) ? 0 : Number.isFinite(factor) ? factor : 3);
  }, 0);
}

// Those with all that was asked for; where no problem has it, those of the nearest problems.
function chosen() {
  const wanted = form.elements.problem.value.split(/[\s;,]+/).filter(Boolean);
  const allowed = cases.filter((one) =>
    CHOICES.every((name) => !form.elements[name].value || String(one[name]) === form.elements[name].value) &&
    (!form.elements.fastest.checked || one.fastest) && wanted.every((word) => isKey(word) || has(one, word)));
  const keys = wanted.filter(isKey);
  const found = allowed.filter((one) => keys.every((word) => has(one, word)));
  far = null;
  if (found.length || !allowed.length) return new Set(found);
  far = new Map(allowed.map((one) => [one, distance(one, keys)]));
  const nearest = [...new Set(far.values())].sort((a, b) => a - b).slice(0, NEAREST).at(-1);
  return new Set(allowed.filter((one) => far.get(one) <= nearest));
}

function copyButton(one) {
  const copy = document.createElement("button");
  copy.type = "button";
  copy.textContent = "Copy";
  copy.title = one.command;
  copy.setAttribute("aria-label", `Copy the command of ${one.library}, ${one.problem}`);
  copy.addEventListener("click", () => copyText(one.command, copy));
  return copy;
}

function link(one) {
  const name = document.createElement("a");
  name.className = "case";
  name.href = one.page;
  name.textContent = one.library;
  return name;
}

// What stands in a cell; for the order of texts, numbers in them count as numbers.
const padded = (text) => text.replace(/\d+/g, (digits) => digits.padStart(9, "0"));
const text = (name, show) => ({ data: name, type: "string", render: (value, purpose, one) => (purpose === "display" ? show(one) : padded(value)) });
const number = (name, show) => ({
  data: name, type: "num", className: "number", orderSequence: LEAST_FIRST.includes(name) ? ["asc", "desc", ""] : ["desc", "asc", ""],
  render: (value, purpose) => (purpose === "display" ? (value === null ? "–" : show(value)) : value),
});
const three = (value) => String(Number(value.toPrecision(3)));
const columns = [
  text("operation", (one) => `${one.operation} ${one.direction}, ${one.dtype}`),
  text("problem", (one) => one.problem.replaceAll(";", " ")),
  text("library", link),
  number("tflops", three),
  number("times_fastest", (value) => value.toFixed(3)),
  number("roof_pct_datasheet", (value) => value.toFixed(1)),
  number("roof_pct_measured", (value) => value.toFixed(1)),
  number("latency_us", three),
  number("rel_l2_error", (value) => value.toExponential(1)),
  { data: "command", orderable: false, render: (value, purpose, one) => (purpose === "display" ? copyButton(one) : value) },
  { data: null, visible: false, type: "num", render: (value, purpose, one) => (far ? far.get(one) : 0) },
];

const order = restore();
let shown = chosen();
form.hidden = false;
document.querySelector("[aria-label=Cases]").hidden = false;
document.querySelector("table.found thead tr").append(document.createElement("th"));
const table = new DataTable("table.found", {
  data: cases, columns, order, orderMulti: false, orderFixed: { pre: [[columns.length - 1, "asc"]] },
  deferRender: true, autoWidth: false, pageLength: 100, lengthMenu: [100, 500, { label: "all", value: -1 }],
  layout: { topStart: null, topEnd: null, bottomStart: "pageLength", bottomEnd: "paging" },
  language: { lengthMenu: "_MENU_ rows a page", zeroRecords: "No case has all of this.", emptyTable: "No case has all of this." },
  createdRow(row, one) {
    [...row.cells].forEach((cell, place) => { cell.dataset.label = TITLES[place]; }); // a phone shows it before the number
    row.cells[2].classList.toggle("winner", Boolean(one.fastest));
  },
  drawCallback() {
    const now = this.api();
    const drawn = now.rows({ page: "current" });
    const problems = drawn.data().toArray().map((one) => one.problem);
    drawn.nodes().toArray().forEach((row, place) =>
      row.classList.toggle("group", !now.order().length && place > 0 && problems[place] !== problems[place - 1]));
    const { recordsDisplay: found, pages, page } = now.page.info();
    document.getElementById("found").textContent = far
      ? `No case has this shape. These ${found} are of the nearest shapes, the nearest first.`
      : `${found} of ${cases.length} cases${pages > 1 ? `, page ${page + 1} of ${pages}` : ""}`;
  },
});
table.search.fixed("chosen", (said, one) => shown.has(one)).draw();
table.on("order", () => keep(table.order()));

form.addEventListener("input", () => {
  const measured = far !== null;
  shown = chosen();
  keep(table.order());
  if (measured || far) table.rows().invalidate("data");
  table.draw();
});
form.addEventListener("submit", (event) => event.preventDefault());
