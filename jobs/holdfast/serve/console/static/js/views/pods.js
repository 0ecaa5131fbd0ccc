// Pods of the server's own job: whether they run, how often and why they were restarted, their logs.

import { el, empty, notice, pill, table } from "../dom.js";
import { ago, count, seconds } from "../format.js";

/** `told`: the API's answer; null before the first. */
export function podsOf(told) {
  if (!told) return el("p", { class: "body soft small" }, "Asking Kubernetes for the pods…");
  const { release, pods, refused } = told;
  if (refused) {
    const more = [refused.cause && `Likely cause: ${refused.cause}`, refused.action && `What to do: ${refused.action}`];
    return el("div", { class: "body" }, notice("unknown", `Pods and their logs are not shown: ${refused.fact}`, more.filter(Boolean).join(". ")));
  }
  if (!pods.length) return empty("No pods", "Kubernetes has no StatefulSet of ", el("code", {}, release), ".");
  const columns = [{ name: "Pod", head: true }, { name: "State" }, { name: "Restarts", n: true },
    { name: "Last end", wide: true }, { name: "Age" }, { name: "Node" }, { name: "Log" }];
  return table(`Pods of ${release}`, columns, pods.map((pod) => row(release, pod)));
}

function row(release, pod) {
  if (pod.refused) return [pod.name, pill("unknown", "not shown"), "–", pod.refused, "–", "–", "–"];
  if (!pod.phase) return [pod.name, pill("invalid", "there is none"), "–", "its StatefulSet makes one", "–", "–", "–"];
  return [pod.name, state(pod), pod.restarts ? pill("unknown", count(pod.restarts)) : "0", ended(pod),
    whole(pod.created_ms ? seconds(Math.max(0, Math.floor((Date.now() - pod.created_ms) / 1000))) : "–"), whole(pod.node || "–"),
    el("span", { class: "links" }, link(release, pod, "Log"), pod.restarts ? link(release, pod, "before restart", "before") : "")];
}

/** A text that is not broken over lines. */
function whole(text) {
  return el("span", { class: "when" }, text);
}

function state(pod) {
  if (pod.state !== "Running") return pill(pod.state === "Pending" ? "unknown" : "invalid", pod.state || pod.phase);
  return pod.ready ? pill("valid", "running") : pill("unknown", "not ready");
}

/** How the container has ended last, and what keeps the pod from running. */
function ended({ ended: end, why }) {
  const how = end && [
    el("b", {}, end.reason || "ended"), ` with status ${end.exit_code}`, end.ms ? `, ${ago(end.ms)}` : "",
    end.why ? el("div", { class: "soft small" }, end.why) : "",
  ];
  return [how || (why ? "" : "–"), why ? el("div", { class: "small" }, why) : ""];
}

function link(release, pod, text, before = "") {
  const place = ["#/jobs", release, "pods", pod.name, before].filter(Boolean).map((p, i) => (i ? encodeURIComponent(p) : p));
  return el("a", { href: place.join("/"), "aria-label": `${text} of ${pod.name}` }, text);
}
