// SQL with its words set off.

import { el } from "./dom.js";

const WORDS = new Set(("CREATE TABLE STREAM AS SELECT FROM WHERE GROUP BY HAVING EMIT CHANGES FINAL WINDOW TUMBLING "
  + "HOPPING SESSION SIZE ADVANCE GRACE PERIOD RETENTION JOIN LEFT RIGHT FULL OUTER INNER ON WITHIN AND OR NOT NULL IS "
  + "IN LIKE BETWEEN CASE WHEN THEN ELSE END PARTITION WITH INSERT INTO VALUES LIMIT PRIMARY KEY SET OR REPLACE SOURCE "
  + "SECONDS SECOND MINUTES MINUTE HOURS HOUR DAYS DAY MILLISECONDS").split(" "));

/** Text and spans. */
export function sqlText(sql) {
  return sql.split(/('(?:[^']|'')*'|--[^\n]*|\b[A-Za-z_]\w*\b)/).map((piece) => {
    if (piece.startsWith("'")) return el("span", { class: "text-value" }, piece);
    if (piece.startsWith("--")) return el("span", { class: "soft" }, piece);
    return WORDS.has(piece.toUpperCase()) ? el("span", { class: "word" }, piece) : piece;
  });
}
