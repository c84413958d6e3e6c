"use strict";

// One table of all timed cases.  Filters and order are in the address, so that a view can be sent to somebody.
const { names, words, rows } = JSON.parse(document.getElementById("cases").textContent);
const cases = rows.map((row) => Object.fromEntries(names.map((name, place) => [name, row[place]])));
for (const one of cases) {
  one.command = one.command.map((place) => words[place]).join(" ");
  one.keys = new Map(one.problem.split(";").map((word) => word.split("=")));
  one.text = [one.operation, one.direction, one.direction === "bwd" ? "backward" : "forward", one.dtype, one.problem,
    one.library].join(" ").toLowerCase();
}
const form = document.querySelector("form.filters");
const body = document.querySelector("table.found tbody");
const headings = [...document.querySelectorAll("table.found [data-column]")];
const more = document.getElementById("more");
const CHOICES = ["operation", "direction", "dtype", "gpu", "library"];
const TITLES = [...document.querySelectorAll("table.found th")].map((one) => one.textContent);
const FEW = 100;
const byText = new Intl.Collator("en", { numeric: true });
const NEAREST = 2; // distances of problems that are shown where none is the one asked for
let near = false;
let order = null; // [column, 1 or -1]
let all = false;

for (const name of CHOICES) {
  const values = [...new Set(cases.map((one) => one[name]))].sort(byText.compare);
  form.elements[name].append(new Option("all", ""), ...values.map((value) => new Option(value, value)));
}

function restore() {
  const state = new URLSearchParams(location.search);
  for (const name of [...CHOICES, "problem"]) form.elements[name].value = state.get(name) || "";
  for (const name of CHOICES) if (form.elements[name].selectedIndex < 0) form.elements[name].value = "";
  form.elements.fastest.checked = state.has("fastest");
  const [column, direction] = (state.get("sort") || "").split(".");
  if (headings.some((one) => one.dataset.column === column)) order = [column, direction === "down" ? -1 : 1];
}

function keep() {
  const state = new URLSearchParams();
  for (const name of [...CHOICES, "problem"]) if (form.elements[name].value) state.set(name, form.elements[name].value);
  if (form.elements.fastest.checked) state.set("fastest", "");
  if (order) state.set("sort", `${order[0]}.${order[1] < 0 ? "down" : "up"}`);
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
  let found = allowed.filter((one) => keys.every((word) => has(one, word)));
  near = !found.length && allowed.length > 0;
  if (near) {
    const far = new Map(allowed.map((one) => [one, distance(one, keys)]));
    const nearest = [...new Set([...far.values()].sort((a, b) => a - b))].slice(0, NEAREST);
    found = allowed.filter((one) => far.get(one) <= nearest.at(-1)).sort((a, b) => far.get(a) - far.get(b));
  }
  if (!order) return found;
  const [column, direction] = order;
  return found.sort((left, right) => {
    const a = left[column], b = right[column];
    if (a === null || b === null) return (a === null) - (b === null);
    return direction * (typeof a === "number" ? a - b : byText.compare(a, b));
  });
}

function cell(text, kind) {
  const one = document.createElement("td");
  if (kind) one.className = kind;
  one.append(text);
  return one;
}

function number(value, digits) {
  return cell(value === null ? "–" : digits === undefined ? String(Number(value.toPrecision(3))) : value.toFixed(digits), "number");
}

function line(one) {
  const row = document.createElement("tr");
  const link = document.createElement("a");
  link.className = "case";
  link.href = one.page;
  link.textContent = one.library;
  const copy = document.createElement("button");
  copy.type = "button";
  copy.textContent = "Copy";
  copy.title = one.command;
  copy.setAttribute("aria-label", `Copy the command of ${one.library}, ${one.problem}`);
  copy.addEventListener("click", () => copyText(one.command, copy));
  row.append(cell(`${one.operation} ${one.direction}, ${one.dtype}`), cell(one.problem.replaceAll(";", " ")),
    cell(link, one.fastest ? "winner" : ""), number(one.tflops), number(one.times_fastest, 3), number(one.roof_pct_datasheet, 1),
    number(one.roof_pct_measured, 1), number(one.latency_us), cell(one.rel_l2_error === null ? "–" : one.rel_l2_error.toExponential(1), "number"),
    cell(copy));
  [...row.cells].forEach((one, place) => { one.dataset.label = TITLES[place]; }); // a phone shows it before the number
  return row;
}

function show() {
  const found = chosen();
  const shown = all ? found : found.slice(0, FEW);
  body.replaceChildren(...shown.map(line));
  shown.forEach((one, place) => body.rows[place].classList.toggle("group", !order && place > 0 && one.problem !== shown[place - 1].problem));
  document.getElementById("found").textContent = near
    ? `No case has this shape. These ${found.length} are of the nearest shapes, the nearest first.`
    : `${found.length} of ${cases.length} cases${shown.length < found.length ? `, the first ${shown.length} shown` : ""}`;
  more.hidden = shown.length === found.length;
  for (const heading of headings) {
    const up = order && order[0] === heading.dataset.column ? order[1] : 0;
    const th = heading.closest("th");
    if (up) th.setAttribute("aria-sort", up > 0 ? "ascending" : "descending"); else th.removeAttribute("aria-sort");
  }
}

function changed() {
  all = false;
  keep();
  show();
}

form.addEventListener("input", changed);
form.addEventListener("submit", (event) => event.preventDefault());
more.addEventListener("click", () => { all = true; show(); });
for (const heading of headings) {
  heading.addEventListener("click", () => {
    const column = heading.dataset.column;
    const first = heading.closest("th").classList.contains("number") && !["latency_us", "rel_l2_error"].includes(column) ? -1 : 1;
    order = !order || order[0] !== column ? [column, first] : order[1] === first ? [column, -first] : null;
    changed();
  });
}
restore();
form.hidden = false;
document.querySelector("[aria-label=Cases]").hidden = false;
show();
