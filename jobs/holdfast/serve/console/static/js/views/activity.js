// How fast the job goes, over the last hour.

import { get } from "../api.js";
import { chart } from "../chart.js";
import { el, empty, fill } from "../dom.js";
import { brief, clock, seconds, zone } from "../format.js";

const SPANS = [[5, "5 min"], [15, "15 min"], [60, "1 hour"]];
const HOUR_MS = 3_600_000;
const SHORTEST_MS = 60_000; // what is drawn at least
const CHARTS = [
  { of: "queries", field: "records_s", title: "Records processed per second", format: brief },
  { of: "queries", field: "lag", title: "Input records not yet processed", format: brief, hint: "most" },
  { of: "queries", field: "batch_s", title: "Seconds per batch", format: seconds, hint: "most" },
  { of: "queries", field: "commit_p50_s", title: "Commit of a state partition, p50", format: seconds, hint: "most" },
  { of: "queries", field: "commit_p99_s", title: "Commit of a state partition, p99", format: seconds, hint: "most" },
  { of: "tables", field: "changes_s", title: "Changelog offsets written per second", format: brief },
  { of: "tables", field: "lag", title: "Changelog offsets the servers are behind", format: brief },
];

export default async function activity(root, [span], { signal, every }) {
  const minutes = SPANS.find(([m]) => String(m) === span)?.[0] ?? 5;
  const known = { at_ms: [], queries: {}, tables: {} };
  const grid = el("div", { class: "charts" });
  const state = { minutes, zoom: null };
  const back = el("button", { type: "button", hidden: true, "aria-label": "Show the whole time again", onclick: () => zoomTo(null) });
  const choice = SPANS.map(([m, label]) => el("button", { type: "button", "aria-pressed": String(m === minutes),
    onclick: () => { location.hash = `#/activity/${m}`; } }, label));
  fill(root,
    el("div", { class: "title" }, el("h1", {}, "Activity"),
      el("span", { class: "soft small" }, `times in ${zone()}; draw over a plot to zoom`),
      el("div", { class: "tools" }, back,
        el("div", { class: "choice", role: "group", "aria-label": "How far back" }, choice))),
    grid);
  const draw = () => {
    if (grid.querySelector(".tip:not([hidden])")) return; // somebody reads a value, or zooms
    grid.replaceChildren(...charts(known, state, grid, zoomTo));
  };
  const zoomTo = (part) => {
    state.zoom = part;
    back.hidden = !part;
    back.textContent = part ? `${clock(part[0])} – ${clock(part[1])} ✕` : "";
    grid.replaceChildren(...charts(known, state, grid, zoomTo));
  };
  window.addEventListener("resize", draw, { signal });
  every(async () => {
    append(known, await get(`activity?after=${known.at_ms.at(-1) ?? 0}`, signal));
    draw();
  });
}

/** Adds what is new; a series that begins or ends is null where it is not known. */
function append(known, fresh) {
  const before = known.at_ms.length;
  known.at_ms.push(...fresh.at_ms);
  for (const of of ["queries", "tables"]) {
    for (const name of new Set([...Object.keys(known[of]), ...Object.keys(fresh[of])])) {
      const series = (known[of][name] ??= {});
      for (const { field } of CHARTS.filter((c) => c.of === of)) {
        series[field] ??= Array(before).fill(null);
        series[field].push(...(fresh[of][name]?.[field] ?? Array(fresh.at_ms.length).fill(null)));
      }
    }
  }
  forget(known);
}

function forget(known) {
  const old = known.at_ms.findIndex((ms) => ms >= Date.now() - HOUR_MS);
  if (old <= 0) return;
  known.at_ms.splice(0, old);
  for (const series of [...Object.values(known.queries), ...Object.values(known.tables)]) {
    for (const values of Object.values(series)) values.splice(0, old);
  }
}

function charts(known, { minutes, zoom }, grid, zoomTo) {
  if (!known.at_ms.length) {
    return [el("div", { class: "panel" }, empty("Nothing to draw yet", "The server looks every two seconds; in a moment there are lines."))];
  }
  const last = known.at_ms.at(-1);
  const [from, to] = zoom ?? [Math.max(last - minutes * 60_000, Math.min(known.at_ms[0], last - SHORTEST_MS)), last];
  const columns = getComputedStyle(grid).gridTemplateColumns.split(" ");
  const width = Math.max(260, Math.floor(parseFloat(columns[0])) - 30);
  return CHARTS.map(({ of, field, title, format, hint }) => {
    const series = Object.entries(known[of]).sort().map(([name, s]) => ({ name: name.split("/").at(-1), values: s[field] }));
    return chart(title, known.at_ms, series, { format, from, to, width, hint, zoom: (a, b) => zoomTo([a, b]) });
  });
}
