// A drawing that is scrolled, and made larger and smaller.

import { el } from "./dom.js";

const READABLE = 0.62; // what is drawn smaller than this is scrolled instead
const SMALLEST = 0.2;
const STEP = 1.25;

/** `place` holds the drawing, `tools` the buttons; it fits the page as long as it can be read. */
export function zoomable(picture, kind) {
  const size = { width: picture.width.baseVal.value, height: picture.height.baseVal.value };
  const place = el("div", { class: kind, tabindex: "0", role: "region", "aria-label": "Topology, to be scrolled" }, picture);
  const hint = el("span", { class: "soft small" });
  let scale = 0;
  const room = () => (place.clientWidth || document.getElementById("main").clientWidth - 40) - 14;
  const draw = (wanted) => {
    scale = Math.max(SMALLEST, Math.min(2, wanted));
    picture.style.width = `${size.width * scale}px`;
    picture.style.height = `${size.height * scale}px`;
    hint.textContent = size.width * scale > room() + 1 ? "scroll sideways for more" : "";
  };
  const whole = () => Math.min(1, room() / size.width);
  const button = (text, name, act) => el("button", { type: "button", "aria-label": name, title: name, onclick: act }, text);
  const tools = el("span", { class: "tools zoom" },
    button("−", "Smaller", () => draw(scale / STEP)), button("+", "Larger", () => draw(scale * STEP)),
    button("Fit", "Show all of it", () => draw(whole())), hint);
  new ResizeObserver(() => { if (!scale) draw(Math.max(READABLE, whole())); }).observe(place);
  return { place, tools };
}
