// Streams, tables and the queries between them; one of them in full.

import { get } from "../api.js";
import { breakable, el, empty, fill, pill, show, table } from "../dom.js";
import { around, drawing } from "../draw.js";
import { brief, bytes, count, seconds, share, some } from "../format.js";
import { sample } from "../sample.js";
import { sqlText } from "../sql_text.js";
import { zoomable } from "../zoom.js";

const RECENT = 5; // samples

export default async function tables(root, [name], { signal, every }) {
  if (name) return one(root, name, signal);
  const graph = await get("topology", signal);
  const head = el("div", { class: "title" }, el("h1", {}, "Tables & queries"));
  const tiles = el("dl", { class: "tiles" });
  const list = el("div", { class: "panel" });
  const steps = topology(graph);
  fill(root, head, el("p", { class: "loading" }, "Loading…"));
  every(async () => {
    const [told, series] = await Promise.all([get("overview", signal), get("activity", signal)]);
    show(tiles, ...summary(told, series));
    show(list, relations(told));
    // All at once: tiles that came after the topology would push it away under a click.
    if (!steps.isConnected) fill(root, head, tiles, steps, list);
  });
}

/** Of what is known; a batch may take longer than the time between two looks. */
function mean(values) {
  const known = values.filter((v) => v !== null);
  return known.length ? known.reduce((a, b) => a + b, 0) / known.length : 0;
}

function tile(name, value, more = "", kind = "") {
  return el("div", { class: `tile ${kind}`.trim() }, el("dt", {}, name),
    el("dd", {}, value, more && el("small", {}, more)));
}

function jobState(jobs, running) {
  if (!jobs.length) return "no driver known";
  if (jobs.length === 1) return running.length ? jobs[0].state : "not running";
  return `${running.length} of ${jobs.length} running`;
}

function summary({ jobs, kafka, members, relations, server }, series) {
  const rate = Object.values(series.queries).reduce((sum, q) => sum + mean(q.records_s.slice(-RECENT)), 0);
  const running = jobs.filter((j) => j.answers);
  const executors = jobs.reduce((sum, j) => sum + j.executors.length, 0);
  const lags = running.map((j) => j.lag).filter((l) => l !== null && l !== undefined);
  const lag = lags.length ? lags.reduce((a, b) => a + b, 0) : null;
  const served = relations.filter((r) => r.rows !== undefined);
  const ready = members.filter((m) => m.state !== "GONE");
  return [
    tile(jobs.length > 1 ? "Jobs" : "Job", jobState(jobs, running),
      jobs.length ? [jobs.length === 1 && jobs[0].application_id, executors && some(executors, "executor")].filter(Boolean).join(", ") : "rows are served all the same"),
    tile("Input not yet processed", lag === null ? "–" : brief(lag),
      lag === 0 ? "caught up" : "records, over all queries"),
    tile("Processed now", series.at_ms.length && running.length ? `${brief(rate)}/s` : "–", "records, over all queries"),
    leftOutTile(relations),
    tile("Rows stored", brief(served.reduce((sum, r) => sum + r.rows, 0)),
      `${some(served.length, "table")}, ${bytes(served.reduce((sum, r) => sum + r.bytes, 0))}`),
    tile("Servers", `${ready.length} of ${members.length}`,
      !kafka.answers ? `no word from Kafka for ${seconds(Math.floor((server.now_ms - kafka.heard_ms) / 1000))}`
        : server.started_ms ? `up for ${seconds(Math.floor((server.now_ms - server.started_ms) / 1000))}` : "",
      kafka.answers ? "" : "bad"),
  ];
}

function topology(graph) {
  const facts = el("div", { class: "node-facts", hidden: true, "aria-live": "polite" });
  const narrow = matchMedia("(max-width: 760px)").matches;
  const choose = (node) => {
    facts.hidden = false;
    facts.replaceChildren(...nodeFacts(node));
  };
  const zoom = graph.nodes.length ? zoomable(drawing(graph, { down: narrow, choose }), "topology") : null;
  return el("section", { class: "panel", "aria-labelledby": "topology-title" },
    el("div", { class: "head" }, el("h2", { id: "topology-title" }, "Topology"), zoom?.tools,
      el("span", { class: "legend" },
        el("span", {}, el("i", { class: "stream" }), "stream"),
        el("span", {}, el("i", { class: "table" }), "table"),
        el("span", {}, el("i", {}), "step of a query"),
        graph.nodes.some((n) => n.changelog) && el("span", {}, el("i", { class: "shuffle" }), "shuffled by key"),
        graph.nodes.some((n) => n.kind === "internal") && el("span", {}, el("i", { class: "internal" }), "internal topic"))),
    graph.nodes.length
      ? zoom.place
      : empty("No queries", "The script declares no CREATE … AS SELECT."),
    facts);
}

