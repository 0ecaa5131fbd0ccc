// Plans for the compaction of changelogs: what they change, what they win, what came of them.

import { get, reportOf } from "../api.js";
import { el, empty, fill, meter, pill, table, when } from "../dom.js";
import { bytes, count, seconds } from "../format.js";

const KINDS = { "as predicted": "valid", off: "unknown", "cut off": "invalid", unreadable: "invalid", planned: "unknown" };

export default async function compaction(root, [run], { signal }) {
  if (run) return one(root, run, signal);
  const runs = await get("compaction", signal);
  fill(root,
    el("div", { class: "title" }, el("h1", {}, "Changelog compaction")),
    el("p", { class: "lead" }, "Plans made by ", el("code", {}, "holdfast compaction"), " or by the Airflow DAG, and what became of them. Nothing is applied from here."),
    el("div", { class: "panel" }, runs.length ? list(runs)
      : empty("No plan yet", el("code", {}, "holdfast compaction survey"), " and ", el("code", {}, "holdfast compaction plan"), " make one.")));
}

function list(runs) {
  const columns = [{ name: "Run", head: true }, { name: "Surveyed" }, { name: "State" }, { name: "Changelogs", n: true },
    { name: "Bytes before", n: true }, { name: "Bytes predicted", n: true }, { name: "" }];
  return table("Compaction runs", columns, runs.map((r) => [
    r.hash ? el("a", { href: `#/compaction/${encodeURIComponent(r.run)}` }, r.run) : r.run,
    when(r.taken_ms), pill(KINDS[r.state] ?? "", r.state),
    r.hash ? `${r.asked} of ${r.topic_count}` : "", r.hash ? bytes(r.bytes_before) : "",
    r.hash ? bytes(r.bytes_after) : "", r.report && report(r.run),
  ]));
}

function report(run) {
  return el("a", { href: reportOf("compaction", run), target: "_blank", rel: "noopener", "aria-label": `Report of ${run}` }, "Report ↗");
}

async function one(root, run, signal) {
  const told = await get(`compaction/${encodeURIComponent(run)}`, signal);
  const asked = told.topics.filter((t) => !t.nothing);
  const others = told.topics.filter((t) => t.nothing);
  fill(root,
    el("div", { class: "title" },
      el("p", { class: "crumb" }, el("a", { href: "#/compaction" }, "Changelog compaction")),
      el("h1", {}, run), pill(KINDS[told.state] ?? "", told.state), told.report && report(run)),
    el("dl", { class: "tiles" }, [
      ["Changelogs to change", `${asked.length} of ${told.topics.length}`], ["Bytes before", bytes(told.bytes_before)],
      ["Bytes predicted", bytes(told.bytes_after)], ["Hash of the plan", el("code", {}, told.hash)],
    ].map(([name, value]) => el("div", { class: "tile" }, el("dt", {}, name), el("dd", {}, value)))),
    remarks("Warnings", [told.cut_off, ...told.warnings].filter(Boolean), "unknown"),
    remarks("Not reached", told.unmet, "unknown"),
    el("section", { class: "panel" }, el("h2", {}, "What it changes"),
      asked.length ? asked.map(topic) : empty("Nothing to do", "Every changelog is as it should be.")),
    others.length ? el("details", { class: "panel" }, el("summary", {}, `Left as they are (${others.length})`),
      others.map((t) => el("div", { class: "topic" }, el("h3", {}, t.topic), el("p", { class: "soft" }, t.why)))) : "",
    remarks("Advice", told.advice, ""),
    el("details", { class: "panel" }, el("summary", {}, "Policy"),
      el("dl", { class: "facts body" }, Object.entries(told.policy).map(([name, value]) =>
        [el("dt", {}, name), el("dd", {}, Array.isArray(value) ? value.join(", ") || "–" : String(value))]))));
}

function remarks(title, lines, kind) {
  if (!lines.length) return "";
  return el("section", { class: `notice ${kind}` }, el("b", {}, title),
    el("ul", { class: "plain" }, lines.map((line) => el("li", {}, line))));
}

function topic(t) {
  const cleaned = t.changes.some((c) => !c.stays);
  const now = t.result ? "before" : "now";
  return el("div", { class: "topic" },
    el("h3", {}, t.topic), el("p", { class: "soft" }, t.why),
    el("div", { class: "columns" },
      bars("Bytes", [[now, t.bytes[0]], cleaned && ["predicted", t.bytes[1]], t.result?.bytes[0] && ["found", t.result.bytes[2]]], bytes),
      bars("Restore", [[now, t.restore_s[0]], cleaned && ["predicted", t.restore_s[1]]], seconds)),
    table(`Settings of ${t.topic}`, [{ name: "Setting", head: true }, { name: "Before" }, { name: "After" }, { name: "How long" }, { name: "Why", wide: true }],
      t.changes.map((c) => [el("code", {}, c.name), c.before, c.after ?? "(none)",
        el("span", { class: "tag" }, c.stays ? "stays" : "put back"), el("span", { class: "soft" }, c.why)])),
    t.risks.map((risk) => el("p", { class: "small" }, el("b", {}, "Risk: "), risk)),
    t.result ? el("p", { class: "small" }, `${t.result.outcome}; ${count(t.result.records[0])} → ${count(t.result.records[2])} records (${count(t.result.records[1])} predicted)`) : "");
}

function bars(title, given, format) {
  const known = given.filter(Boolean);
  const most = Math.max(...known.map(([, value]) => value)) || 1;
  return el("div", {}, el("span", { class: "soft small" }, title),
    el("div", { class: "bars" }, known.map(([name, value]) => el("div", {}, el("span", {}, name),
      meter(value / most, name === known[0][0] ? "" : "level", `${title} ${name}`), el("span", {}, format(value))))));
}
