// The functions of the console's page that need no browser.
import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

// Node reads a file as a module where a package.json says so, which the page has not.
const page = fs.mkdtempSync(path.join(os.tmpdir(), "gpux-console-"));
const source = path.join(path.dirname(fileURLToPath(import.meta.url)), "../../src/server/protocols/console/page");
fs.cpSync(source, page, { recursive: true });
fs.writeFileSync(path.join(page, "package.json"), '{"type": "module"}');
process.on("exit", () => fs.rmSync(page, { recursive: true }));
const { addToolCalls, cutter, eventsOf, linesOf, messageOf, requireSuccess } = await import(`${page}/answers.js`);
const { comparison, inputsOf, largestDifference } = await import(`${page}/compare.js`);
const { readAnswer, takeBack } = await import(`${page}/conversation.js`);
const figures = await import(`${page}/figures.js`);
const { authorizationOf, problemOfKey } = await import(`${page}/keys.js`);
const { hasRoundedIntegers, kindsOf, loadRequest, pathOf, pretty, problemOfImage, requestOf, sampleOf } = await import(`${page}/inputs.js`);

test("percentiles are within the bucket that has them", () => {
  const bounds = [1, 2, 4];
  assert.equal(figures.percentile(bounds, [0, 0, 0, 0], 0.5), undefined);
  assert.equal(figures.percentile(bounds, [10, 0, 0, 0], 0.5), 0.5);
  assert.equal(figures.percentile(bounds, [5, 5, 0, 0], 0.5), 1);
  assert.equal(figures.percentile(bounds, [0, 0, 10, 0], 0.5), 3);
  assert.equal(figures.percentile(bounds, [9, 0, 1, 0], 0.95), 3);
  assert.equal(figures.percentile(bounds, [0, 0, 0, 7], 0.5), 4);
});

test("rates are of the time between the samples that are kept", () => {
  const recent = new figures.Recent(60_000);
  assert.equal(figures.rate(recent, (value) => value), undefined);
  recent.add(0, 100);
  assert.equal(figures.rate(recent, (value) => value), undefined);
  recent.add(30_000, 400);
  assert.equal(figures.rate(recent, (value) => value), 10);
  recent.add(90_000, 400);
  assert.deepEqual(recent.samples.map((one) => one.time), [30_000, 90_000]);
  assert.equal(figures.rate(recent, (value) => value), 0);
  recent.add(120_000, 10);
  assert.equal(figures.rate(recent, (value) => value), 0, "a counter that began again");
});

test("new counts are those since the first sample", () => {
  const recent = new figures.Recent(60_000);
  assert.deepEqual(figures.newCounts(recent, (one) => one.counts), []);
  recent.add(0, {});
  assert.deepEqual(figures.newCounts(recent, (one) => one.counts), []);
  recent.add(1000, { counts: [1, 2] });
  assert.deepEqual(figures.newCounts(recent, (one) => one.counts), [1, 2]);
  const other = new figures.Recent(60_000);
  other.add(0, { counts: [1, 2] });
  other.add(1000, { counts: [4, 2] });
  assert.deepEqual(figures.newCounts(other, (one) => one.counts), [3, 0]);
});

test("figures are written with their units", () => {
  assert.equal(figures.writeSeconds(0.000042), "42 µs");
  assert.equal(figures.writeSeconds(0.0123), "12.3 ms");
  assert.equal(figures.writeSeconds(2.5), "2.5 s");
  assert.equal(figures.writeSeconds(undefined), "–");
  assert.equal(figures.writeBytes(0), "0 bytes");
  assert.equal(figures.writeBytes(1536), "1.5 KiB");
  assert.equal(figures.writeBytes(5 * 2 ** 30), "5 GiB");
  assert.equal(figures.writeNumber(1234.5), "1,235");
  assert.equal(figures.writeDuration(59), "59 s");
  assert.equal(figures.writeDuration(3 * 3600 + 61), "3 h 1 min");
  assert.equal(figures.writeDuration(72 * 3600), "3 days");
});

