// Elements without HTML text: the page's policy allows none, and so nothing can be injected.

import { moment } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

/** el("td", {class: "n", onclick}, "text", child, [more]) - null and false are left out. */
export function el(tag, given = {}, ...children) {
  return filled(document.createElement(tag), given, children);
}

export function svg(tag, given = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), given, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...given(children));
  return element;
}

/**
 * Makes `old` look like `fresh` and keeps what need not change, so that focus, scroll positions
 * and open details survive when a view is drawn again. Listeners of `old` stay.
 */
export function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !["open", "style"].includes(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  const before = [...old.childNodes];
  const after = [...fresh.childNodes];
  after.forEach((child, i) => (before[i] ? morph(before[i], child) : old.append(child)));
  before.slice(after.length).forEach((child) => child.remove());
}

/** Puts children (lists of them, too) in the place of what is there. */
export function fill(place, ...children) {
  place.replaceChildren(...given(children));
}

function given(children) {
  return children.flat(3).filter((c) => c !== null && c !== undefined && c !== false && c !== "");
}

/** Draws `fresh` (an element or a list of them) into `place`. */
export function show(place, ...fresh) {
  const box = place.cloneNode(false);
  box.append(...given(fresh));
  morph(place, box);
}

/** Words for those who hear the page. */
export function say(text) {
  document.getElementById("said").textContent = text;
}

export function notice(kind, title, text = "") {
  return el("div", { class: `notice ${kind}`, role: kind === "invalid" ? "alert" : null },
    el("b", {}, title), text && el("p", {}, text));
}

export function empty(title, ...text) {
  return el("div", { class: "empty" }, el("b", {}, title), ...text);
}

export function pill(kind, text) {
  return el("span", { class: `pill ${kind}` }, text);
}

export function meter(share, kind, name) {
  const percent = Math.round(Math.max(0, Math.min(1, share)) * 1000) / 10;
  return el("span", { class: `meter ${kind}`, role: "meter", "aria-label": name, "aria-valuemin": 0,
    "aria-valuemax": 100, "aria-valuenow": percent },
    el("span", { style: { width: `${percent}%` } }));
}

/** A name that may be broken over lines after its dashes and underscores, nowhere else. */
export function breakable(name) {
  return name.split(/(?<=[-_])/).flatMap((part, i) => (i ? [el("wbr"), part] : [part]));
}

/** A moment that is not broken over lines. */
export function when(ms) {
  return el("span", { class: "when" }, moment(ms));
}

/**
 * A table of data: columns are {name, n (a number), head (names the row), wide}, rows are lists
 * of texts and elements. On a phone its rows are cards, unless `plain`.
 */
export function table(label, columns, rows, { plain = false } = {}) {
  const cell = (value, i) => {
    const column = columns[i];
    const kind = [column.n ? "n" : "", column.wide ? "wide" : ""].join(" ").trim() || null;
    const given = { class: kind, "data-name": i && column.name ? column.name : null };
    return column.head
      ? el("th", { ...given, scope: "row" }, value)
      : el("td", given, value === null || value === undefined ? "" : value);
  };
  return el("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" },
    el("table", { class: plain ? null : "cards" },
      el("thead", {}, el("tr", {}, columns.map((c) =>
        el("th", { scope: "col", class: c.n ? "n" : null }, c.name)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cell))))));
}
