// Uses the console in headless Chromium. scripts/trials/console/try-console starts the servers, and gives their addresses
// as JSON; it runs this in the folder that has playwright-core and axe-core.
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const { resolve } = createRequire(path.join(process.cwd(), "none.js"));
const { chromium } = (await import(pathToFileURL(resolve("playwright-core")))).default;
const axe = fs.readFileSync(resolve("axe-core/axe.min.js"), "utf8");
const settings = JSON.parse(process.argv[2]);
const looks = {
  light: { colorScheme: "light", viewport: { width: 1280, height: 900 } },
  dark: { colorScheme: "dark", viewport: { width: 1280, height: 900 } },
  narrow: { colorScheme: "light", viewport: { width: 320, height: 640 } },
};
const problems = [];
let checks = 0;

function expect(condition, what) {
  checks += 1;
  if (condition) return;
  problems.push(what);
  console.error(`not as it should be: ${what}`);
}

const browser = await chromium.launch({ executablePath: settings.chromium, args: ["--no-sandbox"] });

/** A page on a server's console. What it sends elsewhere, and what it logs, are problems; `refused` are statuses that
    are expected. */
async function open(address, look, refused = []) {
  const context = await browser.newContext(look);
  const page = await context.newPage();
  page.on("request", (request) => {
    const { url } = { url: request.url() };
    expect(url.startsWith(`${address}/`) || /^(blob|data):/.test(url), `a request to ${url}`);
  });
  page.on("console", (message) => {
    const isRefusal = refused.some((status) => message.text().includes(`status of ${status}`));
    if (["error", "warning"].includes(message.type())) expect(isRefusal, `the page logs ${message.text()}`);
  });
  page.on("pageerror", (error) => expect(false, `an error of the page: ${error}`));
  page.on("dialog", (dialog) => {
    expect(false, `the page alerts ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.setDefaultTimeout(20_000);
  await page.goto(`${address}/console`);
  return page;
}

async function look(page, name) {
  const { width, content } = await page.evaluate(() => ({ width: innerWidth, content: document.documentElement.scrollWidth }));
  expect(content <= width, `${name} is ${content} wide on ${width}`);
  await page.screenshot({ path: path.join(settings.screenshots, `${name}.png`), fullPage: true });
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  for (const violation of found.violations) {
    expect(false, `axe on ${name}: ${violation.id}: ${violation.nodes.map((node) => `${node.target}: ${node.failureSummary}`).join("; ")}`);
  }
  checks += 1;
}

const section = (page, title) => page.getByRole("region", { name: title, exact: true });
const go = (page, name) => page.getByRole("navigation").getByRole("link", { name, exact: true }).click();
const status = (page, text) => page.locator("#status").filter({ hasText: text }).waitFor();

async function useKey() {
  const page = await open(settings.keyed, looks.light, [401]);
  const dialog = page.getByRole("dialog", { name: "API key" });
  await dialog.waitFor();
  expect(await dialog.getByLabel("Key").evaluate((field) => field === document.activeElement), "the key's field has the focus");
  const before = await page.evaluate(() => document.body.textContent);
  expect(!before.includes("digits") && !before.includes("ran on"), "nothing of the server without a key");
  await look(page, "key");
  // Twice: a browser lets a page prevent only the first.
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  expect(await dialog.isVisible(), "Escape does not get around the key");
  await page.keyboard.type("a-wrong-key");
  await page.keyboard.press("Enter");
  await dialog.getByText("the API key is not accepted").waitFor();
  await page.keyboard.type(settings.key);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: /^digits / }).waitFor();
  expect(!(await dialog.isVisible()), "the dialog is closed");
  const kept = await page.evaluate(() => ({ cookie: document.cookie, local: localStorage.length, address: location.href }));
  expect(kept.cookie === "" && kept.local === 0 && !kept.address.includes(settings.key), "the key is in no cookie and no address");
  await page.reload();
  await page.getByRole("heading", { name: /^digits / }).waitFor();
  await go(page, "Try a model");
  await section(page, "Try a model").getByLabel("Model").selectOption("words");
  await page.getByLabel("Text", { exact: true }).fill("with a key");
  await page.getByRole("button", { name: "Run" }).click();
  await status(page, "The answer is there.");
  await page.context().close();
}

async function showModels(page) {
  const body = JSON.stringify({ inputs: "a text" });
  await Promise.all(
    Array.from({ length: 40 }, () => fetch(`${settings.plain}/models/words/embed`, { method: "POST", headers: { "Content-Type": "application/json" }, body }).then((answer) => answer.text())),
  );
  await fetch(`${settings.plain}/models/digits/predict`, { method: "POST", body: '{"image": "<img src=x onerror=alert(1)>"}' });
  const card = page.getByRole("article", { name: /^words / });
  const figure = (name) => card.locator("dt", { hasText: new RegExp(`^${name}$`) }).locator("xpath=following-sibling::dd");
  await figure("Answered").filter({ hasText: /^[4-9]\d/ }).waitFor();
  for (const name of ["Latency p50", "Latency p95", "Latency p99"]) {
    await figure(name).filter({ hasText: /(µs|ms|s)$/ }).waitFor();
  }
  expect(/ran on (cpu|encoder)/.test(await card.textContent()), "the verdict of a model");
  expect(/(MiB|KiB)/.test(await figure("Memory").textContent()), "the memory of a model");
  for (const title of ["Latency", "Batch sizes", "Providers", "Devices and processes"]) {
    await card.getByText(title, { exact: true }).click();
    await card.getByRole("group", { name: `${title} of words` }).getByRole("table").first().waitFor();
  }
}

async function loadByKeyboard(page) {
  const card = page.getByRole("article", { name: /^digits-auto / });
  await card.getByRole("button", { name: "Unload digits-auto" }).focus();
  await page.keyboard.press("Enter");
  await status(page, "digits-auto is unloaded.");
  await card.locator(".state", { hasText: /^unloaded$/ }).waitFor();
  await card.getByRole("button", { name: "Load digits-auto", exact: true }).focus();
  await page.keyboard.press("Enter");
  await status(page, "digits-auto is loaded.");
  await card.locator(".state", { hasText: /^ready$/ }).waitFor();
}

async function chooseProvider(page) {
  const card = page.getByRole("article", { name: /^words-cpu / });
  const load = async (provider, verdict) => {
    await card.getByLabel("Provider words-cpu", { exact: true }).selectOption(provider);
    await card.getByRole("button", { name: "Reload words-cpu", exact: true }).click();
    await status(page, "words-cpu is loaded.");
    await card.locator(".verdict", { hasText: verdict }).waitFor();
  };
  await load("encoder", /^ran on encoder /);
  await load("as configured", /^ran on cpu /);
}

async function dropImage(page) {
  const bytes = fs.readFileSync(settings.image).toString("base64");
  const data = await page.evaluateHandle((text) => {
    const transfer = new DataTransfer();
    const image = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    transfer.items.add(new File([image], "digit-7.png", { type: "image/png" }));
    return transfer;
  }, bytes);
  await page.dispatchEvent(".drop", "drop", { dataTransfer: data });
  await page.getByText(/digit-7\.png, \d+ bytes/).waitFor();
}

async function tryModels(page, name) {
  const area = section(page, "Try a model");
  await area.getByLabel("Model", { exact: true }).selectOption("digits");
  await area.getByLabel("An image", { exact: true }).check();
  await dropImage(page);
  await area.getByRole("checkbox", { name: /^digits-auto, on / }).check();
  await area.getByRole("button", { name: "Run" }).click();
  await status(page, "The answer is there.");
  await area.getByRole("row", { name: /^digits-auto .*equal/ }).waitFor();
  expect(/"label": "7"/.test(await area.getByRole("region", { name: "Answer of digits", exact: true }).textContent()), "the digit of an image");
  await look(page, `${name}-try`);
  await area.getByLabel("Values as JSON", { exact: true }).last().waitFor();
  await area.getByRole("radio", { name: "Values as JSON" }).check();
  await area.getByRole("button", { name: "Run" }).click();
  await status(page, "The answer is there.");
  await area.getByLabel("Model", { exact: true }).selectOption("words");
  await area.getByRole("textbox", { name: "Text", exact: true }).fill("one sentence");
  await area.getByRole("checkbox", { name: "words-cpu, on cpu" }).check();
  await area.getByRole("button", { name: "Run" }).click();
  await area.getByRole("row", { name: /^words encoder;/ }).waitFor();
  await area.getByRole("row", { name: /^words-cpu cpu;.*(equal|numbers differ by at most [\d.e-]+)$/ }).waitFor();
  await look(page, `${name}-compare`);
  await area.getByLabel("Model", { exact: true }).selectOption("digits");
  await area.getByRole("radio", { name: "Values as JSON" }).check();
  await area.getByRole("textbox", { name: "Values as JSON" }).fill("{");
  await area.getByRole("button", { name: "Run" }).click();
  await status(page, "digits: ");
}

async function chat(page, name) {
  const area = section(page, "Chat");
  const markup = "<img src=x onerror=alert(1)><script>alert(2)</script>";
  await area.getByLabel("Message", { exact: true }).fill(markup);
  await page.keyboard.press("Enter");
  await status(page, /The answer (is complete|was cut)/);
  expect((await area.locator("li.user > .text").textContent()) === markup, "a message is shown as it was typed");
  expect((await area.locator("li img, li script").count()) === 0, "a message does not become markup");
  expect((await area.locator("li.assistant > .text").textContent()).length > 0, "an answer");
  await area.getByText(/\d+ generated/).waitFor();
  await area.getByText("Settings and tools").click();
  await area.getByLabel("Tools, as a JSON list of OpenAI's").fill(await area.getByLabel("Tools, as a JSON list of OpenAI's").getAttribute("placeholder"));
  await area.getByLabel("Use of tools").selectOption("required");
  await area.getByLabel("Temperature").fill("0");
  await area.getByLabel("Message", { exact: true }).fill("and the weather?");
  await area.getByRole("button", { name: "Send", exact: true }).click();
  await status(page, "The model calls a tool.");
  // The model may call it more than once.
  const fields = await area.getByLabel(/^Result of weather/).all();
  for (const field of fields) await field.fill('{"degrees": 21}');
  await area.getByLabel("Use of tools").selectOption("none");
  await area.getByRole("button", { name: "Send the results" }).click();
  await status(page, /The answer (is complete|was cut)/);
  const results = await area.locator("li.tool > .text").allTextContents();
  expect(fields.length > 0 && results.length === fields.length && results.every((text) => text === '{"degrees": 21}'), "the results of a tool");
  await look(page, `${name}-chat`);
  await area.getByLabel("Message", { exact: true }).fill("go on");
  // At once: the model is a fast one.
  await area.evaluate((node) => {
    for (const name of ["Send", "Stop"]) [...node.querySelectorAll("button")].find((button) => button.textContent === name).click();
  });
  await status(page, "The answer was stopped.");
  await area.getByRole("button", { name: "New conversation" }).click();
  expect((await area.getByRole("listitem").count()) === 0, "a new conversation is empty");
}

async function showRequests(page, name) {
  await page.getByRole("row", { name: /POST \/models\/digits\/predict.*400/ }).first().waitFor();
  expect((await page.locator("#failures img").count()) === 0, "a reason does not become markup");
  await page.getByRole("region", { name: "Log" }).getByText(/info listening on/).waitFor();
  await look(page, `${name}-requests`);
}

async function useAll(name) {
  const page = await open(settings.plain, looks[name], [400]);
  await showModels(page);
  await loadByKeyboard(page);
  await chooseProvider(page);
  await look(page, `${name}-models`);
  await go(page, "Try a model");
  await tryModels(page, name);
  await go(page, "Chat");
  await chat(page, name);
  await go(page, "Requests and log");
  await showRequests(page, name);
  await go(page, "Store");
  await page.getByText("The server serves the models that it was started with.").waitFor();
  await look(page, `${name}-no-store`);
  await page.context().close();
}

async function pull() {
  const slow = (seconds) => fetch(`${settings.hub}/-/faults`, { method: "POST", body: JSON.stringify({ slow: seconds }) });
  const page = await open(settings.store, looks.light, [404]);
  await go(page, "Store");
  await page.getByRole("row", { name: /^words/ }).waitFor();
  await slow(0.3);
  await page.getByLabel("Reference of a model").fill("org/pulled");
  await page.keyboard.press("Enter");
  await page.getByRole("progressbar", { name: "Progress of the pull" }).waitFor();
  await page.getByText(/ of [\d.]+ (KiB|MiB)/).waitFor();
  await look(page, "light-pull");
  await status(page, "org/pulled is in the store.");
  await slow(0);
  await page.getByRole("button", { name: "Load hf.co/org/pulled:latest" }).click();
  await status(page, "hf.co/org/pulled:latest is loaded.");
  await page.getByLabel("Reference of a model").fill("org/none");
  await page.keyboard.press("Enter");
  await status(page, "The pull of org/none failed");
  await go(page, "Models");
  await page.getByRole("article", { name: /^hf\.co\/org\/pulled/ }).locator(".state", { hasText: /^ready$/ }).waitFor();
  await look(page, "light-store-models");
  await page.context().close();
}

async function moveByKeyboard() {
  const page = await open(settings.plain, looks.light);
  await page.getByRole("heading", { name: /^digits / }).waitFor();
  await page.keyboard.press("Tab");
  expect((await page.evaluate(() => document.activeElement.textContent)) === "Skip to content", "the first stop is the link to the content");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Try a model", level: 2 }).waitFor();
  await page.evaluate(() => document.querySelector(".skip").focus());
  await page.keyboard.press("Enter");
  expect((await page.evaluate(() => document.activeElement.id)) === "content", "the link to the content goes there");
  expect(await page.getByRole("heading", { name: "Try a model", level: 2 }).isVisible(), "and stays in the section");
  await page.evaluate(() => document.querySelector("#try h2").focus());
  expect((await page.evaluate(() => document.activeElement.textContent)) === "Try a model", "the title of a section has the focus");
  expect((await page.title()) === "Try a model – gpux console", "the title of the page");
  const visible = await page.evaluate(() => {
    document.querySelector("nav a").focus();
    return getComputedStyle(document.querySelector("nav a")).outlineStyle;
  });
  await page.keyboard.press("Tab");
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  expect(outline === "solid" || visible === "solid", "the focus is visible");
  await page.context().close();
}

for (const [name, step] of Object.entries({
  key: useKey,
  keyboard: moveByKeyboard,
  light: () => useAll("light"),
  dark: () => useAll("dark"),
  narrow: () => useAll("narrow"),
  pull,
})) {
  try {
    await step();
    console.log(`${name}: done`);
  } catch (error) {
    expect(false, `${name}: ${error.message}`);
    for (const context of browser.contexts()) {
      for (const page of context.pages()) await page.screenshot({ path: path.join(settings.screenshots, `failed-${name}.png`), fullPage: true });
      await context.close();
    }
  }
}
const version = browser.version();
await browser.close();
if (problems.length !== 0) process.exit(1);
console.log(`as it should be, ${checks} checks, with Chromium ${version}`);
