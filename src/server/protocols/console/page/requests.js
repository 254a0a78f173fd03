// The requests that failed last, and the end of the log.
import { make, table } from "./elements.js";
import { writeCount, writeNumber, writeTime } from "./figures.js";
import { readJson } from "./server.js";

let last = "";

/** Reads both, and shows them where they have changed. */
export async function showRecords() {
  const records = await readJson("console/records");
  const text = JSON.stringify(records);
  if (text === last) return;
  last = text;
  const { failures, log } = records;
  const rows = failures
    .reverse()
    .map((one) => [writeTime(one.time), `${one.method} ${one.path}`, one.status, one.reason, writeCount(one.count), `${writeNumber(one.milliseconds)} ms`, one.id]);
  document.getElementById("no-failures").hidden = rows.length !== 0;
  const area = document.getElementById("failures");
  area.hidden = rows.length === 0;
  area.replaceChildren(table("The last ones, the newest first", ["Time", "Request", "Status", "Reason", "Times", "After", "Id"], rows));
  const lines = document.getElementById("log");
  const isAtEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 4;
  lines.replaceChildren(...log.map((one) => make("p", { class: one.level }, `${writeTime(one.time)} ${one.level} ${one.text}`)));
  if (isAtEnd) lines.scrollTop = lines.scrollHeight;
}
