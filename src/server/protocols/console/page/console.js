// The page: which section is shown, and the state of the server, which it asks for again and again.
import { showChat } from "./chat.js";
import { announce } from "./elements.js";
import { showOverview } from "./overview.js";
import { showRecords } from "./requests.js";
import { readJson } from "./server.js";
import { list, showStore } from "./store.js";
import { showTry } from "./try.js";

const interval = 2000;
const sections = [...document.querySelectorAll("main > section")];
const links = [...document.querySelectorAll("nav a")];
let shown = null;
let isLost = false;

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

async function update() {
  const state = await readJson("console/state");
  const time = performance.now();
  showOverview(state, time);
  showTry(state);
  showChat(state);
  showStore(state);
  if (shown.id === "requests") await showRecords();
}

async function poll() {
  try {
    if (!document.hidden) await update();
    if (isLost) announce("The server answers again.");
    isLost = false;
  } catch (error) {
    if (!isLost) announce(`The server does not answer: ${error.message}`);
    isLost = true;
  }
  setTimeout(poll, interval);
}

window.addEventListener("hashchange", showSection);
showSection();
void poll();
