// A conversation with a model, streamed, with tools whose results the user types.
import { readAnswer, takeBack } from "./conversation.js";
import { announce, labelled, make, newId, setText } from "./elements.js";
import { writeNumber, writeSeconds } from "./figures.js";
import { postJson } from "./server.js";

const roles = { system: "System", user: "You", assistant: "Model", tool: "Result of a tool" };
const exampleTools = `[{"type": "function", "function": {"name": "weather", "description": "The weather in a city",
  "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]`;

const choice = make("select");
const system = make("textarea", { rows: 2 });
const temperature = make("input", { type: "number", min: "0", max: "2", step: "0.1", placeholder: "the model's" });
const longest = make("input", { type: "number", min: "1", step: "1", value: "512" });
const tools = make("textarea", { rows: 5, spellcheck: "false", placeholder: exampleTools });
const useOfTools = make(
  "select",
  {},
  ...Object.entries({ auto: "As the model decides", required: "The model has to call one", none: "None" }).map(([value, text]) => make("option", { value }, text)),
);
const list = make("ol", { class: "messages", "aria-label": "Conversation", tabindex: "0" });
const resultArea = make("div", { class: "form" });
const message = make("textarea", { rows: 3 });
const sendButton = make("button", { type: "submit" }, "Send");
const stopButton = make("button", { type: "button", disabled: true }, "Stop");
const newButton = make("button", { type: "button" }, "New conversation");
const figures = make("p", { class: "hint" });

let messages = [];
let running = null;

/** Adds to the list, and stays at its end if the end is in view. */
function grow(add) {
  const isAtEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 40;
  add();
  if (isAtEnd) list.scrollTop = list.scrollHeight;
}

/** A message in the list, whose texts can be added to. */
function addMessage(role) {
  const text = make("div", { class: "text" });
  const reasoning = make("div", { class: "text" });
  const details = make("details", { hidden: true }, make("summary", {}, "Reasoning"), reasoning);
  const calls = make("ul", { class: "calls", hidden: true });
  grow(() => list.append(make("li", { class: role }, make("h3", {}, roles[role]), details, text, calls)));
  const shownCall = (call) => make("li", {}, make("code", {}, `${call.function.name}(${call.function.arguments})`));
  return {
    addText: (piece) => grow(() => text.append(piece)),
    addReasoning: (piece) => {
      details.hidden = false;
      grow(() => reasoning.append(piece));
    },
    showCalls: (all) => {
      calls.hidden = all.length === 0;
      grow(() => calls.replaceChildren(...all.map(shownCall)));
    },
  };
}

function bodyOf() {
  const body = { model: choice.value, messages: [...messages], stream: true, stream_options: { include_usage: true } };
  if (system.value.trim() !== "") body.messages.unshift({ role: "system", content: system.value });
  if (temperature.value !== "") body.temperature = Number(temperature.value);
  if (longest.value !== "") body.max_tokens = Number(longest.value);
  if (tools.value.trim() !== "") {
    body.tools = JSON.parse(tools.value);
    body.tool_choice = useOfTools.value;
  }
  return body;
}

function showFigures(began, first, usage) {
  if (usage === null || first === null) return;
  const seconds = (performance.now() - first) / 1000;
  const rate = usage.completion_tokens > 1 && seconds > 0 ? (usage.completion_tokens - 1) / seconds : undefined;
  setText(figures, `${usage.prompt_tokens} tokens of the prompt, ${usage.completion_tokens} generated, the first after ${writeSeconds((first - began) / 1000)}, ${writeNumber(rate)} tokens/s`);
}

/** Fields for the results of the tools that the model has called. */
function askForResults(calls) {
  const fields = calls.map((call) => ({ call, field: make("input", { type: "text" }) }));
  const give = () => {
    for (const { call, field } of fields) {
      messages.push({ role: "tool", tool_call_id: call.id, content: field.value });
      addMessage("tool").addText(field.value);
    }
    resultArea.replaceChildren();
    message.focus();
    void ask();
  };
  fields.forEach(({ field }, index) => {
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.isComposing) return;
      // It would send the form.
      event.preventDefault();
      if (index + 1 < fields.length) fields[index + 1].field.focus();
      else give();
    });
  });
  resultArea.replaceChildren(
    ...fields.flatMap(({ call, field }) => labelled(`Result of ${call.function.name}(${call.function.arguments})`, field)),
    make("p", { class: "actions" }, make("button", { type: "button", onclick: give }, "Send the results")),
  );
  fields[0].field.focus();
}

