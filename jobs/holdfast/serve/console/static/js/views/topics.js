// Topics as Kafka has them: messages with their headers, consumer groups and settings.

import { get } from "../api.js";
import { breakable, el, empty, fill, notice, pill, table, when } from "../dom.js";
import { brief, bytes, count, some } from "../format.js";

const PAGE = 50;

export default async function topics(root, [name, partition], { signal }) {
  if (name) return one(root, name, partition, signal);
  const all = await get("topics", signal);
  fill(root,
    el("div", { class: "title" }, el("h1", {}, "Topics")),
    el("p", { class: "lead" }, "Topics that the served statements read and write, with the dead letters of their jobs."),
    el("div", { class: "panel" }, list(all)));
}

function list(all) {
  const columns = [{ name: "Topic", head: true }, { name: "Is" }, { name: "Streams and tables", wide: true },
    { name: "Partitions", n: true }, { name: "Replicas", n: true }, { name: "Offsets held", n: true }];
  return table("Topics", columns, all.map((t) => [
    t.exists ? el("a", { href: to(t.topic) }, breakable(t.topic)) : breakable(t.topic), kinds(t),
    t.relations.map((r, i) => [i ? ", " : "", el("a", { href: `#/tables/${encodeURIComponent(r)}` }, breakable(r))]),
    ...t.exists ? [count(t.partitions), count(t.replicas), count(t.offsets)] : [el("span", { class: "soft" }, "not made yet"), "", ""],
  ]));
}

/** Dead letters stand out where there are any. */
function kinds(topic) {
  const letters = topic.kinds.includes("dead letters");
  return letters && topic.offsets ? pill("unknown", "dead letters") : topic.kinds.join(", ");
}

function to(topic, partition = null) {
  return `#/topics/${encodeURIComponent(topic)}${partition === null ? "" : `/${partition}`}`;
}

async function one(root, name, partition, signal) {
  const told = await get(`topics/${encodeURIComponent(name)}`, signal);
  const place = el("section", { class: "panel", "aria-label": `Messages of ${name}` });
  const held = told.partitions.reduce((sum, p) => sum + p.end - p.start, 0);
  fill(root,
    el("div", { class: "title" },
      el("p", { class: "crumb" }, el("a", { href: "#/topics" }, "Topics")),
      el("h1", {}, name), el("span", { class: "soft" }, [told.kinds.join(", "), some(told.partitions.length, "partition"),
        `${count(held)} offsets`].filter(Boolean).join(" · "))),
    place,
    told.groups.length || told.others.length ? el("section", { class: "panel" }, el("h2", {}, "Consumer groups"), groups(told),
      told.unasked ? el("p", { class: "soft small body" }, `${some(told.unasked, "group")} of the cluster ${told.unasked === 1 ? "was" : "were"} not asked: that takes too long.`) : "") : "",
    el("details", { class: "panel" }, el("summary", {}, "Offsets of partitions"), offsets(told)),
    el("details", { class: "panel" }, el("summary", {}, "Settings"),
      el("dl", { class: "facts body" }, Object.entries(told.settings).map(([key, value]) =>
        [el("dt", {}, key), el("dd", {}, value || "–")]))));
  messages(place, told, partition, signal);
}

function groups({ groups: own, others, partitions }) {
  const all = [...own, ...others];
  const columns = [{ name: "Group", head: true }, { name: "Writes" }, { name: "Behind", n: true }, { name: "Of each partition", wide: true }];
  return table("Consumer groups", columns, all.map((g) => [
    breakable(g.group), g.result ? el("a", { href: `#/tables/${encodeURIComponent(g.result)}` }, g.result) : el("span", { class: "soft" }, "another application"),
    g.error ? el("span", { class: "soft", title: g.error }, "may not be read")
      : g.lag === null ? el("span", { class: "soft" }, "nothing committed") : g.lag ? pill("unknown", brief(g.lag)) : pill("valid", "up to date"),
    partitions.map((p) => `${p.partition}: ${g.committed[p.partition] ?? "–"} of ${p.end}`).join(", "),
  ]));
}

function offsets({ partitions }) {
  return table("Offsets", [{ name: "Partition", head: true }, { name: "First", n: true }, { name: "End", n: true }, { name: "Held", n: true }],
    partitions.map((p) => [String(p.partition), count(p.start), count(p.end), count(p.end - p.start)]));
}

