// Where every state partition is: the executor that keeps it and the servers that hold copies.

import { get } from "../api.js";
import { el, empty, fill, meter, pill, show, table } from "../dom.js";
import { ago, brief, bytes, count, seconds, some } from "../format.js";

const SHOWN_MAX = 400; // partitions at a time; of more tables than that only one is shown

export default async function partitions(root, [given], { signal, every }) {
  const first = await get("overview", signal);
  const tables = first.relations.filter((r) => r.partitions);
  const many = tables.reduce((sum, r) => sum + r.partitions, 0) > SHOWN_MAX;
  const name = given ?? (many ? tables[0].name : "");
  const servers = el("div", { class: "servers" });
  const lists = el("div", {});
  const pace = new Pace();
  fill(root, el("div", { class: "title" }, el("h1", {}, "State partitions"), choice(tables, name, many)), servers, lists);
  await every(async () => {
    const asked = name ? `partitions?table=${encodeURIComponent(name)}` : "partitions";
    const [told, all] = await Promise.all([get("overview", signal), get(asked, signal)]);
    show(servers, ...told.members.map((m) => server(m, told.server.now_ms)));
    const names = [...new Set(all.map((p) => p.table))];
    show(lists, ...names.map((n) => list(n, all.filter((p) => p.table === n), pace, told.server.now_ms)),
      names.length ? "" : el("div", { class: "panel" }, empty("No state partitions", "No table is served yet.")));
  });
}

function choice(tables, name, many) {
  if (tables.length < 2) return "";
  const go = (event) => { location.hash = `#/partitions/${encodeURIComponent(event.target.value)}`; };
  return el("select", { "aria-label": "Table", onchange: go },
    many ? "" : el("option", { value: "" }, "All tables"),
    tables.map((t) => el("option", { value: t.name, selected: t.name === name }, t.name)));
}

function server(member, now) {
  const kind = { READY: "valid", STARTING: "unknown", GONE: "invalid" }[member.state];
  return el("section", { class: "panel server", "aria-label": `Server ${member.id}` },
    el("header", {}, el("span", {}, `Server ${member.id} `, member.me && el("span", { class: "tag" }, "this one")), pill(kind, member.state.toLowerCase())),
    el("p", { class: "soft small" }, member.address),
    el("p", { class: "small" }, member.state === "GONE"
      ? `last seen ${ago(member.seen_ms, now)}`
      : `${some(member.partitions, "partition")}, ${some(member.rows, "row")}, ${bytes(member.bytes)}`),
    member.restoring ? el("p", { class: "small" }, `${some(member.restoring, "partition")} being restored`) : "");
}

const COLUMNS = [
  { name: "Partition", head: true }, { name: "Executor" }, { name: "Rows", n: true }, { name: "Size", n: true },
  { name: "Changelog end", n: true }, { name: "Its last restore", n: true }, { name: "Copies on servers", wide: true },
];

function list(name, all, pace, now) {
  const rows = all.map((p) => {
    const best = p.holders.find((h) => h.answers);
    const end = Math.max(p.owner?.position ?? 0, ...p.holders.map((h) => h.end));
    return [
      el("span", {}, el("span", { class: "on-phone" }, "Partition "), String(p.partition)),
      owner(p.owner, now),
      count(p.owner?.rows ?? best?.rows), bytes(p.owner?.bytes ?? best?.bytes), count(end),
      p.owner?.restore_records ? `${brief(p.owner.restore_records)} in ${seconds(p.owner.restore_seconds)}` : "–",
      el("div", { class: "copies" }, p.holders.length
        ? p.holders.map((h) => copy(h, `${name}/${p.partition}/${h.server}`, pace))
        : el("span", { class: "soft" }, "nobody holds it")),
    ];
  });
  return el("section", { class: "panel", "aria-label": name },
    el("div", { class: "head" }, el("h2", {}, name), el("span", { class: "soft small" }, all[0]?.topic ?? "")),
    table(`State partitions of ${name}`, COLUMNS, rows));
}

/** The executor that keeps a partition, those that would take it over, and its newest snapshot. */
function owner(told, now) {
  if (!told) return el("span", { class: "soft" }, "–");
  return el("div", { class: "copies" },
    el("span", { class: "when" }, `${told.owner}${told.volume ? `, volume ${told.volume}` : ""}`),
    told.standbys.map((s) => el("span", { class: "soft small", title: s.error || `position ${count(s.position)}` },
      `standby: volume ${s.volume}, ${standing(s)}`)),
    told.snapshot && el("span", { class: "soft small", title: told.snapshot.error || reached(told.snapshot) },
      `snapshot: ${newest(told.snapshot, told.position, now)}`));
}

function reached({ offset }) {
  return offset < 0 ? null : `changelog offset ${count(offset)}`;
}

/** How old a snapshot is, its size and what it lacks; "failing" if no newer one could be taken. */
function newest(snapshot, position, now) {
  const { offset, error } = snapshot;
  if (offset < 0) return error ? "failing" : "none yet";
  const lacks = offset < position ? `${brief(position - offset)} behind` : "up to date";
  return `${ago(snapshot.taken_ms, now)}, ${bytes(snapshot.bytes)}, ${lacks}${error && ", failing"}`;
}

function standing(standby) {
  if (standby.error) return "stopped";
  if (standby.lag < 0) return "restoring";
  return standby.lag ? `${brief(standby.lag)} behind` : "up to date";
}

function copy(holder, key, pace) {
  const share = holder.end ? holder.position / holder.end : 1;
  const kind = !holder.answers ? "gone" : holder.restoring ? "" : holder.lag ? "behind" : "level";
  const state = !holder.answers ? el("span", { class: "gone" }, "gone")
    : holder.error ? el("span", { class: "gone", title: holder.error }, "stopped")
      : el("span", {}, holder.restoring ? restoring(holder, share, pace.of(key, holder)) : holder.lag ? `${brief(holder.lag)} behind` : "up to date");
  return el("div", { class: "copy", title: holder.error ?? `position ${count(holder.position)} of ${count(holder.end)}` },
    `server ${holder.server}`, meter(share, kind, `Server ${holder.server}: ${Math.floor(share * 100)} percent`), state);
}

function restoring(holder, share, rate) {
  const left = rate > 0 ? `, ${seconds(Math.max(1, Math.round(holder.lag / rate)))} left` : "";
  return `${Math.floor(share * 100)} %${left}`;
}

/** Offsets per second of each copy, from what it told before: for the time that a restore takes. */
class Pace {
  constructor() {
    this.seen = new Map();
  }

  of(key, { position }) {
    const now = performance.now();
    const before = this.seen.get(key);
    if (!before) this.seen.set(key, { position, now });
    return before && now > before.now ? ((position - before.position) / (now - before.now)) * 1000 : 0;
  }
}
