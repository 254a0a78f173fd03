// The models with their figures, now and over the last minute, and the server's own.
import { announce, figureList, labelled, make, newId, setText, table } from "./elements.js";
import { Recent, failuresOf, hasRestarted, newCounts, percentile, rate } from "./figures.js";
import { writeBytes, writeCount, writeDuration, writeNumber, writeSeconds } from "./figures.js";
import { loadRequest, pathOf } from "./inputs.js";
import { postJson } from "./server.js";

const minute = 60_000;
const shares = [0.5, 0.95, 0.99];
const lineWidth = 120;
const lineHeight = 24;

/** Figures of one model that the page computes from several states. */
class History {
  constructor() {
    this.recent = new Recent(minute);
    this.rates = [];
  }

  add(time, model) {
    const before = this.recent.samples.at(-1);
    this.recent.add(time, model);
    if (before === undefined || model.requests === undefined || before.value.requests === undefined) return;
    const step = new Recent(minute);
    step.add(before.time, before.value);
    step.add(time, model);
    this.rates = [...this.rates, rate(step, (one) => one.requests.succeeded) ?? 0].slice(-lineWidth / 2);
  }
}

/** A line of the last rates. What it shows is also said in words. */
function drawRates(svg, rates) {
  const most = Math.max(...rates, 0);
  const points = rates.map((value, index) => `${index * 2},${(lineHeight - 1 - (most === 0 ? 0 : (value / most) * (lineHeight - 2))).toFixed(1)}`);
  svg.firstChild.setAttribute("points", points.join(" "));
  svg.setAttribute("aria-label", `Requests per second: at most ${writeNumber(most)}, now ${writeNumber(rates.at(-1) ?? 0)}`);
}

function makeLine() {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", `0 0 ${lineWidth} ${lineHeight}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("class", "line");
  svg.append(document.createElementNS(space, "polyline"));
  return svg;
}

function percentiles(bounds, counts) {
  return shares.map((share) => writeSeconds(percentile(bounds, counts, share)));
}

function figuresOf(model, recent, bounds) {
  const figures = {};
  if (model.requests !== undefined) {
    const [p50, p95, p99] = percentiles(bounds, newCounts(recent, (one) => one.durations?.total));
    const runs = rate(recent, (one) => one.runs ?? 0);
    const rows = rate(recent, (one) => one.rows ?? 0);
    figures["Requests/s"] = writeNumber(rate(recent, (one) => one.requests?.succeeded ?? 0));
    figures["Failures/s"] = writeNumber(rate(recent, (one) => (one.requests === undefined ? 0 : failuresOf(one.requests))));
    figures["Latency p50"] = p50;
    figures["Latency p95"] = p95;
    figures["Latency p99"] = p99;
    figures["Rows per run"] = writeNumber(runs ? rows / runs : undefined);
    figures["Answered"] = writeCount(model.requests.succeeded);
    figures["Failed"] = writeCount(failuresOf(model.requests));
  }
  if (model.waiting !== undefined) {
    figures["In the queue"] = writeCount(model.waiting);
    figures["In runs"] = writeCount(model.running);
    figures["Memory"] = writeBytes(model.memory_bytes);
  }
  if (model.texts !== undefined) addTextFigures(figures, model, recent, bounds);
  return figures;
}

function addTextFigures(figures, model, recent, bounds) {
  const texts = model.texts;
  const [first50, first95] = percentiles(bounds, newCounts(recent, (one) => one.texts?.first_token));
  const [next50, next95] = percentiles(bounds, newCounts(recent, (one) => one.texts?.next_token));
  figures["Texts"] = `${texts.running} of ${texts.slots}`;
  figures["Texts that wait"] = writeCount(texts.waiting);
  figures["Tokens/s"] = writeNumber(rate(recent, (one) => one.texts?.generated_tokens ?? 0));
  figures["First token p50"] = first50;
  figures["First token p95"] = first95;
  figures["Next token p50"] = next50;
  figures["Next token p95"] = next95;
  figures["Keys and values"] = `${writeBytes(texts.cache_bytes)} of ${writeBytes(texts.max_cache_bytes)}`;
}

