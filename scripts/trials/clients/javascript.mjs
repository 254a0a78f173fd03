// Lets the packages openai, @anthropic-ai/sdk, ollama, @ai-sdk/openai, @ai-sdk/anthropic, @ai-sdk/openai-compatible and
// ollama-ai-provider-v2 of npm, unchanged, use a `gpux serve`: whole and streamed answers, calls of tools, objects of a
// schema, vectors and errors.
//
// usage: node scripts/trials/clients/javascript.mjs ADDRESS MODEL ENCODER KEY     as in http://127.0.0.1:8080 tiny words KEY
//
// The models are those of scripts/trials/chat_model.py, or others that call tools and make vectors; the server requires
// the key. The folder in which it runs needs the packages of versions.toml; scripts/trials/clients/try-all does all of it.
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const { resolve } = createRequire(path.join(process.cwd(), "none.js"));
const load = (name) => import(pathToFileURL(resolve(name)));
const [address, model, encoder, key] = process.argv.slice(2);
const { default: OpenAI } = await load("openai");
const { default: Anthropic } = await load("@anthropic-ai/sdk");
const { createOpenAI } = await load("@ai-sdk/openai");
const { createAnthropic } = await load("@ai-sdk/anthropic");
const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
const { createOllama } = await load("ollama-ai-provider-v2");
const { Ollama } = await load("ollama");
const { embedMany, generateObject, generateText, streamText, stepCountIs, tool, APICallError } = await load("ai");
const { z } = await load("zod");

function expect(condition, what) {
  if (condition) return;
  console.error(`not as it should be: ${what}`);
  process.exit(1);
}

// What a model with random weights says may have no end, and is cut off then.
async function tries(attempt, what) {
  for (let i = 0; i < 20; ++i) {
    const result = await attempt();
    if (result) return result;
  }
  expect(false, what);
}

async function useOpenAI() {
  const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: key, maxRetries: 0 });
  const ask = { model, input: "hi", max_output_tokens: 20, temperature: 0 };
  const whole = await client.responses.create(ask);
  let text = "";
  for await (const event of await client.responses.create({ ...ask, stream: true })) {
    if (event.type === "response.output_text.delta") text += event.delta;
  }
  expect(text === whole.output_text, "a stream of openai");
}

async function useAnthropic() {
  const client = new Anthropic({ baseURL: address, apiKey: key, maxRetries: 0 });
  const ask = { model, max_tokens: 20, messages: [{ role: "user", content: "hi" }] };
  expect((await client.messages.create(ask)).content[0].type === "text", "a message of anthropic");
  const streamed = await client.messages.stream(ask).finalMessage();
  expect(streamed.content[0].type === "text" && streamed.stop_reason, "a stream of anthropic");
}

async function useOllama() {
  const client = new Ollama({ host: address, headers: { Authorization: `Bearer ${key}` } });
  const options = { seed: 1, num_predict: 20, num_ctx: 256, temperature: 0 };
  const ask = { model, messages: [{ role: "user", content: "hi" }], options, keep_alive: "5m" };
  const whole = await client.chat(ask);
  let text = "";
  for await (const part of await client.chat({ ...ask, stream: true })) text += part.message.content;
  expect(text === whole.message.content && whole.eval_count <= 20, "a chat of ollama");
  const called = { role: "assistant", content: "", tool_calls: [{ function: { name: "f", arguments: { a: 1 } } }] };
  const tools = [{ type: "function", function: { name: "f", parameters: { type: "object", properties: {} } } }];
  const messages = [...ask.messages, called, { role: "tool", tool_name: "f", content: "12" }];
  expect((await client.chat({ ...ask, messages, tools })).message, "the turn after a call of ollama");
  const format = { type: "object", properties: { a: { type: "boolean" } }, required: ["a"], additionalProperties: false };
  const shaped = await client.chat({ ...ask, format, options: { num_predict: 200 } });
  expect(typeof JSON.parse(shaped.message.content).a === "boolean", "a form of ollama");
  const generated = await client.generate({ model, prompt: "hi", options });
  expect(generated.response === whole.message.content, "generate of ollama");
  const { embeddings } = await client.embed({ model: encoder, input: ["a dog", "a cat"], options: { num_ctx: 128 } });
  expect(embeddings.length === 2 && embeddings[0].length > 1, "vectors of ollama");
  expect((await client.list()).models.length > 1 && (await client.show({ model })).capabilities, "the models of ollama");
  const wrong = new Ollama({ host: address, headers: { Authorization: "Bearer wrong-key-of-this-trial" } });
  for (const [from, change, status] of [[client, { model: "no-such-model" }, 404], [wrong, {}, 401]]) {
    const error = await from.chat({ ...ask, ...change }).catch((caught) => caught);
    expect(error.name === "ResponseError" && error.status_code === status, `the status ${status} of ollama`);
  }
}

