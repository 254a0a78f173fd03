// The models of the store: pull one, with its progress, and load those that are there.
import { linesOf, requireSuccess } from "./answers.js";
import { announce, labelled, make, setText, table } from "./elements.js";
import { writeBytes } from "./figures.js";
import { change } from "./overview.js";
import { postJson, readJson } from "./server.js";

const area = document.getElementById("store-area");
const reference = make("input", { type: "text", autocomplete: "off", spellcheck: "false", required: true });
const pullButton = make("button", { type: "submit" }, "Pull");
const stopButton = make("button", { type: "button", disabled: true }, "Stop");
const bar = make("progress", { max: "1", hidden: true, "aria-label": "Progress of the pull" });
const text = make("p", { class: "hint" });
const listArea = make("div", { class: "scroll", role: "region", "aria-label": "Models of the store", tabindex: "0" });
let running = null;

function showProgress(line) {
  const part = line.total ? `, ${writeBytes(line.completed ?? 0)} of ${writeBytes(line.total)}` : "";
  setText(text, line.status + part);
  if (line.total) bar.value = (line.completed ?? 0) / line.total;
  else bar.removeAttribute("value");
}

async function pull(event) {
  event.preventDefault();
  const name = reference.value.trim();
  running = new AbortController();
  pullButton.disabled = true;
  stopButton.disabled = false;
  bar.hidden = false;
  bar.removeAttribute("value");
  announce(`Pulling ${name} …`);
  try {
    const answer = await postJson("api/pull", { model: name, stream: true }, running.signal);
    let last;
    for await (const line of linesOf(answer)) {
      if (line.error) throw new Error(line.error);
      showProgress(line);
      last = line;
    }
    requireSuccess(last);
    announce(`${name} is in the store.`);
    await list();
  } catch (error) {
    announce(running.signal.aborted ? `The pull of ${name} was stopped. The next one resumes it.` : `The pull of ${name} failed: ${error.message}`);
  } finally {
    bar.hidden = true;
    setText(text, "");
    pullButton.disabled = false;
    stopButton.disabled = true;
  }
}

/** Lists what is stored. */
export async function list() {
  const { models } = await readJson("api/tags");
  const node = table("Models of the store", ["Name", "Size", "Digest", "Action"], models.map((one) => [one.name, writeBytes(one.size), one.digest.slice(0, 12), ""]));
  node.querySelectorAll("tbody tr").forEach((row, index) => {
    const { name } = models[index];
    const load = make("button", { type: "button", onclick: () => change(name, "load", row) }, "Load", make("span", { class: "unseen" }, ` ${name}`));
    row.lastChild.append(load);
  });
  listArea.replaceChildren(node);
}

const form = make(
  "form",
  { class: "form" },
  ...labelled("Reference of a model", reference),
  make("p", { class: "hint" }, "As gpux pull takes it: ORG/NAME of the hub, a repository of a registry, or the address of an ONNX file."),
  make("p", { class: "actions" }, pullButton, stopButton),
  bar,
  text,
);
form.addEventListener("submit", pull);
stopButton.addEventListener("click", () => running?.abort());
area.append(form, make("h3", {}, "Stored models"), make("p", { class: "actions" }, make("button", { type: "button", onclick: () => list().catch((error) => announce(error.message)) }, "Refresh the list")), listArea);

export function showStore(state) {
  area.hidden = !state.server.serves_store;
  document.getElementById("no-store").hidden = state.server.serves_store;
}