function latencyTable(model, recent, bounds) {
  const names = { total: "Whole request", queue: "In the queue", compute: "In the model", failure: "Until an error" };
  const rows = Object.entries(names).map(([name, title]) => [
    title,
    ...percentiles(bounds, newCounts(recent, (one) => one.durations?.[name])),
  ]);
  return table("Time of the requests of the last minute", ["Part", "p50", "p95", "p99"], rows);
}

function triedTable(model) {
  const rows = model.tried.map((one) => [one.provider, one.outcome.replace("_", " "), writeCount(one.nodes), [one.reason, one.remedy].filter(Boolean).join(": ")]);
  return table("Providers of the request, in order", ["Provider", "Outcome", "Nodes", "Reason"], rows);
}

function deviceTables(model) {
  const devices = model.devices.map((one, index) => [
    one.name ? `${one.name} (${one.index})` : `Session ${index + 1}`,
    one.state.replace("_", " "),
    writeCount(one.runs),
    writeCount(one.failures),
    one.free_bytes === undefined ? writeBytes(one.memory_bytes) : `${writeBytes(one.free_bytes)} of ${writeBytes(one.memory_bytes)} free`,
    one.reason ?? "",
  ]);
  const tables = [table("Sessions", ["Device", "State", "Runs", "Failures", "Memory", "Last failure"], devices)];
  if (model.device_uses.length !== 0) {
    const uses = model.device_uses.map((one) => [one.device, one.provider, writeBytes(one.bytes)]);
    tables.push(table("Memory that the model takes of devices", ["Device", "Provider", "Memory"], uses));
  }
  if (model.workers.length !== 0) {
    const workers = model.workers.map((one) => [
      String(one.process_id), one.state, writeCount(one.restarts), writeCount(one.lost_runs), writeBytes(one.resident_bytes), one.last_end,
    ]);
    tables.push(table("Worker processes", ["Process", "State", "Restarts", "Lost runs", "Memory", "Why the last one ended"], workers));
  }
  return tables;
}

/** A part that can be opened, whose content is made anew only while it is open. */
function makeDetails(title, model) {
  const content = make("div", { class: "scroll", role: "group", "aria-label": `${title} of ${model}`, tabindex: "0" });
  const details = make("details", {}, make("summary", {}, title), content);
  let last = "";
  const update = (makeContent) => {
    if (!details.open) return;
    const nodes = makeContent();
    const text = nodes.map((node) => node.textContent).join("|");
    // A selection and the place of a reader stay where nothing has changed.
    if (text !== last) content.replaceChildren(...nodes);
    last = text;
  };
  return { details, update };
}

class Card {
  constructor(name, version) {
    this.history = new History();
    const id = newId("model");
    this.state = make("span", { class: "state" });
    this.verdict = make("p", { class: "verdict" });
    this.problem = make("p", { class: "problem", hidden: true });
    const list = make("dl", { class: "figures" });
    this.setFigures = figureList(list);
    this.line = makeLine();
    this.parts = {
      latency: makeDetails("Latency", name),
      batches: makeDetails("Batch sizes", name),
      tried: makeDetails("Providers", name),
      devices: makeDetails("Devices and processes", name),
    };
    this.providers = [];
    this.provider = make("select", {}, make("option", { value: "" }, "as configured"));
    const load = () => change(name, "load", this.node, this.providers.find((one) => one.id === this.provider.value));
    this.load = make("button", { type: "button", onclick: load }, "Load");
    this.unload = make("button", { type: "button", onclick: () => change(name, "unload", this.node) }, "Unload");
    const [label, provider] = labelled("Provider", this.provider);
    for (const node of [this.load, this.unload, label]) node.append(make("span", { class: "unseen" }, ` ${name}`));
    this.node = make(
      "article", { class: "card", "aria-labelledby": id },
      make("div", { class: "head" }, make("h3", { id }, name, " ", make("small", {}, version)), this.state),
      this.verdict, this.problem, list, this.line,
      ...Object.values(this.parts).map((part) => part.details),
      make("p", { class: "actions" }, label, provider, this.load, this.unload),
    );
  }

