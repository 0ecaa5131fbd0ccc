// What the server says: JSON, or events that go on.

const BASE = "/console/api/";

/** A refusal: the server's fact, then its cause and what to do about it. */
export class Problem extends Error {
  constructor(message, status = 0) {
    const [fact, ...more] = message.split("\n");
    super(fact);
    this.more = more.join(" · ");
    this.status = status;
  }
}

/** A JSON value of the console's own. */
export async function get(path, signal) {
  return parsed(await (await ask(BASE + path, { signal })).text());
}

/** Each object of an answer that is sent as events; it fails with the error that ends them. */
export async function* events(path, { signal, body } = {}) {
  const headers = { accept: "text/event-stream", ...(body && { "content-type": "application/json" }) };
  const given = body ? { method: "POST", body: JSON.stringify(body) } : {};
  const response = await ask(path, { ...given, headers, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        if (!line.startsWith("data: ")) continue;
        const found = parsed(line.slice(6));
        if (found.error) throw new Problem(found.error.message ?? "The query failed.");
        yield found;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

export function changesOf(table) {
  return `${BASE}tables/${encodeURIComponent(table)}/changes`;
}

export function reportOf(kind, run) {
  return `${BASE}${kind}/${encodeURIComponent(run)}/report.html`;
}

/** JSON in which numbers that JavaScript would round stay texts: BIGINTs and DECIMALs. */
function parsed(text) {
  return JSON.parse(text, (_, value, context) => {
    const rounded = typeof value === "number" && context?.source && String(value) !== context.source;
    return rounded && /^-?\d[\d.]{15,}$/.test(context.source) ? context.source : value;
  });
}

async function ask(path, given) {
  for (let refused = false; ; refused = true) {
    const response = await fetch(path, { ...given, cache: "no-store" }).catch((error) => {
      if (error.name === "AbortError") throw error;
      throw new Problem("The server does not answer.\nWhat to do: see whether it runs");
    });
    if (response.ok) return response;
    if (response.status !== 401) throw new Problem(await told(response), response.status);
    await wantToken(refused);
  }
}

async function told(response) {
  const fact = `The server answers with ${response.status} ${response.statusText}.`;
  return response.json().then((found) => found.message || fact, () => fact);
}

let asking = null;

/** Asks for a token, once for all requests that wait for it; a cookie keeps it. */
function wantToken(refused) {
  // Also when another request, which the wrong token did not come with, was first to ask again.
  if (refused) document.getElementById("login-why").textContent = "The token was not accepted.";
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("login");
    const input = document.getElementById("token");
    dialog.addEventListener("close", async () => {
      const authorization = `Bearer ${input.value.trim()}`;
      input.value = "";
      await fetch("/v1/session", { method: "POST", headers: { authorization } }).catch(() => {});
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}
