// Lines over time, with a cursor that tells the values and a drag that zooms.

import { el, svg } from "./dom.js";
import { clock, zone } from "./format.js";

const SIZE = { height: 170, left: 52, right: 12, top: 10, bottom: 22 };
const COLORS = 6;
const DOT = 2.6;
const GAP = 8; // samples that may be missing within a line
const DRAG = 12; // pixels below which a drag is a click

export function color(index) {
  return `var(--s${(index % COLORS) + 1})`;
}

/** Series beyond the colors are dashed: each color is there once in either form. */
function dashes(one, series) {
  return series.indexOf(one) >= COLORS ? "5 3" : "";
}

/**
 * A figure. `series` are {name, values}, one value per moment of `at` (ms), null where nothing is
 * known; `format` words a value; `width` in pixels; `hint` "most": the highest series
 * counts, not their sum; `zoom(from, to)` is called for the part that was drawn over.
 */
export function chart(title, at, series, { format, from, to, width, hint = "", zoom = null }) {
  const shown = series.filter((s) => s.values.some((v) => v !== null));
  const most = Math.max(0, ...shown.flatMap((s) => s.values.filter((v, i) => v !== null && at[i] >= from && at[i] <= to)));
  const top = round(most);
  const x = (ms) => SIZE.left + ((ms - from) / (to - from)) * (width - SIZE.left - SIZE.right);
  const y = (v) => SIZE.height - SIZE.bottom - (v / top) * (SIZE.height - SIZE.top - SIZE.bottom);
  const latest = shown.map((s) => [s.name, last(s.values)]);
  const words = latest.map(([name, v]) => `${name} ${format(v)}`).join(", ") || "nothing known yet";
  const picture = svg("svg", { viewBox: `0 0 ${width} ${SIZE.height}`, role: "img",
    "aria-label": `${title}: now ${words}` });
  picture.append(...axes({ top, from, to, width }, x, y, format));
  shown.forEach((s) => {
    const { line, dots } = path(at, s.values, x, y, from, to);
    const ink = color(series.indexOf(s));
    picture.append(svg("path", { class: "series", d: line, style: { stroke: ink, strokeDasharray: dashes(s, series) } }),
      ...dots.map(([cx, cy]) => svg("circle", { class: "dot", cx, cy, r: DOT, style: { fill: ink } })));
  });
  const tip = el("div", { class: "tip", hidden: true });
  const cursor = svg("line", { class: "cursor", y1: SIZE.top, y2: SIZE.height - SIZE.bottom, visibility: "hidden" });
  picture.append(cursor);
  const figure = el("figure", { class: "panel chart" },
    el("h2", {}, title, el("span", {}, total(latest, format, hint))), picture,
    el("figcaption", { class: "keyline" }, shown.map((s) => el("span", {},
      el("i", { class: dashes(s, series) && "dashed", style: { color: color(series.indexOf(s)) } }), s.name))), tip);
  follow(picture, figure, { at, shown, series, x, format, from, to, width, tip, cursor });
  if (zoom) draggable(picture, { from, to, width, zoom });
  return figure;
}

function total(latest, format, hint) {
  const known = latest.map(([, v]) => v).filter((v) => v !== null);
  if (!known.length) return "–";
  const value = hint === "most" ? Math.max(...known) : known.reduce((a, b) => a + b, 0);
  return known.length === 1 ? format(value) : `${hint === "most" ? "highest" : "all together"} ${format(value)}`;
}

function last(values) {
  for (let i = values.length - 1; i >= Math.max(0, values.length - 5); i--) {
    if (values[i] !== null) return values[i];
  }
  return null;
}

/** 1, 2 or 5 times a power of ten, at least `most`. */
function round(most) {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= most);
}

