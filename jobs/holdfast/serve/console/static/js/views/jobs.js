// Every job: what its driver says, its pods, how often it was started, the end of its log.

import { get } from "../api.js";
import { el, empty, fill, notice, pill, show, table } from "../dom.js";
import { ago, brief, count } from "../format.js";
import { log } from "./log.js";
import { podsOf } from "./pods.js";

export default async function jobs(root, [name, what, pod, before], { signal, every }) {
  if (what === "log") return log(root, `Log of ${name}`, `jobs/${encodeURIComponent(name)}/log`, signal);
  if (what === "pods") {
    const title = before ? `Log of ${pod} before its last restart` : `Log of ${pod}`;
    return log(root, title, `pods/${encodeURIComponent(pod)}/log${before ? "?previous=1" : ""}`, signal);
  }
  const place = el("div", {});
  fill(root,
    el("div", { class: "title" }, el("h1", {}, "Jobs")),
    el("p", { class: "lead" }, "Jobs of this server, and others of its home. A job that is deployed on this machine, or on Kubernetes, is started again when it ends."),
    place);
  let pods = null;
  let asking = false;
  const askPods = async () => { // beside: the API of a cluster may take its time
    if (asking) return;
    asking = true;
    pods = await get("pods", signal).catch(() => pods);
    asking = false;
  };
  await every(async () => {
    const all = await get("jobs", signal);
    if (all.some((told) => told.on_kubernetes)) askPods();
    show(place, ...all.map((told) => job(told, pods)), all.length ? "" : el("div", { class: "panel" },
      empty("No job is known", "Jobs of this home are found by themselves; ", el("code", {}, "--driver"), " names others.")));
  });
}

function state(told) {
  const deployed = told.deployment?.state;
  if (deployed === "restarting" || deployed === "refused") return pill("invalid", deployed);
  if (told.answers) return told.ready ? pill("valid", told.state) : pill("unknown", told.state || "starting");
  if (told.state === "stopped" || deployed === "stopped") return pill("", "stopped");
  return pill(deployed === "starting" ? "unknown" : "invalid", deployed === "starting" ? "starting" : "does not answer");
}

function job(told, pods) {
  const { deployment } = told;
  const restarts = Math.max(0, (deployment?.starts ?? 1) - 1);
  const facts = [
    ["Behind", told.lag === null ? "–" : told.lag ? `${brief(told.lag)} records` : "nothing"],
    ["Executors", count(told.executors.length)],
    deployment && ["Revision", count(deployment.revision)],
    deployment && ["Restarts", restarts ? pill("unknown", count(restarts)) : "none"],
    !told.answers && told.updated_ms && ["Last word", ago(told.updated_ms)],
  ].filter(Boolean);
  return el("section", { class: "panel", "aria-label": told.application_id },
    el("div", { class: "head" }, el("h2", {}, told.application_id), state(told),
      deployment ? el("a", { href: `#/jobs/${encodeURIComponent(deployment.name)}/log` }, "Log")
        : told.on_kubernetes ? el("span", { class: "soft small" }, "a release on Kubernetes")
          : el("span", { class: "soft small" }, "not deployed on this machine: its log is where it runs")),
    el("dl", { class: "facts body" }, facts.map(([n, v]) => [el("dt", {}, n), el("dd", {}, v)])),
    deployment?.reason || told.reason ? el("div", { class: "body" }, notice("unknown", deployment?.reason || told.reason)) : "",
    told.queries.length ? queries(told) : "", told.on_kubernetes ? podsOf(pods) : "");
}

function queries(told) {
  const columns = [{ name: "Query", head: true }, { name: "Writes" }, { name: "State" }, { name: "Batch", n: true },
    { name: "Processed", n: true }, { name: "Behind", n: true }, { name: "Left out", n: true }, { name: "Dead letters", n: true }];
  return table(`Queries of ${told.application_id}`, columns, told.queries.map((q) => [
    q.id, q.sink, told.answers ? (q.state ?? "").toLowerCase() : "–", q.batch_id < 0 ? "–" : count(q.batch_id), count(q.records_total), count(q.lag),
    coloured((q.dropped_late ?? 0) + (q.dropped_null_key ?? 0), q), coloured(q.dead_letters ?? 0, q),
  ]));
}

function coloured(number, { warnings }) {
  return number ? pill(warnings?.length ? "invalid" : "unknown", count(number)) : "0";
}