  /** `providers`: those of the machine that a load can choose. */
  offer(providers) {
    if (providers.map((one) => one.id).join() === this.providers.map((one) => one.id).join()) return;
    const chosen = this.provider.value;
    this.providers = providers;
    this.provider.replaceChildren(this.provider.firstChild, ...providers.map((one) => make("option", { value: one.id }, one.id)));
    this.provider.value = providers.some((one) => one.id === chosen) ? chosen : "";
  }

  show(model, time, bounds) {
    this.history.add(time, model);
    const { recent, rates } = this.history;
    setText(this.state, model.state);
    this.state.classList.toggle("good", model.state === "ready");
    this.state.classList.toggle("bad", model.state === "failed");
    setText(this.verdict, [model.verdict, model.sharing].filter(Boolean).join("; "));
    setText(this.problem, model.reason);
    this.problem.hidden = model.reason === "" || model.reason === model.state;
    this.setFigures(figuresOf(model, recent, bounds));
    drawRates(this.line, rates);
    setText(this.load.firstChild, model.waiting === undefined ? "Load" : "Reload");
    this.unload.disabled = !model.serves;
    const has = { latency: model.durations, batches: model.batches?.length, tried: model.tried?.length, devices: model.devices };
    for (const [name, part] of Object.entries(this.parts)) part.details.hidden = !has[name];
    if (has.latency) this.parts.latency.update(() => [latencyTable(model, recent, bounds)]);
    if (has.batches) {
      this.parts.batches.update(() => [table("Runs by the rows that shared them", ["Rows", "Runs"], model.batches.map((one) => one.map(writeCount)))]);
    }
    if (has.tried) this.parts.tried.update(() => [triedTable(model)]);
    if (has.devices) this.parts.devices.update(() => deviceTables(model));
  }
}

/** Loads or unloads a model, and says how that ended. `provider`: of a load, where one was chosen. */
export async function change(name, action, busy, provider) {
  const verb = action === "load" ? "Loading" : "Unloading";
  announce(`${verb} ${name} …`);
  busy?.setAttribute("aria-busy", "true");
  try {
    await postJson(pathOf("v2/repository/models", name, action), loadRequest(provider));
    announce(`${name} is ${action}ed.`);
  } catch (error) {
    announce(`${verb} ${name} failed: ${error.message}`);
  } finally {
    busy?.removeAttribute("aria-busy");
  }
}

const cards = new Map();
let server = new Recent(minute);
const setTotals = figureList(document.getElementById("totals"));

function showServer(state, time) {
  server.add(time, state.server);
  const { version, uptime_seconds, is_ready } = state.server;
  setText(document.getElementById("server"), `${version}, up ${writeDuration(uptime_seconds)}${is_ready ? "" : ", shutting down"}`);
  setTotals({
    "HTTP requests/s": writeNumber(rate(server, (one) => one.requests)),
    "Refused/s": writeNumber(rate(server, (one) => one.refused)),
    "Connections": writeCount(state.server.connections),
    "gRPC calls": writeCount(state.server.grpc_calls),
    "Memory of the process": writeBytes(state.server.resident_bytes),
    "Memory of requests": writeBytes(state.server.request_memory_bytes),
  });
}

/** What was read before the server began anew says nothing of now; another version has another page. */
function forgetBefore(state) {
  const before = server.samples.at(-1)?.value;
  if (before !== undefined && before.version !== state.server.version) location.reload();
  if (!hasRestarted(before, state.server)) return;
  server = new Recent(minute);
  for (const card of cards.values()) card.history = new History();
}

/** Shows a state of the server that came at `time`. */
export function showOverview(state, time) {
  forgetBefore(state);
  showServer(state, time);
  const list = document.getElementById("model-list");
  const seen = new Set();
  for (const model of state.models) {
    const id = JSON.stringify([model.name, model.version]);
    seen.add(id);
    if (!cards.has(id)) {
      cards.set(id, new Card(model.name, model.version));
      list.append(cards.get(id).node);
    }
    cards.get(id).offer(state.server.providers);
    cards.get(id).show(model, time, state.bounds);
  }
  for (const [id, card] of cards) {
    if (seen.has(id)) continue;
    card.node.remove();
    cards.delete(id);
  }
  document.getElementById("no-models").hidden = state.models.length !== 0;
}
