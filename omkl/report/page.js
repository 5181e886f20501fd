"use strict";
// {stream: {"changes", "views": [{"name", "ylabel", "log", "skip", "lines": [{"name", "colour",
// "dash", "width", "t", "y", "s"}]}]}}; s are deviations or null.
const data = JSON.parse(document.getElementById("curves").textContent);
const NS = "http://www.w3.org/2000/svg", H = 380, L = 74, R = 26, T = 12, B = 42;
function node(tag, attributes, parent) {
  const made = document.createElementNS(NS, tag);
  for (const [k, v] of Object.entries(attributes)) made.setAttribute(k, v);
  if (parent) parent.appendChild(made);
  return made;
}
function element(tag, text, parent) {
  const made = document.createElement(tag);
  if (text !== null) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}
const short = (v) => v === 0 ? "0" : Math.abs(v) >= 1e5 || Math.abs(v) < 1e-4
  ? v.toExponential(2) : String(Number(v.toPrecision(4)));
function ticks(low, high, log) {
  const found = [];
  if (log) {
    const steps = Math.log10(high / low) > 2.5 ? [1] : Math.log10(high / low) > 1.2 ? [1, 3]
      : [1, 1.5, 2, 3, 4, 5, 7];
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high) + 1; e++)
      for (const m of steps) {
        const v = Number((m * 10 ** e).toPrecision(3));
        if (v >= low && v <= high) found.push(v);
      }
    return found;
  }
  const raw = (high - low) / 5, p = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((m) => m * p >= raw) * p;
  for (let v = Math.ceil(low / step) * step; v <= high; v += step)
    found.push(Number(v.toPrecision(8)));
  return found;
}
function draw(chart, of, view, hidden) {
  chart.replaceChildren();
  const W = Math.max(340, Math.min(940, chart.clientWidth || 940));  // letters keep their size
  const svg = node("svg", {viewBox: `0 0 ${W} ${H}`, role: "img"}, chart);
  const shown = view.lines.filter((line) => !hidden.has(line.name));
  let low = Infinity, high = -Infinity, last = 1;
  for (const line of view.lines) {
    line.t.forEach((t, i) => {
      const y = line.y[i];
      last = Math.max(last, t);
      if (y === null || (view.log && y <= 0) || hidden.has(line.name)) return;
      if (t < view.skip * line.t[line.t.length - 1]) return;
      low = Math.min(low, y); high = Math.max(high, y);
    });
  }
  if (!(low <= high)) { low = view.log ? 0.1 : 0; high = 1; }
  if (view.log) { low /= 1.1; high *= 1.1; if (high / low < 1.05) high = low * 1.05; }
  else { const room = 0.05 * (high - low) || 1; low -= room; high += room; }
  const x = (t) => L + (W - L - R) * t / last;
  const scale = (v) => view.log ? Math.log(v) : v;
  const y = (v) => H - B - (H - B - T) * (scale(v) - scale(low)) / (scale(high) - scale(low));
  let before = Infinity;
  for (const v of ticks(low, high, view.log)) {
    if (before - y(v) < 16 && before !== Infinity) continue;
    before = y(v);
    node("line", {x1: L, x2: W - R, y1: y(v), y2: y(v), stroke: "var(--line)"}, svg);
    node("text", {x: L - 6, y: y(v) + 4, "text-anchor": "end"}, svg).textContent = short(v);
  }
  for (const t of ticks(0, last, false)) {
    node("line", {x1: x(t), x2: x(t), y1: T, y2: H - B, stroke: "var(--line)"}, svg);
    node("text", {x: x(t), y: H - B + 16, "text-anchor": "middle"}, svg).textContent =
      t.toLocaleString("en");
  }
  node("text", {x: (L + W - R) / 2, y: H - 6, "text-anchor": "middle"}, svg).textContent =
    "row t";
  node("text", {transform: `translate(14 ${(H - B + T) / 2}) rotate(-90)`,
    "text-anchor": "middle"}, svg).textContent = view.ylabel;
  for (const t of of.changes)
    node("line", {x1: x(t), x2: x(t), y1: T, y2: H - B, stroke: "#b2182b",
      "stroke-dasharray": "6 3", "stroke-width": 1.6}, svg);
  const clip = "c" + Math.random().toString(36).slice(2);
  node("rect", {x: L, y: T, width: W - L - R, height: H - B - T},
    node("clipPath", {id: clip}, svg));
  for (const line of shown) {
    let path = "";
    line.t.forEach((t, i) => {
      if (line.y[i] === null || (view.log && line.y[i] <= 0)) return;
      path += (path ? "L" : "M") + x(t).toFixed(1) + " " + y(line.y[i]).toFixed(1);
    });
    node("path", {d: path, fill: "none", stroke: line.colour, "stroke-width": line.width,
      "stroke-dasharray": line.dash, "clip-path": `url(#${clip})`}, svg);
  }
  const rule = node("line", {y1: T, y2: H - B, stroke: "var(--soft)", visibility: "hidden"}, svg);
  const reading = element("div", null, chart);
  reading.className = "reading";
  reading.hidden = true;
  svg.addEventListener("mousemove", (event) => {
    const box = svg.getBoundingClientRect();
    const t = ((event.clientX - box.left) / box.width * W - L) / (W - L - R) * last;
    if (t < 0 || t > last) return;
    const found = shown.map((line) => {
      let i = line.t.findIndex((u) => u >= t);
      if (i < 0) i = line.t.length - 1;
      if (i > 0 && t - line.t[i - 1] < line.t[i] - t) i--;
      return {line, t: line.t[i], y: line.y[i], s: line.s ? line.s[i] : null};
    }).filter((one) => one.y !== null).sort((a, b) => b.y - a.y);
    if (!found.length) return;
    rule.setAttribute("x1", x(found[0].t)); rule.setAttribute("x2", x(found[0].t));
    rule.setAttribute("visibility", "visible");
    reading.replaceChildren();
    element("div", `row ${found[0].t.toLocaleString("en")}`, reading);
    for (const one of found) {
      const row = element("div", null, reading);
      element("span", "\u25a0 ", row).style.color = one.line.colour;
      const spread = one.s === null ? "" : ` \u00b1 ${short(one.s)}`;
      element("span", `${short(one.y)}${spread}  ${one.line.name}`, row);
    }
    reading.hidden = false;
    const right = event.clientX - box.left < box.width / 2;
    reading.style.left = right ? `${event.clientX - box.left + 14}px` : "";
    reading.style.right = right ? "" : `${box.right - event.clientX + 14}px`;
  });
  svg.addEventListener("mouseleave", () => {
    reading.hidden = true; rule.setAttribute("visibility", "hidden");
  });
}
for (const [name, of] of Object.entries(data)) {
  const place = document.querySelector(`[data-set="${CSS.escape(name)}"]`);
  const buttons = element("p", null, place);
  buttons.className = "buttons";
  const chart = element("div", null, place), legend = element("div", null, place);
  chart.className = "chart"; legend.className = "legend";
  const hidden = new Set();
  let view = of.views[0];
  const again = () => draw(chart, of, view, hidden);
  for (const one of of.views) {
    const button = element("button", one.name, buttons);
    button.type = "button";
    button.setAttribute("aria-pressed", one === view);
    button.addEventListener("click", () => {
      view = one;
      for (const b of buttons.children) b.setAttribute("aria-pressed", b === button);
      again();
    });
    buttons.append(" ");
  }
  for (const line of of.views[0].lines) {
    const label = element("label", null, legend);
    const box = element("input", null, label);
    box.type = "checkbox"; box.checked = true;
    box.addEventListener("change", () => {
      box.checked ? hidden.delete(line.name) : hidden.add(line.name); again();
    });
    const sample = node("svg", {viewBox: "0 0 34 10"}, label);
    node("line", {x1: 1, x2: 33, y1: 5, y2: 5, stroke: line.colour, "stroke-width": 2,
      "stroke-dasharray": line.dash}, sample);
    label.append(" " + line.name);
  }
  again();
}
