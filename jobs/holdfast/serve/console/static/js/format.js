// Numbers, sizes and times as people read them.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const NONE = "–";

export function count(value) {
  return value === null || value === undefined ? NONE : whole.format(value);
}

/** 1234567 as "1.2M"; small numbers as they are. */
export function brief(value) {
  if (value === null || value === undefined) return NONE;
  if (Math.abs(value) < 10 && value % 1) return value.toFixed(Math.abs(value) < 1 ? 2 : 1);
  return Math.abs(value) < 10_000 ? whole.format(Math.round(value)) : short.format(value);
}

/** A part of a whole as "8.8 %"; never 0 % of something, never 100 % of less than all. */
export function share(part, whole) {
  const percent = (100 * part) / Math.max(whole ?? 0, part, 1);
  if (percent === 100) return "100 %";
  return percent && percent < 0.1 ? "<0.1 %" : `${Math.min(percent, 99.9).toFixed(1)} %`;
}

export function bytes(value) {
  if (value === null || value === undefined) return NONE;
  let size = value;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (size < 1024) return `${unit === "B" ? size : size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(1)} TiB`;
}

export function seconds(value) {
  if (value === null || value === undefined) return NONE;
  if (value < 1) return `${brief(value * 1000)} ms`;
  if (value < 60) return `${value < 10 && value % 1 ? value.toFixed(1) : Math.round(value)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  if (value < 86400) return `${Math.floor(value / 3600)} h ${Math.round((value % 3600) / 60)} min`;
  return `${(value / 86400).toFixed(1)} days`;
}

export function ago(ms, now = Date.now()) {
  if (!ms) return NONE;
  const passed = Math.max(0, now - ms) / 1000;
  return passed < 3 ? "now" : `${seconds(Math.floor(passed))} ago`;
}

/** Local time and its zone, "2026-11-21 18:43:21 +01:00". */
export function moment(ms) {
  if (!ms) return NONE;
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)} ${zone(ms)}`;
}

/** The zone of local times at a moment, "+01:00" or "UTC". */
export function zone(ms = Date.now()) {
  const east = -new Date(ms).getTimezoneOffset();
  if (!east) return "UTC";
  return `${east < 0 ? "-" : "+"}${two(Math.floor(Math.abs(east) / 60))}:${two(Math.abs(east) % 60)}`;
}

export function clock(ms) {
  const at = new Date(ms);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
}

function two(number) {
  return String(number).padStart(2, "0");
}

/** "3 tables", "1 table". */
export function some(number, noun, plural = `${noun}s`) {
  return `${count(number)} ${number === 1 ? noun : plural}`;
}
