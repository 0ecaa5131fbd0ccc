// A graph of a topology: layers from what is read to what is written, and curves between them.

import { svg } from "./dom.js";

const BOX = { width: 168, height: 50 };
const WIDTHS = [130, 230];
const GAP = { along: 46, across: 18 };
const FONTS = { name: "600 12.5px", text: "400 11.5px" };
const ruler = document.createElement("canvas").getContext("2d");

function long(text, kind) {
  ruler.font = `${FONTS[kind]} ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}

/** As much of a text as fits. */
function cut(text, kind, width) {
  let shown = text;
  while (long(shown, kind) > width) shown = `${shown.slice(0, -2)}…`;
  return shown;
}

/** Boxes as wide as the longest title needs; texts below titles may be cut. */
function fitBoxes(graph) {
  const wanted = graph.nodes.map((n) => (RELATIONS.includes(n.kind) ? long(n.title, "name") : long(n.text, "text") * 0.8));
  BOX.width = Math.ceil(Math.min(WIDTHS[1], Math.max(WIDTHS[0], ...wanted.map((w) => w + 26))));
}

// How a line says that rows go to the state partition of their key.
const SHUFFLED = "by key";
const RELATIONS = ["stream", "table", "internal"];

/** The part of a graph that leads to, and comes from, the nodes that `wanted` takes. */
export function around(graph, wanted) {
  const kept = new Set(graph.nodes.filter(wanted).map((n) => n.id));
  const grow = (from, to) => {
    const todo = [...kept];
    const seen = new Set(todo);
    while (todo.length) {
      const id = todo.pop();
      for (const edge of graph.edges) {
        if (edge[from] === id && !seen.has(edge[to])) {
          seen.add(edge[to]);
          todo.push(edge[to]);
        }
      }
    }
    return seen;
  };
  const all = new Set([...grow("target", "source"), ...grow("source", "target")]);
  return {
    nodes: graph.nodes.filter((n) => all.has(n.id)),
    edges: graph.edges.filter((e) => all.has(e.source) && all.has(e.target)),
  };
}

/**
 * An SVG of the graph. `choose(node)` is called for the node that was clicked, or entered with
 * the keyboard; arrow keys go from node to node along the edges.
 */
export function drawing(graph, { down = false, choose = () => {} } = {}) {
  fitBoxes(graph);
  const placed = place(graph, down);
  const picture = svg("svg", {
    width: placed.width, height: placed.height, viewBox: `0 0 ${placed.width} ${placed.height}`,
    role: "group", "aria-label": `Topology of ${graph.nodes.length} steps`,
  });
  picture.append(svg("defs", {}, svg("marker", {
    id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9,
    markerUnits: "userSpaceOnUse", orient: "auto-start-reverse",
  }, svg("path", { d: "M0 .5 8 4 0 7.5z", class: "arrow" }))));
  for (const edge of placed.edges) picture.append(...curve(edge, down));
  const boxes = new Map();
  for (const node of graph.nodes) {
    const box = drawNode(node, placed.at.get(node.id), graph);
    boxes.set(node.id, box);
    const chosen = () => {
      picture.querySelectorAll(".chosen").forEach((n) => n.classList.remove("chosen"));
      box.classList.add("chosen");
      choose(node);
    };
    box.addEventListener("click", chosen);
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        chosen();
      }
      const next = neighbor(graph, placed.at, node.id, event.key, down);
      if (next) {
        event.preventDefault();
        boxes.get(next).focus();
      }
    });
    picture.append(box);
  }
  return picture;
}

function drawNode(node, at, graph) {
  const relation = RELATIONS.includes(node.kind);
  const kind = relation ? node.kind.toUpperCase() : node.title;
  const reads = graph.edges.filter((e) => e.target === node.id).length;
  const label = [kind, relation ? node.title : node.text, reads && `reads ${reads}`].filter(Boolean).join(", ");
  const line = relation ? "name" : "text";
  const text = relation ? node.title : node.text;
  return svg("g", { class: `node ${node.kind}`, tabindex: 0, role: "button", "aria-label": label,
    transform: `translate(${at.x} ${at.y})`, "data-id": node.id },
    svg("title", {}, `${kind} ${text}`),
    svg("rect", { width: BOX.width, height: BOX.height, rx: relation ? 9 : 4 }),
    svg("text", { class: "kind", x: 12, y: 17 }, kind),
    svg("text", { class: line, x: 12, y: 36 }, cut(text, line, BOX.width - 22)),
    node.changelog && svg("path", { class: "store",
      d: `M${BOX.width - 26} 10v9a7 2.8 0 0 0 14 0v-9a7 2.8 0 0 0-14 0a7 2.8 0 0 0 14 0` }));
}

function neighbor(graph, at, id, key, down) {
  const [back, on, before, after] = down
    ? ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"]
    : ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];
  if (key === back) return graph.edges.find((e) => e.target === id)?.source;
  if (key === on) return graph.edges.find((e) => e.source === id)?.target;
  if (key !== before && key !== after) return undefined;
  const [along, across] = down ? ["y", "x"] : ["x", "y"];
  const here = at.get(id);
  const beside = graph.nodes.map((n) => n.id)
    .filter((n) => n !== id && at.get(n)[along] === here[along])
    .filter((n) => (key === after) === (at.get(n)[across] > here[across]))
    .sort((a, b) => Math.abs(at.get(a)[across] - here[across]) - Math.abs(at.get(b)[across] - here[across]));
  return beside[0];
}

/** Where everything is: {at: id -> {x, y}, edges: [{points, label}], width, height}. */
function place(graph, down) {
  const layer = layers(graph);
  const { rows, chains } = withBends(graph, layer);
  for (let sweep = 0; sweep < 6; sweep++) sort(rows, chains, sweep % 2 === 0);
  const along = (down ? BOX.height : BOX.width) + GAP.along;
  const across = (down ? BOX.width : BOX.height) + GAP.across;
  const spots = spread(rows, chains);
  const at = new Map();
  let most = 0;
  for (const [id, spot] of spots) {
    most = Math.max(most, spot.across);
    const [a, b] = [spot.layer * along + 8, spot.across * across + 8];
    at.set(id, down ? { x: b, y: a } : { x: a, y: b });
  }
  const size = [rows.length * along - GAP.along + 16, (most + 1) * across - GAP.across + 16];
  return {
    at, edges: chains.map((chain) => ({ ...chain, points: points(chain, at, down) })),
    width: down ? size[1] : size[0], height: down ? size[0] : size[1],
  };
}

/** The longest way to each node; sources stand right before what reads them. */
function layers(graph) {
  const found = new Map();
  const depth = (id, path = new Set()) => {
    if (found.has(id)) return found.get(id);
    if (path.has(id)) return 0;
    path.add(id);
    const before = graph.edges.filter((e) => e.target === id).map((e) => depth(e.source, path) + 1);
    path.delete(id);
    found.set(id, Math.max(0, ...before));
    return found.get(id);
  };
  graph.nodes.forEach((n) => depth(n.id));
  for (const node of graph.nodes) {
    const after = graph.edges.filter((e) => e.source === node.id).map((e) => found.get(e.target));
    if (!graph.edges.some((e) => e.target === node.id) && after.length) {
      found.set(node.id, Math.min(...after) - 1);
    }
  }
  return found;
}

/** Edges over several layers get a bend in each, so that they go around boxes. */
function withBends(graph, layer) {
  const rows = Array.from({ length: Math.max(0, ...layer.values()) + 1 }, () => []);
  for (const node of graph.nodes) rows[layer.get(node.id)].push(node.id);
  const chains = graph.edges.map((edge, i) => {
    const ids = [edge.source];
    for (let l = layer.get(edge.source) + 1; l < layer.get(edge.target); l++) {
      ids.push(`bend:${i}:${l}`);
      rows[l].push(`bend:${i}:${l}`);
    }
    return { label: edge.label, ids: [...ids, edge.target] };
  });
  return { rows, chains };
}

function links(chains) {
  const found = chains.flatMap(({ ids }) => ids.slice(1).map((id, i) => [ids[i], id]));
  const by = (from, to) => {
    const map = new Map();
    for (const pair of found) map.set(pair[from], [...(map.get(pair[from]) ?? []), pair[to]]);
    return map;
  };
  return { before: by(1, 0), after: by(0, 1) };
}

/** Each row by the mean place of its neighbors in the row before (or after): fewer crossings. */
function sort(rows, chains, forward) {
  const { before, after } = links(chains);
  const near = forward ? before : after;
  const order = forward ? rows : [...rows].reverse();
  const rank = new Map();
  for (const row of order) {
    const mean = (id) => {
      const places = (near.get(id) ?? []).map((n) => rank.get(n)).filter((p) => p !== undefined);
      return places.length ? places.reduce((a, b) => a + b, 0) / places.length : row.indexOf(id);
    };
    const wanted = new Map(row.map((id) => [id, mean(id)]));
    row.sort((a, b) => wanted.get(a) - wanted.get(b));
    row.forEach((id, i) => rank.set(id, i));
  }
}

/** Places across the layers, as near to the neighbors' as the order leaves room. */
function spread(rows, chains) {
  const { before, after } = links(chains);
  const spots = new Map();
  rows.forEach((row, layer) => row.forEach((id, i) => spots.set(id, { layer, across: i })));
  for (let round = 0; round < 60; round++) {
    for (const row of round % 2 ? [...rows].reverse() : rows) {
      const wanted = row.map((id) => {
        const near = [...(before.get(id) ?? []), ...(after.get(id) ?? [])];
        if (!near.length) return spots.get(id).across;
        return near.reduce((sum, n) => sum + spots.get(n).across, 0) / near.length;
      });
      fit(row, wanted).forEach((across, i) => { spots.get(row[i]).across = across; });
    }
  }
  const first = Math.min(0, ...[...spots.values()].map((s) => s.across));
  const low = Math.min(...[...spots.values()].map((s) => s.across));
  for (const spot of spots.values()) spot.across -= Math.max(first, low);
  return spots;
}

/** The wanted places moved apart to a distance of at least 1, with their middle kept. */
function fit(row, wanted) {
  const found = [];
  row.forEach((_, i) => found.push(i ? Math.max(wanted[i], found[i - 1] + 1) : wanted[i]));
  const drift = found.reduce((sum, p, i) => sum + p - wanted[i], 0) / (row.length || 1);
  return found.map((p) => p - drift);
}

function points(chain, at, down) {
  const last = chain.ids.length - 1;
  return chain.ids.flatMap((id, i) => {
    const { x, y } = at.get(id);
    const middle = down ? x + BOX.width / 2 : y + BOX.height / 2;
    const [begin, end] = down ? [y, y + BOX.height] : [x, x + BOX.width];
    const point = (along) => (down ? [middle, along] : [along, middle]);
    if (i === 0) return [point(end)];
    if (i === last) return [point(begin)];
    return [point(begin), point(end)];
  });
}

function curve({ points: [first, ...rest], label }, down) {
  let path = `M${first}`;
  let from = first;
  rest.forEach((to, i) => {
    const half = down ? (from[1] + to[1]) / 2 : (from[0] + to[0]) / 2;
    const bend = down ? [[from[0], half], [to[0], half]] : [[half, from[1]], [half, to[1]]];
    path += i % 2 === 0 ? `C${bend[0]} ${bend[1]} ${to}` : `L${to}`;
    from = to;
  });
  const line = svg("path", { class: label ? "edge shuffled" : "edge", d: path, "marker-end": "url(#arrow)" });
  if (!label || label === SHUFFLED) return [line];
  const before = rest.length > 1 ? rest.at(-2) : first;
  const [x, y] = [(before[0] + from[0]) / 2, (before[1] + from[1]) / 2];
  return [line, svg("text", { class: "edge-label", x, y: y - 5, "text-anchor": "middle" }, label)];
}
