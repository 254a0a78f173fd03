// Lets a page in headless Chromium use a `gpux serve` of another origin by fetch: whole and streamed chats, the key in the
// fields of OpenAI and Anthropic, answers that are errors, and a page whose origin the server does not name.
//
// usage: node scripts/trials/clients/browser.mjs ADDRESS MODEL KEY PORT      as in http://127.0.0.1:8080 tiny KEY 3000
//
// The server requires the key and has `--cors-origin http://app.example:PORT`: PORT is where the pages are then served.
// Needs Chromium (the Debian package chromium), and playwright-core in the folder in which it runs;
// scripts/trials/clients/try-all does all of it.
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const { resolve } = createRequire(path.join(process.cwd(), "none.js"));
const { chromium } = (await import(pathToFileURL(resolve("playwright-core")))).default;
const [address, model, key, port] = process.argv.slice(2);

function expect(condition, what) {
  if (condition) return;
  console.error(`not as it should be: ${what}`);
  process.exit(1);
}

// What the page does: each function runs in the browser.
const fetched = async ({ url, method = "POST", headers, body, mode }) => {
  try {
    const answer = await fetch(url, { method, headers, body: body && JSON.stringify(body), mode });
    return { status: answer.status, id: answer.headers.get("x-request-id"), text: await answer.text() };
  } catch (error) {
    return { refused: error.name };
  }
};

const streamed = async ({ url, headers, body }) => {
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let parts = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { text, parts, type: answer.headers.get("content-type") };
    text += value;
    ++parts;
  }
};

const pages = http.createServer((request, response) => {
  response.writeHead(200, { "Content-Type": "text/html" });
  response.end("<!doctype html><title>A page</title>");
});
await new Promise((ready) => pages.listen(Number(port), "127.0.0.1", ready));
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--host-resolver-rules=MAP *.example 127.0.0.1"],
});

async function pageOf(origin) {
  const page = await browser.newPage();
  await page.goto(`${origin}:${port}/`);
  return page;
}

const ask = { model, messages: [{ role: "user", content: "hi" }], max_tokens: 40, temperature: 0 };
const json = { "Content-Type": "application/json" };
const bearer = { ...json, Authorization: `Bearer ${key}` };
const chats = `${address}/v1/chat/completions`;

async function useChats(page, origin) {
  const whole = await page.evaluate(fetched, { url: chats, headers: bearer, body: ask });
  expect(whole.status === 200 && whole.id, `a chat of ${origin}: ${JSON.stringify(whole)}`);
  const text = JSON.parse(whole.text).choices[0].message.content;
  const stream = await page.evaluate(streamed, { url: chats, headers: bearer, body: { ...ask, stream: true } });
  const events = stream.text.split("\n\n").filter((event) => event.startsWith("data: {")).map((event) => JSON.parse(event.slice(6)));
  const joined = events.map((event) => event.choices[0]?.delta.content ?? "").join("");
  expect(joined === text && stream.type.startsWith("text/event-stream"), `a stream of ${origin}`);
  const lines = await page.evaluate(streamed, { url: `${address}/api/chat`, headers: bearer, body: { model, messages: ask.messages, options: { num_predict: 5 } } });
  expect(JSON.parse(lines.text.trim().split("\n").at(-1)).done, `lines of Ollama of ${origin}`);
}

// The fields that OpenAI's and Anthropic's packages write in a browser.
async function useFields(page) {
  const stainless = Object.fromEntries(
    ["Arch", "Lang", "OS", "Package-Version", "Retry-Count", "Runtime", "Runtime-Version", "Timeout"].map((name) => [`X-Stainless-${name}`, "1"]),
  );
  const openai = await page.evaluate(fetched, { url: chats, headers: { ...bearer, ...stainless, "OpenAI-Organization": "o" }, body: ask });
  expect(openai.status === 200, "the fields of openai");
  const headers = { ...json, ...stainless, "x-api-key": key, "anthropic-version": "2023-06-01", "anthropic-beta": "b", "anthropic-dangerous-direct-browser-access": "true" };
  const anthropic = await page.evaluate(fetched, { url: `${address}/v1/messages`, headers, body: ask });
  expect(anthropic.status === 200, "the fields of anthropic");
}

async function useErrors(page) {
  const wrong = await page.evaluate(fetched, { url: chats, headers: { ...bearer, Authorization: "Bearer wrong-key-of-this-trial" }, body: ask });
  expect(wrong.status === 401 && JSON.parse(wrong.text).error.code === "invalid_api_key", "a wrong key");
  const none = await page.evaluate(fetched, { url: chats, headers: json, body: ask });
  expect(none.status === 401, "no key");
  const unknown = await page.evaluate(fetched, { url: chats, headers: bearer, body: { ...ask, model: "no-such-model" } });
  expect(unknown.status === 404 && JSON.parse(unknown.text).error.code === "model_not_found", "an unknown model");
  const listed = await page.evaluate(fetched, { url: `${address}/v1/models`, method: "GET", headers: { Authorization: `Bearer ${key}` } });
  expect(JSON.parse(listed.text).data.some((one) => one.id === model), "the list of models");
}

for (const origin of ["http://app.example", "http://localhost"]) {
  const page = await pageOf(origin);
  await useChats(page, origin);
  await useFields(page);
  await useErrors(page);
}
const stranger = await pageOf("http://stranger.example");
const refused = await stranger.evaluate(fetched, { url: chats, headers: bearer, body: ask });
expect(refused.refused === "TypeError", "the page of a stranger reads an answer");
await browser.close();
pages.close();
console.log(`as it should be, with Chromium ${browser.version()}`);