test("errors of every protocol have a message", () => {
  for (const [body, message] of [
    ['{"detail": "a"}', "a"],
    ['{"error": "b"}', "b"],
    ['{"error": {"message": "c", "type": "t"}}', "c"],
    ['{"type": "error", "error": {"type": "t", "message": "d"}}', "d"],
    ["<html>", "<html>"],
    ["{}", "{}"],
    ["null", "null"],
  ]) {
    assert.equal(messageOf(body), message);
  }
});

function answerOf(...pieces) {
  const bytes = new TextEncoder();
  const body = new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(typeof piece === "string" ? bytes.encode(piece) : piece);
      controller.close();
    },
  });
  return { body };
}

async function all(values) {
  const list = [];
  for await (const value of values) list.push(value);
  return list;
}

test("streams are cut where they have to be, not where they come", async () => {
  const cut = cutter("\n");
  assert.deepEqual(cut("a\nb"), ["a"]);
  assert.deepEqual(cut("c\n\n"), ["bc"]);
  assert.deepEqual(cut("d"), []);
  assert.deepEqual(cut(), ["d"]);
  assert.deepEqual(await all(linesOf(answerOf('{"a":', '1}\n{"a":2}\n'))), [{ a: 1 }, { a: 2 }]);
  const euro = new TextEncoder().encode('data: {"t":"€"}\n\n');
  const events = answerOf(": alive\n\n", euro.slice(0, 13), euro.slice(13), 'data: {"t":2}\n\ndata: [DONE]\n\ndata: {"t":3}\n\n');
  assert.deepEqual(await all(eventsOf(events)), [{ t: "€" }, { t: 2 }]);
});

test("calls of tools are put together", () => {
  const calls = addToolCalls([], [{ index: 0, id: "1", function: { name: "f", arguments: "" } }]);
  addToolCalls(calls, [{ index: 0, function: { arguments: '{"a"' } }, { index: 1, id: "2", function: { name: "g" } }]);
  addToolCalls(calls, [{ index: 0, function: { arguments: ": 1}" } }]);
  addToolCalls(calls, undefined);
  assert.deepEqual(calls, [
    { id: "1", type: "function", function: { name: "f", arguments: '{"a": 1}' } },
    { id: "2", type: "function", function: { name: "g", arguments: "" } },
  ]);
});

test("answers of two models are compared", () => {
  assert.equal(largestDifference({ y: [[1, 2]] }, { y: [[1, 2.5]] }), 0.5);
  assert.equal(largestDifference({ a: 1, b: 2 }, { b: 2, a: 1 }), 0);
  assert.equal(largestDifference([1], [1, 2]), undefined);
  const write = (value) => String(value);
  assert.equal(comparison({ y: [1], l: "a" }, { y: [1], l: "a" }, write), "equal");
  assert.equal(comparison({ y: [1], model: "a", created: 1 }, { y: [1], model: "b", created: 2 }, write), "equal");
  assert.equal(comparison({ y: [1], l: "a" }, { y: [1], l: "b" }, write), "equal numbers, other texts");
  assert.equal(comparison({ y: [1] }, { y: [1.25] }, write), "numbers differ by at most 0.25");
  assert.equal(comparison({ y: [1] }, { y: [] }, write), "another shape");
  const named = (id, value) => ({ id, created: 1 + value, model: id, system_fingerprint: id, data: [0.5] });
  assert.equal(comparison(named("a", 1), named("b", 2), write), "equal", "what only names an answer");
  assert.equal(comparison({ y: [{ id: "a" }] }, { y: [{ id: "b" }] }, write), "equal numbers, other texts");
  const info = (name, shape) => ({ inputs: [{ name, type: "float32", shape }] });
  assert.equal(inputsOf(info("x", [null, 3])), inputsOf(info("x", ["batch", 3])));
  assert.equal(inputsOf(info("x", null)), inputsOf(info("x", null)), "an unknown rank");
  assert.notEqual(inputsOf(info("x", null)), inputsOf(info("x", [])));
  assert.notEqual(inputsOf(info("x", [3])), inputsOf(info("y", [3])));
});

