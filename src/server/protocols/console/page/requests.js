// The requests that failed last, and the end of the log.
import { make, table } from "./elements.js";
import { countGone, writeCount, writeNumber, writeTime } from "./figures.js";
import { readJson } from "./server.js";

const patience = 10_000;
let lastFailures = "";
let lastLines = [];

function showFailures(failures) {
  const text = JSON.stringify(failures);
  if (text === lastFailures) return;
  lastFailures = text;
  const rows = failures
    .reverse()
    .map((one) => [writeTime(one.time), `${one.method} ${one.path}`, one.status, one.reason, writeCount(one.count), `${writeNumber(one.milliseconds)} ms`, one.id]);
  document.getElementById("no-failures").hidden = rows.length !== 0;
  const area = document.getElementById("failures");
  area.hidden = rows.length === 0;
  area.replaceChildren(table("The last ones, the newest first", ["Time", "Request", "Status", "Reason", "Times", "After", "Id"], rows));
}

/** Lines that stay are not made anew, so that a selection in them stays, too. */
function showLog(log) {
  const area = document.getElementById("log");
  const isAtEnd = area.scrollTop + area.clientHeight >= area.scrollHeight - 4;
  const lines = log.map((one) => JSON.stringify(one));
  const gone = countGone(lastLines, lines);
  for (let index = 0; index < gone; ++index) area.firstChild.remove();
  const added = log.slice(lastLines.length - gone);
  area.append(...added.map((one) => make("p", { class: one.level }, `${writeTime(one.time)} ${one.level} ${one.text}`)));
  lastLines = lines;
  if (isAtEnd && added.length !== 0) area.scrollTop = area.scrollHeight;
}

/** Reads both, and shows what has changed. */
export async function showRecords() {
  const { failures, log } = await readJson("console/records", patience);
  showFailures(failures);
  showLog(log);
}
