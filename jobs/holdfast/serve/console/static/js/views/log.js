// The end of a log: of a driver on this machine, or of a pod.

import { get } from "../api.js";
import { el, fill } from "../dom.js";
import { count, some } from "../format.js";

/** Shows the lines that `path` tells. */
export async function log(root, title, path, signal) {
  const body = el("pre", { class: "log", tabindex: "0", "aria-label": title });
  const told = el("span", { class: "soft small" });
  const errors = el("input", { type: "checkbox", onchange: () => draw() });
  let lines = [];
  const draw = () => {
    const shown = errors.checked ? lines.filter((line) => kind(line)) : lines;
    body.replaceChildren(...shown.map((line) => el("span", { class: kind(line) }, `${line}\n`)));
    told.textContent = `the last ${some(lines.length, "line")}${errors.checked ? `, ${count(shown.length)} shown` : ""}`;
    body.scrollTop = body.scrollHeight;
  };
  const load = async () => {
    ({ lines } = await get(path, signal));
    draw();
  };
  fill(root,
    el("div", { class: "title" },
      el("p", { class: "crumb" }, el("a", { href: "#/jobs" }, "Jobs")),
      el("h1", {}, title), told,
      el("span", { class: "tools" }, el("label", { class: "check" }, errors, "Warnings and errors only"),
        el("button", { type: "button", onclick: load }, "Look again"))),
    el("div", { class: "panel" }, body));
  await load();
}

function kind(line) {
  return /\b(ERROR|CRITICAL|Error:|Traceback)/.test(line) ? "invalid" : /\b(WARN|WARNING)\b/.test(line) ? "unknown" : null;
}