function nodeFacts(node) {
  const named = ["stream", "table"].includes(node.kind);
  const facts = [...node.facts];
  if (["filter", "having"].includes(node.kind)) facts.unshift(["condition", node.text]);
  if (node.query) facts.push(["query", node.query]);
  if (node.changelog) facts.push(["changelog", node.changelog]);
  return [
    el("b", {}, named ? el("a", { href: `#/tables/${encodeURIComponent(node.title)}` }, node.title) : node.title),
    el("dl", { class: "facts" }, facts.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
  ];
}

function state(relation) {
  if (relation.state && relation.state !== "RUNNING") return pill("unknown", relation.state.toLowerCase());
  if (relation.rows === undefined) return relation.kind === "STREAM" ? "" : pill("", "not served");
  if (relation.restoring) return pill("unknown", `restoring ${relation.restoring}/${relation.partitions}`);
  if (relation.held < relation.partitions) return pill("invalid", `${relation.held}/${relation.partitions} held`);
  if (relation.silent) return pill("unknown", "Kafka is silent");
  return relation.lag ? pill("unknown", `${brief(relation.lag)} behind`) : pill("valid", "up to date");
}

const KINDS = [["late", "late"], ["null_keys", "NULL in their key"], ["dead_letters", "dead letters"]];

/** Input records that are in no result; red where they are more than the job's settings allow. */
function leftOut(relation) {
  const total = leftOutTotal(relation);
  if (!total) return "";
  return pill(relation.warnings.length ? "invalid" : "unknown", `${count(total)} (${share(total, relation.input)})`);
}

function leftOutTotal(relation) {
  return KINDS.reduce((sum, [kind]) => sum + (relation[kind] ?? 0), 0);
}

function leftOutTile(relations) {
  const known = relations.filter((r) => r.warnings);
  const warned = known.filter((r) => r.warnings.length);
  const total = known.reduce((sum, r) => sum + leftOutTotal(r), 0);
  const more = warned.length ? `more than allowed: ${warned.length} of ${known.length} results` : "late, without a key, or undecodable";
  return tile("Left out of results", known.length ? brief(total) : "–", more, warned.length ? "bad" : total ? "doubtful" : "");
}

function relations({ relations: all }) {
  const shown = all.filter((r) => !r.internal);
  const columns = [
    { name: "Name", head: true }, { name: "Kind" }, { name: "Key", wide: true }, { name: "Rows stored", n: true },
    { name: "Size", n: true }, { name: "Processed", n: true }, { name: "Left out", n: true }, { name: "Served" }, { name: "" },
  ];
  const rows = shown.map((r) => [
    el("a", { href: `#/tables/${encodeURIComponent(r.name)}` }, breakable(r.name)),
    r.window ? `${r.kind.toLowerCase()}, ${r.window.toLowerCase()}` : r.kind.toLowerCase(),
    r.key.map((c) => c.name).join(", "),
    r.rows === undefined ? "" : count(r.rows),
    r.bytes === undefined ? "" : bytes(r.bytes),
    r.records === undefined || r.records === null ? "" : count(r.records),
    leftOut(r),
    state(r),
    r.served ? el("a", { href: `#/rows/${encodeURIComponent(r.name)}`, "aria-label": `Rows of ${r.name}` }, "Rows")
      : r.kind === "STREAM" && el("a", { href: `#/tables/${encodeURIComponent(r.name)}`, "aria-label": `Records of ${r.name}` }, "Records"),
  ]);
  return [el("h2", {}, "Streams and tables"), table("Streams and tables", columns, rows)];
}

async function one(root, name, signal) {
  const [told, graph, { relations: all }] = await Promise.all([
    get(`relations/${encodeURIComponent(name)}`, signal), get("topology", signal), get("overview", signal),
  ]);
  const relation = all.find((r) => r.name === name);
  const part = around(graph, (n) => n.title === name || (relation.query && n.query === relation.query));
  fill(root,
    el("div", { class: "title" },
      el("p", { class: "crumb" }, el("a", { href: "#/tables" }, "Tables & queries")),
      el("h1", {}, name), state(relation),
      relation.served && el("span", { class: "tools" },
        el("a", { href: `#/rows/${encodeURIComponent(name)}` }, "Rows"),
        el("a", { href: `#/partitions/${encodeURIComponent(name)}` }, "State partitions"))),
    relation.reason && relation.kind !== "STREAM" ? el("p", { class: "lead" }, relation.reason) : "",
    (relation.warnings ?? []).map((text) => el("p", { class: "lead", role: "alert" }, pill("invalid", "warning"), ` ${text}`)),
    topology(part),
    relation.kind === "STREAM" ? sample(name, signal) : "",
    el("div", { class: "columns" },
      el("section", { class: "panel" }, el("h2", {}, "Columns"),
        table(`Columns of ${name}`, [{ name: "Name", head: true }, { name: "Type" }, { name: "" }], [
          ...relation.key.map((c) => [c.name, c.type, el("span", { class: "tag" }, "key")]),
          ...relation.value.map((c) => [c.name, c.type, ""]),
        ], { plain: true })),
      el("section", { class: "panel" }, el("h2", {}, "Where it is"),
        el("dl", { class: "facts body" }, [
          ["topic", relation.topic], ["changelog", told.changelog], ["query", relation.query],
          ["state partitions", relation.partitions], ["windows", relation.window],
          ["input records", relation.input && count(relation.input)],
          ...KINDS.map(([kind, words]) => [`left out: ${words}`,
            relation[kind] && pill(relation.warnings.length ? "invalid" : "unknown", count(relation[kind]))]),
        ].filter(([, value]) => value).map(([n, value]) => [el("dt", {}, n), el("dd", {}, value)])))),
    told.statement && el("section", { class: "panel" }, el("h2", {}, "Statement"),
      el("pre", { class: "wrap" }, sqlText(told.statement))),
    el("details", { class: "panel" }, el("summary", {}, "What it means (holdfast explain)"),
      el("pre", { tabindex: "0" }, told.explain)));
}
