// Rows of tables as the server sends them: lists of values by column.

import { el } from "./dom.js";
import { moment } from "./format.js";

const TIMES = new Set(["WINDOWSTART", "WINDOWEND", "ROWTIME"]);
const NUMBERS = /^(INTEGER|BIGINT|DOUBLE|DECIMAL)/;

function isNumber(column) {
  return NUMBERS.test(column.type) && !TIMES.has(column.name);
}

/** One cell; bounds of windows and times of rows are shown as moments. */
function cell(value, column, keys) {
  const text = value === null || typeof value === "string" ? value : JSON.stringify(value);
  const kind = [isNumber(column) ? "n" : "", keys.has(column.name) ? "key" : ""].join(" ").trim() || null;
  if (text === null) return el("td", { class: kind }, el("span", { class: "null" }, "null"));
  if (TIMES.has(column.name) && text) return el("td", { class: kind, title: text }, moment(Number(text)));
  return el("td", { class: kind, title: text.length > 30 ? text : null }, text);
}

export function gridRow(row, columns, keys = new Set(), ...before) {
  return el("tr", {}, before.map((b) => el("td", {}, b)), row.map((value, i) => cell(value, columns[i], keys)));
}

/** A table element with its head; rows go into its `tBodies[0]`. */
export function grid(label, columns, ...before) {
  return el("table", { class: "grid", "aria-label": label },
    el("thead", {}, el("tr", {},
      before.map((b) => el("th", { scope: "col" }, b)),
      columns.map((c) => el("th", { scope: "col", class: isNumber(c) ? "n" : null, title: c.type },
        c.name, el("small", {}, c.type))))),
    el("tbody", {}));
}
