// Rows of a table: searched by key, page by page, or as they change.

import { changesOf, events, get } from "../api.js";
import { el, empty, fill, notice, pill, say } from "../dom.js";
import { grid, gridRow } from "../grid.js";
import { brief, clock, some, zone } from "../format.js";

const PAGE = 50;
const LIVE_MAX = 200;
const AGAIN_MS = 2000;

export default async function rows(root, [name, mode], { signal, trouble }) {
  const { relations } = await get("overview", signal);
  const served = relations.filter((r) => r.served && !r.internal);
  if (!served.length) {
    fill(root, el("h1", {}, "Rows"), el("div", { class: "panel" },
      empty("No table is served", "Tables of the script appear here as soon as their topics exist.")));
    return;
  }
  const relation = name ? relations.find((r) => r.name === name) : served[0];
  const live = mode === "live";
  const place = el("div", { class: "panel" });
  fill(root, head(relation ?? { name, key: [] }, served, live), place);
  if (!relation?.served) {
    place.append(empty(`${name} cannot be read`, relation?.reason ?? "There is no such table, or you may not read it."));
  } else if (live) {
    follow(place, relation, signal);
  } else {
    browse(place, relation, signal, trouble);
  }
}

function head(relation, served, live) {
  const go = (name) => { location.hash = `#/rows/${encodeURIComponent(name)}${live ? "/live" : ""}`; };
  const here = `#/rows/${encodeURIComponent(relation.name)}`;
  const choice = (label, href, on) => el("button", { type: "button", "aria-pressed": String(on), onclick: () => { location.hash = href; } }, label);
  return el("div", { class: "title" },
    el("h1", {}, "Rows"),
    el("select", { "aria-label": "Table", onchange: (e) => go(e.target.value) },
      served.map((r) => el("option", { value: r.name, selected: r.name === relation.name }, r.name))),
    el("div", { class: "choice", role: "group", "aria-label": "Which rows" },
      choice("Contents", here, !live), choice("Live changes", `${here}/live`, live)));
}

function browse(place, relation, signal, trouble) {
  const body = el("div", { class: "scroll result-scroll", role: "region", "aria-label": `Rows of ${relation.name}`, tabindex: "0" });
  const pager = el("div", { class: "pager" });
  const fields = relation.key.map((c) => el("input", { name: c.name, autocomplete: "off", spellcheck: "false", "data-search": true, placeholder: c.type }));
  const prefix = relation.key.length === 1 && relation.key[0].type === "STRING";
  const trail = [""];
  let search = [];

  const load = async () => {
    const query = new URLSearchParams({ limit: PAGE, cursor: trail.at(-1) });
    search.forEach((text) => query.append("search", text));
    try {
      const page = await get(`tables/${encodeURIComponent(relation.name)}/rows?${query}`, signal);
      draw(page);
    } catch (error) {
      if (signal.aborted) return;
      body.replaceChildren(el("div", { class: "body" }, notice("invalid", error.message, error.more)));
      pager.replaceChildren();
    }
  };
  const draw = (page) => {
    const keys = new Set(relation.key.map((c) => c.name));
    const shown = grid(`Rows of ${relation.name}`, page.columns, "Partition");
    shown.tBodies[0].append(...page.rows.map((row, i) => gridRow(row, page.columns, keys, page.partitions[i] ?? "")));
    body.replaceChildren(page.rows.length ? shown : search.length
      ? empty("No such key", "Nothing in this table has it.")
      : empty("No rows yet", "They appear as soon as the job commits some."));
    body.scrollTop = 0;
    const turn = (label, on, act) => el("button", { type: "button", disabled: !on, onclick: act }, label);
    pager.replaceChildren(
      turn("Previous", trail.length > 1, () => { trail.pop(); load(); }),
      turn("Next", page.next, () => { trail.push(page.next); load(); }),
      el("span", { class: "soft small" }, `Page ${trail.length}, ${some(page.rows.length, "row")}`));
    say(some(page.rows.length, "row"));
  };
  const submit = (event) => {
    event.preventDefault();
    search = fields.map((f) => f.value).filter(Boolean);
    trail.splice(0, trail.length, "");
    load();
  };
  const clear = () => {
    fields.forEach((f) => { f.value = ""; });
    fields[0]?.form.requestSubmit();
  };
  place.replaceChildren(
    el("div", { class: "head" }, el("form", { class: "search", role: "search", onsubmit: submit },
      relation.key.map((c, i) => el("label", {}, prefix ? `${c.name} (a key, or its beginning and *)` : c.name, fields[i])),
      el("button", { class: "main" }, "Search"),
      el("button", { type: "button", onclick: clear }, "All rows"))),
    body, pager);
  load();
}

async function follow(place, relation, signal) {
  const state = el("span", {}, pill("", "connecting"));
  const told = el("span", { class: "soft small" });
  const body = el("div", { class: "scroll result-scroll", role: "region", "aria-label": `Changes of ${relation.name}`, tabindex: "0" });
  let paused = false;
  const button = el("button", { type: "button", "aria-pressed": "false", onclick: () => {
    paused = !paused;
    button.textContent = paused ? "Go on" : "Pause";
    button.setAttribute("aria-pressed", String(paused));
  } }, "Pause");
  place.replaceChildren(el("div", { class: "head" }, state, told, button), body);
  const waiting = empty("Waiting for changes", "The next commit of the job shows up here.");
  body.replaceChildren(waiting);
  const keys = new Set(relation.key.map((c) => c.name));
  let total = 0;
  while (!signal.aborted) {
    try {
      let columns = [];
      for await (const part of events(changesOf(relation.name), { signal })) {
        state.replaceChildren(pill("live", "live"));
        if (part.columns) columns = part.columns;
        total += part.count ?? 0;
        if (!part.count) continue;
        const late = part.committed_ms ? `, last commit at ${clock(part.committed_ms)} ${zone(part.committed_ms)}` : "";
        told.textContent = `${some(total, "change")}${late}`;
        if (!paused) add(body, columns, keys, part, relation.name);
      }
    } catch (error) {
      if (signal.aborted) return;
      told.textContent = error.message;
    }
    state.replaceChildren(pill("unknown", "connecting again"));
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

/** The newest on top; what a busy table changed meanwhile is counted, not shown. */
function add(body, columns, keys, part, name) {
  let shown = body.querySelector("table");
  if (!shown) {
    shown = grid(`Changes of ${name}`, columns, "Change", "Partition");
    body.replaceChildren(shown);
  }
  const list = shown.tBodies[0];
  const fresh = part.rows.map((row, i) => {
    const there = part.present[i];
    const change = there ? "set" : el("span", { class: "tag" }, "removed");
    const line = gridRow(there ? row : row.map((v) => v ?? ""), columns, keys, change, String(part.partitions[i]));
    line.classList.add(there ? "fresh" : "gone");
    return line;
  }).reverse();
  const left = part.count - part.rows.length;
  if (left > 0) {
    fresh.push(el("tr", {}, el("td", { class: "soft", colspan: columns.length + 2 }, `… and ${brief(left)} more in this moment`)));
  }
  list.prepend(...fresh);
  while (list.rows.length > LIVE_MAX) list.lastElementChild.remove();
}