async function messages(place, told, partition, signal) {
  const chosen = partition === undefined ? "" : partition;
  const go = (event) => { location.hash = to(told.topic, event.target.value === "" ? null : event.target.value); };
  const body = el("div", {});
  const load = async (before) => {
    const query = new URLSearchParams({ limit: PAGE, ...(chosen !== "" && { partition: chosen }), ...(before !== null && { before }) });
    body.replaceChildren(el("p", { class: "empty" }, "Reading…"));
    try {
      draw(await get(`topics/${encodeURIComponent(told.topic)}/messages?${query}`, signal), before);
    } catch (error) {
      if (!signal.aborted) body.replaceChildren(el("div", { class: "body" }, notice("invalid", error.message, error.more)));
    }
  };
  const draw = (found, before) => {
    const older = chosen !== "" && found.length === PAGE;
    body.replaceChildren(
      found.length ? el("div", { class: "messages" }, found.map(message)) : empty("No messages", "There are none in this part of the topic."),
      el("div", { class: "pager" },
        chosen !== "" && el("button", { type: "button", disabled: before === null, onclick: () => load(null) }, "Newest"),
        chosen !== "" && el("button", { type: "button", disabled: !older, onclick: () => load(Math.min(...found.map((m) => m.offset))) }, "Older"),
        el("span", { class: "soft small" }, chosen === "" ? "The newest of all partitions; choose one for older ones." : "Committed messages, newest first.")));
  };
  fill(place,
    el("div", { class: "head" }, el("h2", {}, "Messages"),
      el("span", { class: "tools" },
        el("select", { "aria-label": "Partition", onchange: go },
          el("option", { value: "" }, "All partitions"),
          told.partitions.map((p) => el("option", { value: p.partition, selected: String(p.partition) === chosen }, `Partition ${p.partition}`))),
        el("button", { type: "button", onclick: () => load(null) }, "Look again"))),
    body);
  load(null);
}

/** One message: a line that opens to its key, headers and whole value. */
function message(m) {
  return el("details", { class: "message" },
    el("summary", {}, el("span", { class: "where" }, `${m.partition} · ${m.offset}`), m.at_ms < 0 ? "" : when(m.at_ms),
      reason(m), el("code", { class: "first" }, line(m)),
      m.headers.length ? el("span", { class: "tag" }, some(m.headers.length, "header")) : ""),
    el("dl", { class: "facts" }, [
      ["key", text(m.key)], ...m.headers.map(([name, value]) => [`header ${name}`, text(value)]), ["value", text(m.value)],
    ].map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
}

/** Why a dead letter is one, from its headers. */
function reason({ headers }) {
  const told = headers.find(([name]) => name === "holdfast.reason")?.[1]?.text;
  return told ? el("span", { class: "reason", title: told }, told) : "";
}

function line({ key, value }) {
  const first = value === null ? "null (a removal)" : value.text ?? value.hex;
  return key?.text ? `${key.text}  ${first}` : first;
}

function text(value) {
  if (value === null) return el("span", { class: "null" }, "null");
  const shown = value.text === undefined ? value.hex : pretty(value.text);
  const all = value.text === undefined ? value.hex.length / 3 >= value.bytes - 1 : new TextEncoder().encode(value.text).length >= value.bytes;
  return [el("pre", { class: "wrap" }, shown), all ? "" : el("span", { class: "soft small" }, `cut; ${bytes(value.bytes)} in all`)];
}

/** JSON over several lines; other text as it is. */
function pretty(given) {
  if (!/^[{[]/.test(given)) return given;
  try {
    JSON.parse(given);
  } catch {
    return given;
  }
  // The text's own digits: JavaScript would round large numbers.
  let depth = 0;
  const pad = () => `\n${"  ".repeat(depth)}`;
  return given.replace(/"(?:[^"\\]|\\.)*"|[{}[\],:]|\s+/g, (piece) => {
    if (/^\s/.test(piece)) return "";
    if (piece === "{" || piece === "[") { depth += 1; return piece + pad(); }
    if (piece === "}" || piece === "]") { depth -= 1; return pad() + piece; }
    return piece === "," ? piece + pad() : piece === ":" ? ": " : piece;
  });
}
