"use strict";

// Tables sort by the column whose heading is pressed: ascending, descending, then as the page has them.
const collator = new Intl.Collator("en", { numeric: true });

function sortValue(cell, numeric) {
  const text = (cell.querySelector("a, .badge") || cell.firstChild || cell).textContent.trim();
  if (!numeric) return text;
  const value = parseFloat(text);
  return Number.isNaN(value) ? null : value;
}

function sortRows(rows, column, numeric, direction) {
  const keyed = rows.map((row) => [sortValue(row.cells[column], numeric), row]);
  keyed.sort(([left], [right]) => {
    if (left === null || right === null) return (left === null) - (right === null); // without a number: last
    return direction * (numeric ? left - right : collator.compare(left, right));
  });
  return keyed.map(([, row]) => row);
}

for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const before = heading.getAttribute("aria-sort");
      const next = { ascending: "descending", descending: null }[before];
      const order = before === null ? "ascending" : next;
      headings.forEach((one) => one.removeAttribute("aria-sort"));
      if (order) heading.setAttribute("aria-sort", order);
      table.classList.toggle("sorted", Boolean(order));
      const numeric = heading.classList.contains("number");
      body.append(...(order ? sortRows(original, column, numeric, order === "ascending" ? 1 : -1) : original));
    });
  });
}

// A table is one stop of the Tab key; the arrow keys move between the cases in it.
for (const table of document.querySelectorAll("table")) {
  table.querySelectorAll("a.case").forEach((link, index) => { link.tabIndex = index ? -1 : 0; });
}

function neighbour(link, key) {
  const cell = link.closest("td");
  const inRow = (row) => [...row.querySelectorAll("a.case")];
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const links = inRow(cell.parentElement);
    return links[links.indexOf(link) + (key === "ArrowRight" ? 1 : -1)];
  }
  const down = key === "ArrowDown";
  for (let row = cell.parentElement; row; ) {
    row = down ? row.nextElementSibling : row.previousElementSibling;
    const links = row ? inRow(row) : [];
    const same = links.find((one) => one.closest("td").cellIndex >= cell.cellIndex) || links[links.length - 1];
    if (same) return same;
  }
  return undefined;
}

addEventListener("keydown", (event) => {
  const link = event.target.closest && event.target.closest("td a.case");
  if (!link || !/^Arrow/.test(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
  const next = neighbour(link, event.key);
  if (!next) return;
  event.preventDefault();
  const table = link.closest("table");
  table.querySelectorAll('a.case[tabindex="0"]').forEach((one) => { one.tabIndex = -1; });
  next.tabIndex = 0;
  next.focus();
});

// A case opens over the page, in a frame, because a page from disk may show other files and not read them.
const dialog = document.createElement("dialog");
dialog.setAttribute("aria-labelledby", "case-title");
dialog.innerHTML = '<div class="title"><h2 id="case-title"></h2><a target="_blank" rel="noopener">As a page of its own</a>' +
  '<button type="button">Close</button></div>';
document.body.append(dialog);
let opener = null; // where the focus goes back to
let stepped = false; // whether opening it added an entry to the history, so that Back closes it

function caseLink(key) {
  const [, page, place] = /^(\w+-\d+)-(\w+)$/.exec(key) || [];
  return page ? document.querySelector(`a.case[href$="cases/${page}.html#${place}"]`) : null;
}

function caseTitle(link) {
  const row = link.closest("tr");
  if (!row) return (link.getAttribute("aria-label") || link.textContent).trim().split("\n")[0];
  const text = (cell) => (cell.querySelector("a, button, .badge") || cell.firstChild || cell).textContent.trim();
  const table = row.closest("table");
  if (table.classList.contains("found")) return [row.cells[2], row.cells[0], row.cells[1]].map(text).join(", ");
  if (!table.classList.contains("wide")) return [...row.cells].slice(0, 2).map(text).join(", ");
  return [row.cells[0], table.tHead.rows[0].cells[link.closest("td").cellIndex]].map(text).join(", ");
}

function openCase(link) {
  const file = link.getAttribute("href");
  dialog.querySelector("h2").textContent = caseTitle(link);
  dialog.querySelector("a").setAttribute("href", file);
  const frame = document.createElement("iframe"); // a new one each time: it adds nothing to the history
  frame.title = "The case";
  frame.src = file;
  const old = dialog.querySelector("iframe");
  if (old) old.remove();
  dialog.append(frame);
  if (!dialog.open) dialog.showModal();
}

dialog.querySelector("button").addEventListener("click", () => dialog.close());
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
dialog.addEventListener("close", () => {
  const frame = dialog.querySelector("iframe");
  if (frame) frame.remove();
  if (location.hash.startsWith("#case-")) {
    if (stepped) history.back();
    else history.replaceState(null, "", "#");
  }
  stepped = false;
  if (opener) opener.focus({ preventScroll: true });
});
addEventListener("message", (event) => {
  const frame = dialog.querySelector("iframe");
  if (frame && event.source === frame.contentWindow && event.data === "close") dialog.close();
});

// Anywhere in the cell will do; with a modifier key or the middle button it is a link like any other.
addEventListener("click", (event) => {
  if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || event.defaultPrevented) return;
  const link = event.target.closest("a.case") ||
    (!event.target.closest("a, button") && getSelection().isCollapsed && (event.target.closest("td") || document.body)
      .querySelector(":scope > a.case"));
  if (!link) return;
  event.preventDefault();
  const hash = `#case-${link.getAttribute("href").replace(/^.*\//, "").replace(".html#", "-")}`;
  opener = link;
  stepped = location.hash !== hash;
  if (stepped) location.hash = hash; // which opens it
  else openCase(link);
});

// A link to a claim, a run or a case opens it.
function openTarget(event) {
  const name = decodeURIComponent(location.hash.slice(1));
  const link = name.startsWith("case-") && caseLink(name.slice(5));
  if (link) {
    if (!opener || opener.getAttribute("href") !== link.getAttribute("href")) opener = link;
    openCase(opener);
    return;
  }
  if (dialog.open) dialog.close();
  if (event && event.oldURL.includes("#case-") && event.newURL === before) return; // back from a case: stay there
  const target = name && document.getElementById(name);
  for (let one = target && target.closest("details"); one; one = one.parentElement.closest("details")) one.open = true;
  if (target) target.scrollIntoView();
}
let before = ""; // the address that a case was opened from
addEventListener("hashchange", (event) => {
  if (event.newURL.includes("#case-") && !event.oldURL.includes("#case-")) before = event.oldURL;
  openTarget(event);
});
openTarget();

// The menu closes when one looks elsewhere.
const menu = document.querySelector("details.menu");
if (menu) {
  addEventListener("click", (event) => { if (!menu.contains(event.target)) menu.open = false; });
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}

// Commands can be copied.
async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // a page from disk may not be allowed to
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.textContent = "Copied";
}
for (const box of document.querySelectorAll(".again")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", () => copyText(box.querySelector("code").textContent, button));
  box.append(button);
}