test("a load on a provider brings a configuration of Triton's", () => {
  const config = (provider) => JSON.parse(loadRequest(provider).parameters.config);
  assert.deepEqual(loadRequest(undefined), {});
  assert.deepEqual(config({ id: "tensorrt", kind: "gpu" }), {
    instance_group: [{ kind: "KIND_GPU" }],
    optimization: { execution_accelerators: { gpu_execution_accelerator: [{ name: "tensorrt" }] } },
  });
  for (const provider of [{ id: "encoder", kind: "cpu" }, { id: "qnn", kind: "npu" }]) {
    assert.deepEqual(config(provider), {
      instance_group: [{ kind: "KIND_CPU" }],
      optimization: { execution_accelerators: { cpu_execution_accelerator: [{ name: provider.id }] } },
    });
  }
});

test("a model is asked on the route of what it can do", () => {
  const model = (abilities, takes_images = false) => ({ name: "a/b", abilities, takes_images });
  const names = (one) => kindsOf(one).map(([name]) => name);
  assert.deepEqual(names(model([])), ["values"]);
  assert.deepEqual(names(model([], true)), ["image", "values"]);
  assert.deepEqual(names(model(["generate", "chat"])), ["text"]);
  assert.deepEqual(names(model(["rank", "classify"])), ["rank", "text", "values"]);
  assert.deepEqual(names({ name: "not described" }), ["values"]);
  assert.equal(pathOf("models", "a/b c", "info"), "models/a%2Fb%20c/info");
  assert.deepEqual(requestOf(model(["embed"]), "text", { text: "t" }), { path: "v1/embeddings", json: { model: "a/b", input: "t" } });
  assert.deepEqual(requestOf(model(["classify"]), "text", { text: "t" }), { path: "models/a%2Fb/predict", json: { inputs: "t" } });
  assert.deepEqual(requestOf(model(["rank"]), "rank", { query: "q", texts: "a\n\nb" }).json, { query: "q", texts: ["a", "b"], return_text: true });
  assert.deepEqual(requestOf(model([], true), "image", { file: 1 }), { path: "models/a%2Fb/predict", file: 1 });
  assert.deepEqual(requestOf(model(["embed_images"]), "image", { dataUrl: "data:" }).json.input, [{ image: "data:" }]);
  assert.deepEqual(requestOf(model([]), "values", { values: '{"x": 1}' }).json, { x: 1 });
  assert.throws(() => requestOf(model([]), "values", { values: "{" }), SyntaxError);
});

test("a form begins with values that fit", () => {
  const inputs = [
    { name: "x", type: "float32", shape: [null, 2], required: true },
    { name: "s", type: "string", shape: [1], required: true },
    { name: "b", type: "bool", shape: [], required: true },
    { name: "huge", type: "uint8", shape: [1000, 1000], required: true },
    { name: "optional", type: "float32", shape: [1], required: false },
  ];
  assert.equal(sampleOf({ inputs }), '{"x":[[0,0]],"s":["text"],"b":false,"huge":[]}');
});

test("answers are written with lists of numbers on one line, and cut", () => {
  assert.equal(pretty({ y: [[1, -2.5e-7], [3, 4]] }), '{\n "y": [\n  [ 1, -2.5e-7 ],\n  [ 3, 4 ]\n ]\n}');
  assert.equal(pretty([]), "[]");
  assert.equal(pretty({ a: {}, b: ["x", null, true, [1, null]] }), '{\n "a": {},\n "b": [\n  "x",\n  null,\n  true,\n  [ 1, null ]\n ]\n}');
  assert.equal(pretty("x"), '"x"');
  assert.equal(pretty(null), "null");
  for (const value of ["text", -0.5]) {
    const text = pretty(Array.from({ length: 2_000_000 }, () => value));
    assert.match(text, /… \(the first 20,000 characters\)$/);
    assert.ok(text.length < 20_100);
  }
  assert.ok(pretty([...Array.from({ length: 5000 }, () => -0.5), "x"]).startsWith("[\n -0.5,\n -0.5"), "in a time that grows with the length");
});

