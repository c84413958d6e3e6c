"use strict";

// Charts answer: a bar says its numbers, the legend takes contestants out, buttons change the unit.  The bars carry
// their numbers and the figure its scales, so that nothing is worked out here but where a bar stands.
const UNITS = { v: "TFLOPS", p: "% of the roof" };
const SVG = "http://www.w3.org/2000/svg";

const answer = document.createElement("div");
answer.className = "answer";
answer.hidden = true;
document.body.append(answer);

function ask(bar) {
  const [first, ...rest] = bar.getAttribute("aria-label").split("\n");
  answer.replaceChildren(...[first, ...rest].map((text, place) => {
    const row = document.createElement(place ? "span" : "b");
    row.textContent = text;
    return row;
  }));
  answer.hidden = false;
  const at = bar.getBoundingClientRect(), own = answer.getBoundingClientRect();
  const left = Math.min(Math.max(8, at.left + at.width / 2 - own.width / 2), document.documentElement.clientWidth - own.width - 8);
  const above = at.top - own.height - 8;
  answer.style.left = `${left + scrollX}px`;
  answer.style.top = `${(above > 0 ? above : at.bottom + 8) + scrollY}px`;
}

function element(name, attributes, text) {
  const one = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
  if (text !== undefined) one.textContent = text;
  return one;
}

function makeChart(figure, number) {
  const { axes, width, height, top, left, bottom, group } = JSON.parse(figure.dataset.chart);
  const legend = [...figure.querySelectorAll(".legend [data-s]")];
  const names = legend.map((one) => one.textContent.trim());
  const hidden = new Set();
  let unit = "v";

  // State is in the address: ?unit=r&without=2.4
  const key = number ? `-${number}` : "";
  const asked = new URLSearchParams(location.search);
  if (Object.hasOwn(axes, asked.get(`unit${key}`) || "")) unit = asked.get(`unit${key}`);
  for (const one of (asked.get(`without${key}`) || "").split(".")) if (legend[one]) hidden.add(Number(one));

  function keep() {
    const state = new URLSearchParams(location.search);
    if (unit === "v") state.delete(`unit${key}`); else state.set(`unit${key}`, unit);
    if (hidden.size) state.set(`without${key}`, [...hidden].sort().join(".")); else state.delete(`without${key}`);
    const text = state.toString();
    history.replaceState(history.state, "", `${location.pathname}${text ? `?${text}` : ""}${location.hash}`);
  }

  function draw() {
    const [low, high, base, ticks, line, name] = axes[unit];
    const place = (value) => height - bottom - (Math.min(Math.max(value, low), high) - low) / (high - low) * (height - bottom - top);
    const shown = legend.map((_, series) => series).filter((series) => !hidden.has(series));
    for (const svg of figure.querySelectorAll("svg")) {
      const room = (width - left) / Number(svg.dataset.groups);
      const wide = group * room / Math.max(1, shown.length);
      const grid = svg.querySelector(".grid");
      grid.replaceChildren();
      for (const tick of ticks) {
        grid.append(element("path", { d: `M${left} ${place(tick)}H${width}` }), element("text", { x: left - 4, y: place(tick) }, String(tick)));
      }
      if (line !== null) {
        grid.append(element("path", { class: "roof", d: `M${left} ${place(line)}H${width}` }),
          element("text", { class: "roof", x: left, y: top / 2 - 1 }, name));
      }
      for (const one of svg.querySelectorAll("[data-s]")) {
        const series = Number(one.dataset.s), value = one.dataset[unit];
        const x = left + room * (Number(one.dataset.g) + (1 - group) / 2) + wide * shown.indexOf(series);
        one.style.display = hidden.has(series) ? "none" : "";
        if (one.classList.contains("printed")) {
          one.style.display = value === undefined || hidden.has(series) ? "none" : "";
          if (value !== undefined) one.setAttribute("transform", `translate(${x + wide / 2} ${place(value)})`);
          continue;
        }
        const bar = one.querySelector("rect"), cross = one.querySelector(".none"), whisker = one.querySelector(".whisker");
        if (cross) cross.setAttribute("x", x + wide / 2);
        if (!bar) continue;
        bar.style.display = value === undefined ? "none" : "";
        if (whisker) whisker.style.display = value === undefined || unit === "r" ? "none" : "";
        if (value === undefined) continue;
        const from = Math.min(place(value), place(base)), tall = Math.abs(place(value) - place(base));
        const attributes = { x: x + 0.05 * wide, width: 0.9 * wide, y: from - (tall < 1 ? 1 : 0), height: Math.max(tall, 2) };
        for (const [attribute, wanted] of Object.entries(attributes)) bar.setAttribute(attribute, wanted);
        if (whisker && unit !== "r") {
          const scale = value / one.dataset.v;
          whisker.setAttribute("d", `M${x + wide / 2} ${place(one.dataset.l * scale)}V${place(one.dataset.h * scale)}`);
        }
      }
    }
    for (const button of figure.querySelectorAll("button[data-unit]")) button.setAttribute("aria-pressed", String(button.dataset.unit === unit));
    for (const button of figure.querySelectorAll(".legend button")) button.setAttribute("aria-pressed", String(!hidden.has(Number(button.dataset.series))));
  }

  function button(content, pressed) {
    const one = document.createElement("button");
    one.type = "button";
    one.append(...content);
    one.addEventListener("click", () => { pressed(); keep(); draw(); });
    return one;
  }

  legend.forEach((entry, series) => {
    const own = button([...entry.childNodes], () => { if (!hidden.delete(series)) hidden.add(series); });
    own.dataset.series = series;
    entry.append(own);
  });
  const units = document.createElement("div");
  units.className = "units";
  units.setAttribute("role", "group");
  units.setAttribute("aria-label", "Unit");
  for (const one of Object.keys(axes)) {
    const own = button([one === "r" ? `× ${axes.r[5].replace("dashed: ", "")}` : UNITS[one]], () => { unit = one; });
    own.dataset.unit = one;
    units.append(own);
  }
  figure.prepend(units);

  for (const one of figure.querySelectorAll("svg [data-s]:not(.printed)")) {
    const title = one.querySelector("title");
    one.setAttribute("aria-label", title.textContent);
    if (one.localName === "g") one.setAttribute("role", "img");
    title.remove(); // the browser would show it beside the answer
    one.addEventListener("pointerenter", () => ask(one));
    one.addEventListener("pointerleave", () => { answer.hidden = true; });
    one.addEventListener("focus", () => ask(one));
    one.addEventListener("blur", () => { answer.hidden = true; });
  }

  // The chart is one stop of the Tab key; the arrow keys move between its bars.
  figure.addEventListener("keydown", (event) => {
    const bar = event.target.closest("svg a.case");
    if (!bar || !/^Arrow(Left|Right)$/.test(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
    const bars = [...figure.querySelectorAll("svg a.case")].filter((one) => one.style.display !== "none");
    const next = bars[bars.indexOf(bar) + (event.key === "ArrowRight" ? 1 : -1)];
    if (!next) return;
    event.preventDefault();
    for (const one of figure.querySelectorAll("svg a.case")) one.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
  figure.querySelectorAll("svg a.case").forEach((one, place) => one.setAttribute("tabindex", place ? "-1" : "0"));
  draw();
}

document.querySelectorAll("figure.bars").forEach(makeChart);
