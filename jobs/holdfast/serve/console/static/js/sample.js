// Records of a stream: those that it holds, by a pull query, or new ones by a push query.

import { Answer } from "./answer.js";
import { events } from "./api.js";
import { el, empty } from "./dom.js";

const RECORDS = 20;
const FOLLOWED_MAX = 10_000;

/** A panel that asks for records of a stream; nothing is asked before a button is pressed. */
export function sample(name, signal) {
  const answer = el("div", { class: "answer" }, empty("Nothing asked yet", "The first records of the stream, or those that arrive from now on."));
  const told = el("span", { class: "soft small", role: "status" });
  let running = null;
  const stop = el("button", { type: "button", disabled: true, onclick: () => running?.abort() }, "Stop");
  const ask = async (push) => {
    running?.abort();
    const mine = new AbortController();
    running = mine;
    stop.disabled = false;
    told.textContent = push ? "Waiting for records" : "Reading";
    const result = new Answer(answer, told, push, true);
    const body = { sql: push ? follow(name) : first(name) };
    try {
      for await (const part of events("/v1/query", { signal: mine.signal, body })) {
        if (!result.take(part)) break;
      }
      result.ended();
    } catch (error) {
      if (error.name === "AbortError") result.stopped();
      else result.failed(error);
    }
    if (running === mine) stop.disabled = true;
  };
  signal.addEventListener("abort", () => running?.abort());
  return el("section", { class: "panel", "aria-label": `Records of ${name}` },
    el("div", { class: "head" }, el("h2", {}, "Records"), told,
      el("span", { class: "tools" },
        el("button", { type: "button", onclick: () => ask(false) }, "First records"),
        el("button", { type: "button", onclick: () => ask(true) }, "Follow new records"), stop,
        el("a", { href: `#/sql/${encodeURIComponent(first(name))}` }, "Ask in SQL"))),
    answer);
}

function first(name) {
  return `SELECT * FROM ${quoted(name)} LIMIT ${RECORDS};`;
}

function follow(name) {
  return `SELECT * FROM ${quoted(name)} EMIT CHANGES LIMIT ${FOLLOWED_MAX};`;
}

/** A name as SQL takes it: others than upper-case ones stand in backticks. */
function quoted(name) {
  return /^[A-Z_][A-Z0-9_]*$/.test(name) ? name : `\`${name.replaceAll("`", "``")}\``;
}
