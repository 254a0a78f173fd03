// The page: which section is shown, and the state of the server, which it asks for again and again.
import { showChat } from "./chat.js";
import { announce, setText } from "./elements.js";
import { showOverview } from "./overview.js";
import { showRecords } from "./requests.js";
import { Refused, readJson } from "./server.js";
import { list, showStore } from "./store.js";
import { showTry } from "./try.js";

const interval = 2000;
const patience = 10_000;
const content = document.getElementById("content");
const sections = [...document.querySelectorAll("main > section")];
const links = [...document.querySelectorAll("nav a")];
let shown = null;

function report(error) {
  announce(error.message);
}

/** Shows the section that the address names, and goes to its title. */
function showSection() {
  const wanted = sections.find((one) => `#${one.id}` === location.hash) ?? sections[0];
  const is_first = shown === null;
  shown = wanted;
  for (const section of sections) section.hidden = section !== wanted;
  for (const link of links) {
    if (link.hash === `#${wanted.id}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${wanted.querySelector("h2").textContent} – gpux console`;
  if (!is_first) wanted.querySelector("h2").focus();
  if (wanted.id === "requests") void showRecords().catch(report);
  if (wanted.id === "store") void list().catch(report);
}

/** Stays for as long as it is so, whatever else is announced. An empty text: the server answers. */
function showLost(text) {
  const line = document.getElementById("lost");
  if (text === "" && !line.hidden) announce("The server answers again.");
  setText(line, text);
  line.hidden = text === "";
}

async function show(state) {
  showOverview(state, performance.now());
  showTry(state);
  showChat(state);
  showStore(state);
  if (shown.id === "requests") await showRecords();
}

async function update() {
  let state;
  try {
    state = await readJson("console/state", patience);
  } catch (error) {
    showLost(error instanceof Refused ? error.message : `The server does not answer: ${error.message}`);
    return;
  }
  showLost("");
  await show(state).catch(report);
}

async function poll() {
  if (!document.hidden) await update();
  setTimeout(poll, interval);
}

// It is a link to no section.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  content.focus();
});
window.addEventListener("hashchange", showSection);
showSection();
void poll();
