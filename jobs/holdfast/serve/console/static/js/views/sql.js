// A statement and its answer: a pull query ends, a push query goes on until it is stopped.

import { events, get } from "../api.js";
import { el, empty, fill, notice, pill, say } from "../dom.js";
import { brief, some } from "../format.js";
import { grid, gridRow } from "../grid.js";

const HISTORY = "holdfast.sql";
const KEPT = 40;
const SHOWN_MAX = 1000;
const SILENT_MS = 15_000; // servers ask Kafka every two seconds
// Who looks at a page looks for something: a scan of all rows is what they expect.
const PROPERTIES = { "ksql.query.pull.table.scan.enabled": true };

export default async function sql(root, [given], { signal }) {
  const { relations } = await get("overview", signal);
  const first = relations.find((r) => r.served && !r.internal);
  const example = first ? `SELECT * FROM ${first.name} LIMIT 20;` : "";
  const page = new Page(signal);
  page.text.value = given ?? kept()[0] ?? example;
  fill(root,
    el("div", { class: "title" }, el("h1", {}, "SQL")),
    el("p", { class: "lead" }, "SELECT asks for rows as they are (a pull query); with EMIT CHANGES at its end it goes on with every change (a push query). Nothing here changes anything."),
    el("div", { class: "sql-page" }, el("div", {}, page.editor, page.answer), page.aside));
  page.text.focus();
  page.text.setSelectionRange(page.text.value.length, page.text.value.length);
}

function kept() {
  try {
    return JSON.parse(localStorage.getItem(HISTORY)) ?? [];
  } catch {
    return [];
  }
}

class Page {
  constructor(signal) {
    this.signal = signal;
    this.running = null;
    this.text = el("textarea", { "aria-label": "Statement", spellcheck: "false", autocapitalize: "off", "data-search": true,
      placeholder: "SELECT … FROM … WHERE … ;", onkeydown: (event) => this.key(event) });
    this.run = el("button", { class: "main", type: "button", onclick: () => this.start() }, "Run");
    this.stop = el("button", { type: "button", disabled: true, onclick: () => this.running?.abort() }, "Stop");
    this.told = el("span", { class: "soft small", role: "status" }, "Ctrl Enter runs it, Esc stops it");
    this.editor = el("section", { class: "panel editor", "aria-label": "Statement" }, this.text,
      el("div", { class: "tools" }, this.run, this.stop, this.told));
    this.answer = el("section", { class: "panel", "aria-label": "Answer" },
      empty("No answer yet", "Run a statement, or take one from the history."));
    this.list = el("ul", { class: "history" });
    this.aside = el("section", { class: "panel", "aria-labelledby": "history-title" },
      el("div", { class: "head" }, el("h2", { id: "history-title" }, "History"),
        el("button", { type: "button", onclick: () => { localStorage.removeItem(HISTORY); this.history(); } }, "Clear")),
      this.list);
    this.history();
    signal.addEventListener("abort", () => this.running?.abort());
  }

  key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.start();
    } else if (event.key === "Escape") {
      this.running?.abort();
    }
  }

  history(statement = "") {
    const before = kept().filter((s) => s !== statement);
    const all = (statement ? [statement, ...before] : before).slice(0, KEPT);
    if (statement) localStorage.setItem(HISTORY, JSON.stringify(all));
    this.list.replaceChildren(...all.map((one) => el("li", {}, el("button", { type: "button", title: one, onclick: () => {
      this.text.value = one;
      this.text.focus();
    } }, one.replace(/\s+/g, " ")))));
    if (!all.length) this.list.append(el("li", { class: "empty small" }, "Statements that were run are kept here, in this browser."));
  }

  async start() {
    const statement = this.text.value.trim();
    if (!statement) return;
    this.running?.abort();
    const running = new AbortController();
    this.running = running;
    this.history(statement);
    this.stop.disabled = false;
    this.told.textContent = "Running…";
    const result = new Answer(this.answer, this.told, /\bemit\s+changes\b/i.test(statement));
    const body = { sql: statement, properties: PROPERTIES };
    try {
      for await (const part of events("/v1/query", { signal: running.signal, body })) {
        if (!result.take(part)) break;
      }
      result.ended();
    } catch (error) {
      if (error.name === "AbortError") result.stopped();
      else result.failed(error);
    }
    if (this.running === running) {
      this.running = null;
      this.stop.disabled = true;
    }
  }
}

class Answer {
  constructor(place, told, push) {
    this.place = place;
    this.told = told;
    this.push = push;
    this.began = performance.now();
    this.rows = 0;
    this.cut = false;
    this.states = null;
  }

  /** Takes a part of the answer; false when more would be too much for a page. */
  take({ columns, rows, partitions }) {
    if (columns) this.begin(columns);
    if (rows) this.add(rows);
    if (partitions) this.states = Object.values(partitions);
    return !this.cut;
  }

  begin(columns) {
    this.columns = columns;
    this.grid = grid("Answer", columns);
    this.state = el("span", {}, this.push ? pill("live", "live") : pill("", "reading"));
    this.foot = el("span", { class: "soft small" });
    this.place.replaceChildren(el("div", { class: "head" }, this.state, this.foot),
      el("div", { class: "scroll result-scroll", role: "region", "aria-label": "Answer", tabindex: "0" }, this.grid));
    if (this.push) this.told.textContent = "Goes on until it is stopped (Esc)";
  }

  add(rows) {
    const list = this.grid.tBodies[0];
    if (this.push) {
      const lines = rows.slice(-SHOWN_MAX).map((row) => gridRow(row, this.columns));
      lines.forEach((line) => line.classList.add("fresh"));
      list.prepend(...lines.reverse());
      while (list.rows.length > SHOWN_MAX) list.lastElementChild.remove();
      this.rows += rows.length;
    } else {
      const taken = rows.slice(0, SHOWN_MAX - this.rows);
      list.append(...taken.map((row) => gridRow(row, this.columns)));
      this.rows += taken.length;
      this.cut = taken.length < rows.length;
    }
    this.foot.textContent = some(this.rows, "row");
  }

  ended() {
    if (!this.state) return;
    this.state.replaceChildren(pill("valid", "complete"));
    const lag = (this.states ?? []).reduce((sum, s) => sum + s.lag, 0);
    const silent = (this.states ?? []).some((s) => s.checked_ms && Date.now() - s.checked_ms > SILENT_MS);
    const level = silent ? "Kafka is silent, so how far behind is unknown" : lag ? `${brief(lag)} changelog offsets behind` : "level with the changelog";
    this.foot.textContent = [
      some(this.rows, "row"), this.cut && "there are more, add a WHERE or a LIMIT",
      `${Math.round(performance.now() - this.began)} ms`,
      this.states && `${some(this.states.length, "state partition")}, ${level}`,
    ].filter(Boolean).join(" · ");
    if (!this.rows) this.grid.replaceWith(empty("No rows", "Nothing fits the question."));
    this.told.textContent = "";
    say(some(this.rows, "row"));
  }

  stopped() {
    this.state?.replaceChildren(pill("", "stopped"));
    this.told.textContent = "Stopped";
  }

  failed(error) {
    this.told.textContent = "";
    const told = el("div", { class: "body" }, notice("invalid", error.message, error.more));
    if (this.rows) this.place.prepend(told);
    else this.place.replaceChildren(told);
  }
}
