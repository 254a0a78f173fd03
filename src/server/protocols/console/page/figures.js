// Figures of two states of the server, and how they are written. Pure functions.

/** Samples of the last `span` milliseconds, the oldest first. */
export class Recent {
  constructor(span) {
    this.span = span;
    this.samples = [];
  }

  add(time, value) {
    this.samples.push({ time, value });
    // One that is older stays, so that the samples cover the whole span.
    while (this.samples.length > 2 && this.samples[1].time <= time - this.span) this.samples.shift();
  }

  /** The first and the last sample; undefined where there are not two. */
  get ends() {
    return this.samples.length < 2 ? undefined : [this.samples[0], this.samples.at(-1)];
  }
}

/** What `pick` of the samples has grown by per second. 0 where a counter began again, undefined without two samples. */
export function rate(recent, pick) {
  const ends = recent.ends;
  if (ends === undefined) return undefined;
  const [first, last] = ends;
  const seconds = (last.time - first.time) / 1000;
  return seconds <= 0 ? undefined : Math.max(0, pick(last.value) - pick(first.value)) / seconds;
}

/** The counts that came between the two ends of `recent`; all of the last one where there is no earlier one. */
export function newCounts(recent, pick) {
  const last = recent.samples.at(-1);
  const counts = last === undefined ? undefined : pick(last.value);
  const ends = recent.ends;
  const before = ends === undefined ? undefined : pick(ends[0].value);
  if (counts === undefined || before === undefined) return counts ?? [];
  return counts.map((count, index) => Math.max(0, count - before[index]));
}

/** The value below which a share of a histogram is, in the unit of its bounds; undefined where nothing was counted.
    Within a bucket values count as equally distributed. In the last one, which has no upper bound, it is the lower. */
export function percentile(bounds, counts, share) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return undefined;
  const wanted = total * share;
  let below = 0;
  for (let index = 0; index < bounds.length; ++index) {
    if (below + counts[index] >= wanted && counts[index] > 0) {
      const lower = index === 0 ? 0 : bounds[index - 1];
      return lower + ((bounds[index] - lower) * (wanted - below)) / counts[index];
    }
    below += counts[index];
  }
  return bounds.at(-1);
}

const none = "–";

export function writeCount(value) {
  return value === undefined ? none : Math.round(value).toLocaleString("en");
}

/** With three digits, as 12.3 or 0.12. */
export function writeNumber(value) {
  if (value === undefined || !Number.isFinite(value)) return none;
  if (value === 0) return "0";
  if (Math.abs(value) >= 100) return writeCount(value);
  return String(Number(value.toPrecision(3)));
}

export function writeSeconds(seconds) {
  if (seconds === undefined) return none;
  if (seconds < 0.001) return `${writeNumber(seconds * 1e6)} µs`;
  return seconds < 1 ? `${writeNumber(seconds * 1e3)} ms` : `${writeNumber(seconds)} s`;
}

export function writeBytes(bytes) {
  if (bytes === undefined) return none;
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${writeNumber(value)} ${units[unit]}`;
}

export function writeDuration(seconds) {
  const minutes = Math.floor(seconds / 60);
  if (minutes < 1) return `${Math.floor(seconds)} s`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/** 14:03:07, with its day where that is not `now`'s. */
export function writeTime(milliseconds, now = Date.now()) {
  const date = new Date(milliseconds);
  const time = date.toLocaleTimeString("en", { hourCycle: "h23" });
  const isToday = date.toDateString() === new Date(now).toDateString();
  return isToday ? time : `${date.toLocaleDateString("en", { day: "numeric", month: "short" })} ${time}`;
}

/** Whether the server has begun anew between two of its states: its counters begin at zero. */
export function hasRestarted(before, now) {
  return before !== undefined && now.uptime_seconds < before.uptime_seconds;
}

/** How many of the lines `before` have gone, where the others are those that `now` begins with. */
export function countGone(before, now) {
  let gone = 0;
  while (before.slice(gone).some((line, index) => line !== now[index])) gone += 1;
  return gone;
}

/** Requests of a model that did not succeed. */
export function failuresOf(requests) {
  return requests.rejected + requests.cancelled + requests.expired + requests.invalid + requests.failed;
}
