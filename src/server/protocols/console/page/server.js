// Requests to the server that the page is from, with the key that the user has typed.
import { messageOf } from "./answers.js";
import { authorizationOf, problemOfKey } from "./keys.js";

const keyName = "gpux-api-key";
let key = sessionStorage.getItem(keyName) ?? "";
let question = null;
const changeButton = document.getElementById("change-key");

function setKey(text) {
  key = text;
  sessionStorage.setItem(keyName, key);
  changeButton.hidden = false;
}

/** An answer that is an error, with what the server says of it. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Asks for a key, once for all requests that need one. Ends when one is given, or where there is one already and the
    user keeps it. */
function askForKey(problem, hasOne = false) {
  question ??= new Promise((resolve) => {
    const dialog = document.getElementById("key-dialog");
    const form = document.getElementById("key-form");
    const field = document.getElementById("key");
    const explain = (text) => {
      document.getElementById("key-problem").textContent = text;
    };
    const end = () => {
      question = null;
      dialog.close();
      resolve();
    };
    explain(problem);
    field.value = "";
    // Without a key there is nothing else to show.
    dialog.oncancel = (event) => (hasOne ? end() : event.preventDefault());
    // A browser lets a page prevent that only once, and closes the dialog at the next Escape.
    dialog.onclose = () => {
      if (question === null || dialog.open) return;
      dialog.showModal();
      field.focus();
    };
    form.onsubmit = (event) => {
      event.preventDefault();
      const text = field.value.trim();
      const wrong = problemOfKey(text);
      if (wrong !== "") {
        explain(wrong);
        return;
      }
      setKey(text);
      end();
    };
    if (!dialog.open) dialog.showModal();
    field.focus();
  });
  return question;
}

function withKey(headers) {
  return key === "" ? headers : { ...headers, Authorization: authorizationOf(key) };
}

changeButton.hidden = key === "";
changeButton.addEventListener("click", () => void askForKey("Another key for this server.", true));

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
