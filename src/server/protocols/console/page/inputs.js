// What models can be given, as the form of the page has it, and how requests and answers are written. Pure functions.

const longestSample = 4096;
const longestAnswer = 20_000;

/** The path of a model below `root`. */
export function pathOf(root, model, rest) {
  return `${root}/${encodeURIComponent(model)}/${rest}`;
}

/** What a model of the state can be given: [name, title] pairs. */
export function kindsOf(model) {
  const able = new Set(model.abilities ?? []);
  const kinds = [];
  if (able.has("rank")) kinds.push(["rank", "A query and texts to rank"]);
  if (able.has("answer_questions")) kinds.push(["question", "A question and its context"]);
  if (["embed", "embed_sparse", "classify", "find_entities", "generate"].some((one) => able.has(one))) kinds.push(["text", "A text"]);
  if (model.takes_images || able.has("embed_images")) kinds.push(["image", "An image"]);
  if (!able.has("generate")) kinds.push(["values", "Values as JSON"]);
  return kinds;
}

function textRequest(model, text) {
  const able = new Set(model.abilities);
  if (able.has("embed")) return { path: "v1/embeddings", json: { model: model.name, input: text } };
  if (able.has("generate")) return { path: "v1/completions", json: { model: model.name, prompt: text, max_tokens: 64 } };
  const route = able.has("embed_sparse") ? "embed_sparse" : "predict";
  return { path: pathOf("models", model.name, route), json: { inputs: text } };
}

/** The request that gives the model what is in the form: `path` with `json`, or with a `file`. Pure. */
export function requestOf(model, kind, fields) {
  const predict = pathOf("models", model.name, "predict");
  switch (kind) {
    case "rank":
      return { path: pathOf("models", model.name, "rerank"), json: { query: fields.query, texts: fields.texts.split("\n").filter((line) => line.trim() !== ""), return_text: true } };
    case "question":
      return { path: predict, json: { inputs: { question: fields.question, context: fields.context } } };
    case "text":
      return textRequest(model, fields.text);
    case "image":
      if (model.takes_images) return { path: predict, file: fields.file };
      return { path: "v1/embeddings", json: { model: model.name, input: [{ image: fields.dataUrl }] } };
    default:
      return { path: predict, json: JSON.parse(fields.values) };
  }
}

function filled(shape, value) {
  if (shape.length === 0) return value;
  const length = typeof shape[0] === "number" ? shape[0] : 1;
  return Array.from({ length }, () => filled(shape.slice(1), value));
}

/** Values that fit the declared inputs, for a start: zeros, "text", false. Pure. */
export function sampleOf(info) {
  const sample = {};
  for (const input of info.inputs.filter((one) => one.required)) {
    const shape = input.shape ?? [];
    const elements = shape.reduce((product, size) => product * (typeof size === "number" ? size : 1), 1);
    const value = input.type === "string" ? "text" : input.type === "bool" ? false : 0;
    sample[input.name] = elements > longestSample ? [] : filled(shape, value);
  }
  return JSON.stringify(sample);
}

/** The place behind the string of a JSON text that begins before `from`. */
function endOfString(text, from) {
  for (let index = from; ; ) {
    const end = text.indexOf('"', index);
    if (end === -1) return text.length;
    let slashes = 0;
    while (text[end - 1 - slashes] === "\\") slashes += 1;
    if (slashes % 2 === 0) return end + 1;
    index = end + 1;
  }
}

/** Whether a JSON text has integers that a number of JavaScript has only rounded. */
export function hasRoundedIntegers(text) {
  const token = /"|(?<![\d.])-?\d{16,}(?![\d.eE])/g;
  for (let found = token.exec(text); found !== null; found = token.exec(text)) {
    if (found[0] === '"') token.lastIndex = endOfString(text, token.lastIndex);
    else if (!Number.isSafeInteger(Number(found[0]))) return true;
  }
  return false;
}

/** Why a file is no image that models are given; empty where it is one. */
export function problemOfImage(file) {
  return file.type.startsWith("image/") ? "" : `${file.name} is ${file.type || "a file of an unknown type"}, and no image`;
}

/** The parts of a value's text. `line` begins a line of the value. */
function* written(value, line) {
  if (value === null || typeof value !== "object") {
    yield JSON.stringify(value);
    return;
  }
  const isList = Array.isArray(value);
  const isRow = isList && value.every((one) => one === null || typeof one === "number" || typeof one === "boolean");
  const [start, end] = isList ? "[]" : "{}";
  const before = isRow ? " " : `${line} `;
  let separator = "";
  yield start;
  for (const entry of isList ? value : Object.entries(value)) {
    yield separator + before;
    separator = ",";
    if (!isList) yield `${JSON.stringify(entry[0])}: `;
    yield* written(isList ? entry : entry[1], before);
  }
  if (separator !== "") yield isRow ? " " : line;
  yield end;
}

/** Written with a line for each member, but lists of numbers on one. Long ones are cut before they are written. */
export function pretty(value) {
  let text = "";
  for (const part of written(value, "\n")) {
    text += part;
    if (text.length > longestAnswer) return `${text.slice(0, longestAnswer)}\n… (the first ${longestAnswer.toLocaleString("en")} characters)`;
  }
  return text;
}

/** The body of a request to load a model: on a provider ({ id, kind }), in the terms of Triton's configuration, or as
    its list or folder says. */
export function loadRequest(provider) {
  if (provider === undefined) return {};
  const list = provider.kind === "gpu" ? "gpu" : "cpu";
  const config = {
    instance_group: [{ kind: `KIND_${list.toUpperCase()}` }],
    optimization: { execution_accelerators: { [`${list}_execution_accelerator`]: [{ name: provider.id }] } },
  };
  return { parameters: { config: JSON.stringify(config) } };
}
