// A statement and its answer: a pull query ends, a push query goes on until it is stopped.

import { Answer } from "../answer.js";
import { events, get } from "../api.js";
import { el, empty, fill } from "../dom.js";

const HISTORY = "holdfast.sql";
const KEPT = 40;
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