function eventsWith(...chunks) {
  return answerOf(...chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`));
}

function silent() {
  return { addText() {}, addReasoning() {}, showCalls() {} };
}

test("an answer is added to the conversation that it began in, also where it breaks off", async () => {
  const part = (delta, finish_reason = null) => ({ choices: [{ delta, finish_reason }] });
  const messages = [];
  const whole = await readAnswer(eventsWith(part({ content: "a" }), part({ content: "b" }, "length"), { choices: [], usage: { prompt_tokens: 1 } }), messages, silent());
  assert.deepEqual(messages, [{ role: "assistant", content: "ab" }]);
  assert.deepEqual([whole.isCut, whole.usage, whole.calls], [true, { prompt_tokens: 1 }, []]);
  const call = { index: 0, id: "1", function: { name: "f", arguments: "{}" } };
  const called = await readAnswer(eventsWith(part({ content: "c" }), part({ tool_calls: [call] }, "tool_calls")), messages, silent());
  assert.equal(called.isCut, false);
  assert.deepEqual(messages[1], { role: "assistant", content: "c", tool_calls: called.calls });
  // The page begins a new conversation while the old one's answer still comes.
  let conversation = [{ role: "user", content: "old" }];
  const old = conversation;
  const shown = { ...silent(), addText: () => { conversation = []; } };
  const broken = readAnswer(eventsWith(part({ content: "d" }), part({ tool_calls: [call] }), { error: { message: "no" } }), conversation, shown);
  await assert.rejects(broken, /no/);
  assert.deepEqual(conversation, []);
  assert.deepEqual(old.at(-1), { role: "assistant", content: "d" });
});

test("a message that nothing has answered is taken back", () => {
  const messages = [{ role: "assistant", content: "a" }, { role: "user", content: "b" }];
  assert.equal(takeBack(messages), "b");
  assert.equal(takeBack(messages), undefined);
  assert.equal(takeBack([]), undefined);
  assert.equal(messages.length, 1);
});

test("lines of the log that stay are found", () => {
  for (const [before, now, gone] of [
    [[], ["a"], 0],
    [["a", "b"], ["a", "b", "c"], 0],
    [["a", "b"], ["b", "c"], 1],
    [["a", "a", "b"], ["a", "b"], 1],
    [["a", "b"], ["c"], 2],
    [["a", "b"], [], 2],
    [["a", "b"], ["a"], 2],
  ]) {
    assert.equal(figures.countGone(before, now), gone, `${before} ${now}`);
  }
});

test("times have their day where that is another", () => {
  const midnight = new Date(2026, 2, 4, 0, 5, 9).getTime();
  assert.equal(figures.writeTime(midnight, midnight + 3_600_000), "00:05:09");
  assert.equal(figures.writeTime(midnight, midnight + 24 * 3_600_000), "Mar 4 00:05:09");
});

test("a server that began anew is noticed", () => {
  const of = (uptime_seconds) => ({ uptime_seconds });
  assert.equal(figures.hasRestarted(undefined, of(1)), false);
  assert.equal(figures.hasRestarted(of(1), of(3)), false);
  assert.equal(figures.hasRestarted(of(100), of(3)), true);
});

test("a pull has succeeded only where its last line says so", () => {
  requireSuccess({ status: "success" });
  for (const line of [undefined, {}, { status: "pulling" }]) assert.throws(() => requireSuccess(line), /too early/);
});

test("files that are no images are refused by name", () => {
  assert.equal(problemOfImage({ name: "a.png", type: "image/png" }), "");
  assert.equal(problemOfImage({ name: "a.pdf", type: "application/pdf" }), "a.pdf is application/pdf, and no image");
  assert.match(problemOfImage({ name: "a", type: "" }), /^a is a file of an unknown type/);
});

test("keys that no request can have are refused", () => {
  assert.equal(problemOfKey("a-key ü"), "");
  for (const text of ["", "a\u0000", "a\tb", "\u007f"]) assert.notEqual(problemOfKey(text), "");
  const header = authorizationOf("a€");
  assert.equal(header, "Bearer a\u00e2\u0082\u00ac");
  assert.equal(new Headers({ Authorization: header }).get("Authorization"), header);
});

test("integers that are shown rounded are found", () => {
  for (const text of ['{"y": [1, -9007199254740993]}', "12345678901234567", '["a\\\\", 12345678901234567]']) {
    assert.equal(hasRoundedIntegers(text), true, text);
  }
  for (const text of ["[9007199254740991]", "0.12345678901234567", "12345678901234567.5", "12345678901234567e3", '["12345678901234567", "\\", 12345678901234567"]', '"']) {
    assert.equal(hasRoundedIntegers(text), false, text);
  }
});
