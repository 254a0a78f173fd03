// A form that gives a model values, an image or texts, and shows what it answers; also several models the same.
import { comparison, inputsOf } from "./compare.js";
import { announce, labelled, make, newId, setText, table } from "./elements.js";
import { writeNumber } from "./figures.js";
import { hasRoundedIntegers, kindsOf, pretty, problemOfImage, requestOf, sampleOf } from "./inputs.js";
import { postJson, readJson, send } from "./server.js";

function dataUrlOf(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/** A place to drop an image on, with a button to choose one. */
function imageField() {
  const preview = make("img", { alt: "The image that was chosen", hidden: true });
  const input = make("input", { type: "file", accept: "image/jpeg,image/png,image/webp" });
  const name = make("p", { class: "hint", role: "status" }, "JPEG, PNG or WebP. It can also be dropped here.");
  const zone = make("div", { class: "drop" }, ...labelled("Image", input), name, preview);
  const field = { node: zone, file: null };
  const choose = (file) => {
    if (preview.src) URL.revokeObjectURL(preview.src);
    preview.removeAttribute("src");
    preview.hidden = true;
    const problem = file ? problemOfImage(file) : "No image is chosen.";
    field.file = problem === "" ? file : null;
    if (problem !== "") {
      setText(name, problem);
      return;
    }
    preview.src = URL.createObjectURL(file);
    preview.hidden = false;
    setText(name, `${file.name}, ${file.size.toLocaleString("en")} bytes`);
  };
  input.addEventListener("change", () => choose(input.files[0]));
  zone.addEventListener("dragover", (event) => {
    event.preventDefault();
    zone.classList.add("over");
  });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    input.files = event.dataTransfer.files;
    choose(input.files[0]);
  });
  return field;
}

function area(rows, text = "") {
  const node = make("textarea", { rows, spellcheck: "false" });
  node.value = text;
  return node;
}

/** The fields of a kind of input: nodes for the form, and `read()` that gives their values. */
function fieldsOf(kind, info) {
  const single = (name, title, node) => ({ nodes: labelled(title, node), read: async () => ({ [name]: node.value }) });
  switch (kind) {
    case "rank": {
      const query = make("input", { type: "text" });
      const texts = area(5);
      return {
        nodes: [...labelled("Query", query), ...labelled("Texts, one on each line", texts)],
        read: async () => ({ query: query.value, texts: texts.value }),
      };
    }
    case "question": {
      const question = make("input", { type: "text" });
      const context = area(5);
      return {
        nodes: [...labelled("Question", question), ...labelled("Context", context)],
        read: async () => ({ question: question.value, context: context.value }),
      };
    }
    case "text":
      return single("text", "Text", area(4));
    case "image": {
      const field = imageField();
      const read = async () => {
        if (field.file === null) throw new Error("no image is chosen");
        return { file: field.file, dataUrl: await dataUrlOf(field.file) };
      };
      return { nodes: [field.node], read };
    }
    default:
      return single("values", "Values as JSON", area(8, sampleOf(info)));
  }
}

async function run(model, kind, fields) {
  const request = requestOf(model, kind, fields);
  const began = performance.now();
  const answer = request.file
    ? await send(request.path, { method: "POST", headers: { "Content-Type": request.file.type }, body: request.file })
    : await postJson(request.path, request.json);
  const text = await answer.text();
  const milliseconds = performance.now() - began;
  const header = (name) => answer.headers.get(name) ?? "–";
  return {
    name: model.name,
    verdict: header("x-gpux-verdict"),
    times: [header("x-queue-time"), header("x-inference-time"), header("x-total-time"), milliseconds.toFixed(1)],
    value: JSON.parse(text),
    isRounded: hasRoundedIntegers(text),
  };
}

function answerNodes(results) {
  const first = results.find((one) => one.value !== undefined);
  const rows = results.map((one) =>
    one.error
      ? [one.name, one.error, "", "", "", "", ""]
      : [one.name, one.verdict, ...one.times, one === first ? "" : comparison(first.value, one.value, writeNumber)],
  );
  const headers = ["Model", "Ran on", "Queue, ms", "Model, ms", "Server, ms", "Browser, ms", "Beside the first"];
  const title = newId("answer");
  return [
    make("h3", { id: title, tabindex: "-1" }, "Answer"),
    make("div", { class: "scroll", role: "region", "aria-labelledby": title, tabindex: "0" }, table("Where it ran, and how long", headers, rows)),
    ...results
      .filter((one) => one.value !== undefined)
      .map((one) => make("figure", {}, make("figcaption", {}, one.isRounded ? `${one.name}, integers beyond 2^53 rounded` : one.name), make("pre", { tabindex: "0", role: "region", "aria-label": `Answer of ${one.name}` }, pretty(one.value)))),
  ];
}

