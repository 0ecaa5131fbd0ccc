// The answer of a query in SQL: its rows as they arrive, and how it ended.

import { el, empty, notice, pill, say } from "./dom.js";
import { brief, some } from "./format.js";
import { grid, gridRow } from "./grid.js";

const SHOWN_MAX = 1000;
const SILENT_MS = 15_000; // servers ask Kafka every two seconds

/** Rows of one query as they arrive; `told` says what happens to it; a `stream` has no changelog. */
export class Answer {
  constructor(place, told, push, stream = false) {
    this.stream = stream;
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
    const silent = (this.states ?? []).some((s) => s.checked_ago_ms > SILENT_MS);
    const behind = silent ? "Kafka is silent, so how far behind is unknown"
      : lag ? `${brief(lag)} changelog offsets behind` : "up to date with the changelog";
    this.foot.textContent = [
      some(this.rows, "row"), this.cut && "there are more, add a WHERE or a LIMIT",
      `${Math.round(performance.now() - this.began)} ms`,
      this.states && !this.stream && `${some(this.states.length, "state partition")}, ${behind}`,
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
