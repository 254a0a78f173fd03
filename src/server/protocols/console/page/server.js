// Requests to the server that the page is from, with the key that the user has typed.
import { messageOf } from "./answers.js";

const keyName = "gpux-api-key";
let key = sessionStorage.getItem(keyName) ?? "";
let question = null;

/** An answer that is an error, with what the server says of it. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Asks for a key, once for all requests that need one. Ends when one is given. */
function askForKey(problem) {
  question ??= new Promise((resolve) => {
    const dialog = document.getElementById("key-dialog");
    const form = document.getElementById("key-form");
    const field = document.getElementById("key");
    document.getElementById("key-problem").textContent = problem;
    field.value = "";
    // Without a key there is nothing else to show.
    dialog.oncancel = (event) => event.preventDefault();
    // A browser lets a page prevent that only once, and closes the dialog at the next Escape.
    dialog.onclose = () => {
      if (question === null || dialog.open) return;
      dialog.showModal();
      field.focus();
    };
    form.onsubmit = (event) => {
      event.preventDefault();
      key = field.value.trim();
      sessionStorage.setItem(keyName, key);
      question = null;
      dialog.close();
      resolve();
    };
    if (!dialog.open) dialog.showModal();
    field.focus();
  });
  return question;
}

function withKey(headers) {
  if (key === "") return headers;
  // Header values are bytes.
  return { ...headers, Authorization: `Bearer ${String.fromCharCode(...new TextEncoder().encode(key))}` };
}

/** The answer, where it is no error. Throws Refused, and other errors where the server does not answer, also within
    `patience` milliseconds if that is given. */
export async function send(path, { method = "GET", headers = {}, body, signal, patience } = {}) {
  for (;;) {
    const used = key;
    // Not of the time in which the user types a key.
    const limit = patience === undefined ? signal : AbortSignal.timeout(patience);
    const answer = await fetch(path, { method, headers: withKey(headers), body, signal: limit, credentials: "omit", cache: "no-store" });
    if (answer.ok) return answer;
    const problem = messageOf(await answer.text()) || `the server answers with status ${answer.status}`;
    if (answer.status !== 401) throw new Refused(answer.status, problem);
    if (key === used) await askForKey(problem);
  }
}

export async function readJson(path, patience) {
  return (await send(path, { patience })).json();
}

export function postJson(path, value, signal) {
  return send(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value), signal });
}
