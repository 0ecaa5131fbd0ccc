// The frame: which view is shown, what the server says of itself, keys.

import { get } from "./api.js";
import { el, notice, pill, say, show } from "./dom.js";
import { some } from "./format.js";
import activity from "./views/activity.js";
import chaos from "./views/chaos.js";
import compaction from "./views/compaction.js";
import jobs from "./views/jobs.js";
import partitions from "./views/partitions.js";
import rows from "./views/rows.js";
import sql from "./views/sql.js";
import tables from "./views/tables.js";
import topics from "./views/topics.js";

const VIEWS = { tables, rows, sql, topics, partitions, activity, jobs, compaction, chaos };
const EVERY_MS = 2000;
const KEYS = "holdfast.keys";

const main = document.getElementById("main");
let leaving = new AbortController();

/** Calls `look` at once and then every two seconds, until `signal`. */
async function every(look, signal) {
  while (!signal.aborted) {
    await look();
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, document.hidden ? 5 * EVERY_MS : EVERY_MS);
      signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
    });
  }
}

/** A look of the view: what went wrong is shown until it succeeds. */
async function tried(look, signal) {
  try {
    await look();
    if (!signal.aborted) main.querySelector(":scope > .trouble")?.remove();
  } catch (error) {
    if (!signal.aborted) trouble(error);
  }
}

/** Says above the view what went wrong; the view keeps what it shows. */
function trouble(error) {
  const found = notice("invalid", error.message, error.more ?? "");
  found.classList.add("trouble");
  const known = main.querySelector(":scope > .trouble");
  if (known?.textContent === found.textContent) return;
  known?.remove();
  main.prepend(found);
  main.querySelector(":scope > .view > .loading")?.remove();
}

async function open() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const view = VIEWS[name] ?? tables;
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.view === (VIEWS[name] ? name : "tables")) {
      link.setAttribute("aria-current", "page");
      // On a phone the views are a strip that is wider than the screen.
      link.parentElement.scrollLeft = link.offsetLeft - link.offsetWidth;
    } else {
      link.removeAttribute("aria-current");
    }
  }
  const place = el("div", { class: "view" }, el("p", { class: "loading" }, "Loading…"));
  main.replaceChildren(place);
  window.scrollTo(0, 0);
  try {
    await view(place, rest, { signal, every: (look) => every(() => tried(look, signal), signal), trouble });
  } catch (error) {
    if (!signal.aborted) trouble(error);
  }
  if (signal.aborted) return;
  const title = place.querySelector("h1")?.textContent ?? "";
  document.title = title ? `${title} · Holdfast` : "Holdfast";
  say(title);
}

/** Jobs of the server by name, or their number. */
function names(jobs, server) {
  const all = [...new Set([server.application_id, ...jobs.map((j) => j.application_id)])];
  return all.length > 3 ? some(all.length, "job") : all.join(", ");
}

function health({ drivers_never_heard: unheard, jobs, members, relations, server }) {
  document.getElementById("job").textContent =
    `${names(jobs, server)} · server ${server.id}${members.length > 1 ? `, one of ${members.length}` : ""}`;
  const gone = members.filter((m) => m.state === "GONE").length;
  const down = unheard || jobs.some((j) => !j.answers && j.state !== "stopped");
  const restoring = members.reduce((sum, m) => sum + m.restoring, 0);
  const warned = relations.filter((r) => r.warnings?.length).length;
  const told = gone ? pill("invalid", `${some(gone, "server")} gone`)
    : down ? pill("invalid", "driver does not answer")
      : restoring ? pill("unknown", "restoring")
        : jobs.length && jobs.every((j) => !j.answers) ? pill("unknown", "job stopped")
        : jobs.some((j) => j.answers && !j.ready) ? pill("unknown", "job starting")
          : warned ? pill("unknown", "input left out")
          : pill("valid", jobs.length ? "all well" : "serving");
  show(document.getElementById("health"), told);
}

function keys(event) {
  const writes = event.target.closest?.("input, textarea, select, dialog");
  if (writes || event.ctrlKey || event.metaKey || event.altKey) return;
  if (localStorage.getItem(KEYS) === "off") return;
  const names = Object.keys(VIEWS);
  const place = Number(event.key) - 1;
  if (names[place]) {
    location.hash = `#/${names[place]}`;
    main.focus();
  } else if (event.key === "/") {
    const field = main.querySelector("[data-search]");
    if (field) field.focus();
    else location.hash = "#/rows";
  } else if (event.key === "?") {
    help();
  } else {
    return;
  }
  event.preventDefault();
}

function help() {
  const box = document.getElementById("keys-on");
  box.checked = localStorage.getItem(KEYS) !== "off";
  document.getElementById("help").showModal();
}

document.getElementById("keys-on").addEventListener("change", (event) => {
  localStorage.setItem(KEYS, event.target.checked ? "on" : "off");
});
document.getElementById("help-open").addEventListener("click", help);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.addEventListener("keydown", keys);
window.addEventListener("hashchange", open);

open();
every(async () => {
  try {
    health(await get("overview"));
  } catch (error) {
    show(document.getElementById("health"), pill("invalid", error.status ? "refused" : "server does not answer"));
  }
}, new AbortController().signal);