const form = document.getElementById("try-form");
const answerArea = document.getElementById("try-answer");
const choice = make("select");
const kindArea = make("fieldset", {}, make("legend", {}, "Input"));
const inputArea = make("div", { class: "form" });
const othersArea = make("fieldset", { hidden: true });
const button = make("button", { type: "submit" }, "Run");
let models = [];
let infos = [];
let fields = null;

function chosen() {
  return models.find((one) => one.name === choice.value);
}

function chosenKind() {
  return kindArea.querySelector("input:checked")?.value;
}

function showInput() {
  const info = infos.find((one) => one.name === choice.value);
  if (info === undefined || chosenKind() === undefined) return;
  fields = fieldsOf(chosenKind(), info);
  inputArea.replaceChildren(...fields.nodes);
}

/** Models that take the same input, to be run beside the chosen one: the same file on several providers, for example. */
function showOthers() {
  const info = infos.find((one) => one.name === choice.value);
  const ticked = new Set([...othersArea.querySelectorAll("input:checked")].map((box) => box.value));
  const same = infos.filter((one) => info && one.name !== info.name && inputsOf(one) === inputsOf(info) && models.some((model) => model.name === one.name));
  othersArea.replaceChildren(make("legend", {}, "Compare with"));
  for (const one of same) {
    const box = make("input", { type: "checkbox", value: one.name, id: newId("with") });
    box.checked = ticked.has(one.name);
    othersArea.append(make("p", { class: "choice" }, box, make("label", { for: box.id }, `${one.name}, on ${one.provider || "no provider"}`)));
  }
  othersArea.hidden = same.length === 0;
}

async function showModel() {
  const model = chosen();
  if (model === undefined) return;
  const { models: read } = await readJson("models");
  // The user may have chosen another one in the meantime, or the model is gone.
  if (chosen()?.name !== model.name) return;
  infos = read;
  const kinds = kindsOf(model);
  kindArea.replaceChildren(make("legend", {}, "Input"));
  kinds.forEach(([name, title], index) => {
    const radio = make("input", { type: "radio", name: "kind", value: name, id: newId("kind"), onchange: showInput });
    radio.checked = index === 0;
    kindArea.append(make("p", { class: "choice" }, radio, make("label", { for: radio.id }, title)));
  });
  showInput();
  showOthers();
}

/** Others may have come. */
async function updateOthers() {
  infos = (await readJson("models")).models;
  showOthers();
}

async function submit(event) {
  event.preventDefault();
  button.disabled = true;
  try {
    const values = await fields.read();
    const names = [...othersArea.querySelectorAll("input:checked")].map((box) => box.value);
    const results = [];
    // One after the other, so that they do not compete for the processor.
    for (const name of [choice.value, ...names]) {
      const model = models.find((one) => one.name === name);
      announce(`Running ${name} …`);
      try {
        results.push(await run(model, chosenKind(), values));
      } catch (error) {
        results.push({ name, error: error.message });
      }
    }
    answerArea.replaceChildren(...answerNodes(results));
    const failed = results.filter((one) => one.error);
    announce(failed.length === 0 ? "The answer is there." : `${failed[0].name}: ${failed[0].error}`);
  } catch (error) {
    announce(error.message);
  } finally {
    button.disabled = false;
  }
}

form.append(...labelled("Model", choice), kindArea, inputArea, othersArea, make("p", { class: "actions" }, button));
form.addEventListener("submit", submit);
choice.addEventListener("change", () => void showModel().catch((error) => announce(error.message)));

/** The models that can be chosen are those that are loaded, or loaded on request. */
export function showTry(state) {
  const names = new Set(state.models.filter((one) => one.serves && one.abilities !== undefined).map((one) => one.name));
  models = state.models.filter((one) => names.has(one.name) && one.serves);
  form.hidden = names.size === 0;
  document.getElementById("no-try").hidden = names.size !== 0;
  const listed = [...choice.options].map((option) => option.value);
  if (listed.join("\n") === [...names].join("\n")) return;
  const before = choice.value;
  choice.replaceChildren(...[...names].map((name) => make("option", { value: name }, name)));
  if (names.has(before)) {
    choice.value = before;
    void updateOthers().catch((error) => announce(error.message));
  } else {
    void showModel().catch((error) => announce(error.message));
  }
}
