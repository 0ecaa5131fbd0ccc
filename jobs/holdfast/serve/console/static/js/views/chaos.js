// Chaos runs: what was broken, and whether every table was still right.

import { get, reportOf } from "../api.js";
import { el, empty, fill, pill, table, when } from "../dom.js";
import { count, moment, seconds, some } from "../format.js";

const MARKS = { valid: "✓", unknown: "?", invalid: "✗" };

export default async function chaos(root, [run], { signal }) {
  if (run) return one(root, run, signal);
  const runs = await get("chaos", signal);
  fill(root,
    el("div", { class: "title" }, el("h1", {}, "Chaos runs")),
    el("p", { class: "lead" }, "Processes, pods and brokers are broken while a job runs; afterwards every table is computed again from its input and compared."),
    el("div", { class: "panel" }, runs.length ? list(runs)
      : empty("No run yet", el("code", {}, "holdfast chaos run"), " breaks a job and judges it.")));
}

function kind(verdict) {
  return MARKS[verdict] ? verdict : "";
}

function faults(run) {
  return Object.values(run.faults).reduce((a, b) => a + b, 0);
}

function list(runs) {
  const columns = [{ name: "Run", head: true }, { name: "Began" }, { name: "Job" }, { name: "Verdict" }, { name: "Faults", n: true },
    { name: "Records", n: true }, { name: "Rows compared", n: true }, { name: "Recovery, median", n: true }, { name: "" }];
  return table("Chaos runs", columns, runs.map((r) => [
    el("a", { href: `#/chaos/${encodeURIComponent(r.run)}` }, r.run), when(r.created_ms),
    `${r.job} (${r.target})`, pill(kind(r.verdict), r.verdict), count(faults(r)), r.records ? count(r.records) : "",
    r.rows ? count(r.rows) : "", seconds(r.recovery_median_s), r.report && report(r.run),
  ]));
}

function report(run) {
  return el("a", { href: reportOf("chaos", run), target: "_blank", rel: "noopener", "aria-label": `Report of ${run}` }, "Report ↗");
}

async function one(root, run, signal) {
  const told = await get(`chaos/${encodeURIComponent(run)}`, signal);
  const judged = told.verdict in MARKS;
  fill(root,
    el("div", { class: "title" },
      el("p", { class: "crumb" }, el("a", { href: "#/chaos" }, "Chaos runs")),
      el("h1", {}, run), told.report && report(run)),
    el("div", { class: `verdict ${kind(told.verdict)}` }, el("strong", {}, told.verdict),
      el("p", { class: "soft" }, judged
        ? `${some(faults(told), "fault")}; ${some(told.table_count, "table")} computed again from ${some(told.records, "input record")}`
        : "The run has not been judged (yet), or was stopped.")),
    el("dl", { class: "tiles" }, [
      ["Job", told.job, told.target], ["Began", moment(told.created_ms), ""], ["Load", `${count(told.rate)}/s`, `seed ${told.seed}`],
      ["Recovery, median", seconds(told.recovery_median_s), ""], ["Commit", told.commit.slice(0, 10) || "–", ""],
    ].map(([name, value, more]) => el("div", { class: "tile" }, el("dt", {}, name), el("dd", {}, value, more && el("small", {}, more))))),
    told.notes.length ? el("ul", {}, told.notes.map((n) => el("li", {}, n))) : "",
    judged && section("The run", told.findings, worst(told.findings) !== "valid"),
    told.tables.map((t) => section(`${t.name} · ${some(t.rows, "row")}`, t.findings, t.verdict !== "valid")),
    el("section", { class: "panel" }, el("h2", {}, "What was broken"),
      table("Faults", [{ name: "Fault", head: true }, { name: "Times", n: true }, { name: "Recovery, seconds", wide: true }],
        Object.entries(told.faults).sort().map(([name, times]) => [name, count(times),
          (told.recovery_s[name] ?? []).map((s) => s.toFixed(1)).join(", ")]))));
}

function worst(findings) {
  return ["invalid", "unknown"].find((v) => findings.some((f) => f.verdict === v)) ?? "valid";
}

function section(title, findings, open) {
  const verdict = worst(findings);
  const good = findings.filter((f) => f.verdict === "valid").length;
  return el("details", { class: "panel", open }, el("summary", {},
    el("span", { class: `mark ${verdict}` }, MARKS[verdict]), ` ${title} `,
    el("span", { class: "soft" }, `${good} of ${findings.length} checks`)),
    table(title, [{ name: "" }, { name: "Check", head: true }, { name: "Found", wide: true }], findings.map((f) => [
      el("span", { class: `mark ${f.verdict}`, "aria-label": f.verdict }, MARKS[f.verdict]), f.checker.replaceAll("_", " "),
      el("div", {}, f.fact, f.examples.length ? el("pre", { class: "wrap" }, f.examples.join("\n")) : ""),
    ])));
}