function showButtons() {
  // The model waits for results before anything else.
  sendButton.disabled = running !== null || resultArea.hasChildNodes();
  stopButton.disabled = running === null;
}

function setRunning(controller) {
  running = controller;
  showButtons();
}

/** Gives the user's message back where nothing has answered it. */
function giveBack(conversation) {
  const text = takeBack(conversation);
  if (text === undefined || conversation !== messages) return;
  while (list.lastChild !== null && !list.lastChild.classList.contains("user")) list.lastChild.remove();
  list.lastChild?.remove();
  if (message.value === "") message.value = text;
}

async function ask() {
  const controller = new AbortController();
  // A new conversation may begin before this one's answer has ended.
  const conversation = messages;
  setRunning(controller);
  announce("The model answers …");
  try {
    const began = performance.now();
    const answer = await postJson("v1/chat/completions", bodyOf(), controller.signal);
    const { calls, first, usage, isCut } = await readAnswer(answer, conversation, addMessage("assistant"));
    if (conversation !== messages) return;
    showFigures(began, first, usage);
    if (calls.length !== 0) askForResults(calls);
    announce(calls.length !== 0 ? "The model calls a tool." : isCut ? "The answer was cut at the maximum of tokens." : "The answer is complete.");
  } catch (error) {
    giveBack(conversation);
    if (conversation === messages) announce(controller.signal.aborted ? "The answer was stopped." : `No answer: ${error.message}`);
  } finally {
    setRunning(null);
  }
}

function sendMessage(event) {
  event.preventDefault();
  if (message.value.trim() === "" || sendButton.disabled) return;
  messages.push({ role: "user", content: message.value });
  addMessage("user").addText(message.value);
  message.value = "";
  void ask();
}

function begin() {
  running?.abort();
  messages = [];
  list.replaceChildren();
  resultArea.replaceChildren();
  showButtons();
  setText(figures, "");
  announce("A new conversation.");
  message.focus();
}

const hintId = newId("hint");
message.setAttribute("aria-describedby", hintId);
message.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) sendMessage(event);
});
stopButton.addEventListener("click", () => running?.abort());
newButton.addEventListener("click", begin);
choice.addEventListener("change", () => setText(figures, ""));

const settings = make(
  "details",
  {},
  make("summary", {}, "Settings and tools"),
  make(
    "div",
    { class: "form" },
    ...labelled("System prompt", system),
    ...labelled("Temperature", temperature),
    ...labelled("Maximum tokens of an answer", longest),
    ...labelled("Tools, as a JSON list of OpenAI's", tools),
    ...labelled("Use of tools", useOfTools),
  ),
);
const form = make(
  "form",
  { class: "form" },
  ...labelled("Model", choice),
  settings,
  list,
  resultArea,
  ...labelled("Message", message),
  make("p", { class: "hint", id: hintId }, "Enter sends, Shift and Enter begins a line."),
  make("p", { class: "actions" }, sendButton, stopButton, newButton),
  figures,
);
form.addEventListener("submit", sendMessage);
document.getElementById("chat-area").append(form);

/** Models that take messages can be chosen. */
export function showChat(state) {
  const able = state.models.filter((one) => one.serves && one.abilities?.includes("chat"));
  const names = [...new Set(able.map((one) => one.name))];
  document.getElementById("no-chat").hidden = names.length !== 0;
  form.hidden = names.length === 0;
  const listed = [...choice.options].map((option) => option.value);
  if (listed.join("\n") === names.join("\n")) return;
  const before = choice.value;
  choice.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
  if (names.includes(before)) choice.value = before;
}