function* axes({ top, from, to, width }, x, y, format) {
  for (const share of [0, 0.5, 1]) {
    const height = y(top * share);
    yield svg("line", { class: "gridline", x1: SIZE.left, x2: width - SIZE.right, y1: height, y2: height });
    yield svg("text", { class: "axis", x: SIZE.left - 6, y: height + 4, "text-anchor": "end" }, format(top * share));
  }
  const marks = [from, (from + to) / 2, to];
  for (const [i, ms] of marks.entries()) {
    yield svg("text", { class: "axis", x: x(ms), y: SIZE.height - 6,
      "text-anchor": ["start", "middle", "end"][i] }, clock(ms));
  }
}

/** A line that is broken where nothing is known for long, and dots for values that stand alone. */
function path(at, values, x, y, from, to) {
  const runs = [];
  let missing = GAP + 1;
  values.forEach((value, i) => {
    if (at[i] < from || at[i] > to) return;
    if (value === null) {
      missing += 1;
      return;
    }
    if (missing > GAP) runs.push([]);
    runs.at(-1).push([x(at[i]).toFixed(1), y(value).toFixed(1)]);
    missing = 0;
  });
  const line = runs.filter((run) => run.length > 1).map((run) => `M${run.map((p) => p.join(" ")).join("L")}`).join("");
  return { line, dots: runs.filter((run) => run.length === 1).map(([only]) => only) };
}

/** A drag over the picture marks a part of the time. */
function draggable(picture, { from, to, width, zoom }) {
  let began = null;
  const band = svg("rect", { class: "band", y: SIZE.top, height: SIZE.height - SIZE.top - SIZE.bottom, visibility: "hidden" });
  picture.append(band);
  const place = (event) => {
    const box = picture.getBoundingClientRect();
    return Math.min(width - SIZE.right, Math.max(SIZE.left, ((event.clientX - box.left) / box.width) * width));
  };
  const moment = (at) => from + ((at - SIZE.left) / (width - SIZE.left - SIZE.right)) * (to - from);
  const end = () => {
    began = null;
    band.setAttribute("visibility", "hidden");
  };
  picture.addEventListener("pointerdown", (event) => {
    began = place(event);
    picture.setPointerCapture(event.pointerId);
  });
  picture.addEventListener("pointermove", (event) => {
    if (began === null) return;
    const now = place(event);
    band.setAttribute("x", Math.min(began, now));
    band.setAttribute("width", Math.abs(now - began));
    band.setAttribute("visibility", "visible");
  });
  picture.addEventListener("pointercancel", end);
  picture.addEventListener("pointerup", (event) => {
    const [low, high] = [began ?? 0, place(event)].sort((a, b) => a - b);
    const drawn = began !== null && high - low > DRAG;
    end();
    if (drawn) zoom(moment(low), moment(high));
  });
}

function follow(picture, figure, { at, shown, series, x, format, from, to, width, tip, cursor }) {
  const hide = () => {
    tip.hidden = true;
    cursor.setAttribute("visibility", "hidden");
  };
  picture.addEventListener("pointerleave", hide);
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const inner = ((event.clientX - box.left) / box.width) * width;
    const share = (inner - SIZE.left) / (width - SIZE.left - SIZE.right);
    const i = nearest(at, from + share * (to - from));
    if (i < 0 || !shown.length) return hide();
    cursor.setAttribute("x1", x(at[i]));
    cursor.setAttribute("x2", x(at[i]));
    cursor.setAttribute("visibility", "visible");
    tip.replaceChildren(el("b", {}, `${clock(at[i])} ${zone(at[i])}`), ...shown.map((s) => el("div", {},
      el("span", {}, el("i", { style: { background: color(series.indexOf(s)), display: "inline-block", width: "9px", height: "9px", borderRadius: "50%", marginRight: "6px" } }), s.name),
      el("b", {}, format(s.values[i])))));
    tip.hidden = false;
    const left = event.clientX - figure.getBoundingClientRect().left;
    tip.style.left = `${Math.max(6, Math.min(left + 14, figure.clientWidth - tip.offsetWidth - 6))}px`;
    tip.style.top = "44px";
  });
}

function nearest(at, ms) {
  let best = -1;
  at.forEach((moment, i) => {
    if (best < 0 || Math.abs(moment - ms) < Math.abs(at[best] - ms)) best = i;
  });
  return best;
}