async function useVectors(name, chosen) {
  const { embeddings } = await embedMany({ model: chosen, values: ["a dog", "a cat"], maxRetries: 0 });
  expect(embeddings.length === 2 && embeddings[0].length > 1, `vectors of ${name}`);
}

async function useErrors(name, make) {
  for (const [given, chosen, status] of [["wrong-key-of-this-trial", model, 401], [key, "no-such-model", 404]]) {
    const error = await generateText({ model: make(given)(chosen), prompt: "hi", maxRetries: 0 }).catch((caught) => caught);
    expect(APICallError.isInstance(error) && error.statusCode === status, `the status ${status} of ${name}`);
  }
}

async function useSdk(name, make) {
  const chosen = make(key)(model);
  const ask = { model: chosen, prompt: "How is the weather?", maxRetries: 0 };
  const whole = await generateText({ ...ask, maxOutputTokens: 20, temperature: 0 });
  expect(whole.usage.outputTokens > 0 && whole.usage.outputTokens <= 20, `the usage of ${name}`);
  const stream = streamText({ ...ask, maxOutputTokens: 20, temperature: 0 });
  let text = "";
  for await (const part of stream.textStream) text += part;
  expect(text === whole.text, `a stream of ${name}`);
  expect((await stream.usage).outputTokens === whole.usage.outputTokens, `the usage of a stream of ${name}`);
  const messages = [{ role: "user", content: "hi" }, ...whole.response.messages, { role: "user", content: "And now?" }];
  const again = await generateText({ ...ask, prompt: undefined, messages, maxOutputTokens: 5, topP: 0.9 });
  expect(again.usage.outputTokens <= 5, `a second turn of ${name}`);

  await tries(async () => {
    const places = [];
    const weather = tool({
      description: "The weather of a place",
      inputSchema: z.object({ place: z.string().max(6) }),
      execute: async ({ place }) => places.push(place),
    });
    const { steps } = await generateText({
      ...ask, maxOutputTokens: 500, tools: { weather }, stopWhen: stepCountIs(2),
      prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "none" }),
    });
    return steps.length === 2 && places.length > 0;
  }, `a call of ${name}`);
  await tries(async () => {
    const schema = z.object({ name: z.string().max(6), age: z.number().int().min(10).max(99) });
    const made = await generateObject({ ...ask, schema, maxOutputTokens: 400 }).catch(() => null);
    return made && made.object.age >= 10;
  }, `an object of ${name}`);
  await useErrors(name, make);
}

await useOpenAI();
await useAnthropic();
await useOllama();
const baseURL = `${address}/v1`;
const openai = (apiKey) => createOpenAI({ baseURL, apiKey });
const compatible = (apiKey) =>
  createOpenAICompatible({ name: "gpux", baseURL, apiKey, includeUsage: true, supportsStructuredOutputs: true });
const ollama = (given) => createOllama({ baseURL: `${address}/api`, headers: { Authorization: `Bearer ${given}` } });
await useSdk("@ai-sdk/openai", openai);
await useSdk("the chats of @ai-sdk/openai", (given) => openai(given).chat);
await useSdk("@ai-sdk/anthropic", (apiKey) => createAnthropic({ baseURL, apiKey }));
await useSdk("@ai-sdk/openai-compatible", compatible);
await useSdk("ollama-ai-provider-v2", ollama);
const completed = await generateText({ model: ollama(key).completion(model), prompt: "hi", maxOutputTokens: 5, maxRetries: 0 });
expect(completed.usage.outputTokens <= 5, "a completion of ollama-ai-provider-v2");
await useVectors("@ai-sdk/openai", openai(key).embedding(encoder));
await useVectors("@ai-sdk/openai-compatible", compatible(key).embeddingModel(encoder));
await useVectors("ollama-ai-provider-v2", ollama(key).embedding(encoder));
console.log("as it should be");
