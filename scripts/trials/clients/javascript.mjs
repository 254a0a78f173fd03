// Lets the packages openai, @anthropic-ai/sdk, @ai-sdk/openai and @ai-sdk/anthropic of npm, unchanged, use a `gpux serve`:
// whole and streamed answers, a call of a tool, and objects of a schema.
//
// usage: node scripts/trials/clients/javascript.mjs ADDRESS MODEL      as in http://127.0.0.1:8080 tiny
//
// The model is one of scripts/trials/chat_model.py, or any other that calls tools. The folder in which it runs needs the
// packages (npm install openai @anthropic-ai/sdk ai @ai-sdk/openai @ai-sdk/anthropic zod); installs nothing.
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const { resolve } = createRequire(path.join(process.cwd(), "none.js"));
const load = (name) => import(pathToFileURL(resolve(name)));
const [address, model] = process.argv.slice(2);
const { default: OpenAI } = await load("openai");
const { default: Anthropic } = await load("@anthropic-ai/sdk");
const { createOpenAI } = await load("@ai-sdk/openai");
const { createAnthropic } = await load("@ai-sdk/anthropic");
const { generateObject, generateText, streamText, stepCountIs, tool } = await load("ai");
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
  const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: "none", maxRetries: 0 });
  const ask = { model, input: "hi", max_output_tokens: 20, temperature: 0 };
  const whole = await client.responses.create(ask);
  let text = "";
  for await (const event of await client.responses.create({ ...ask, stream: true })) {
    if (event.type === "response.output_text.delta") text += event.delta;
  }
  expect(text === whole.output_text, "a stream of openai");
}

async function useAnthropic() {
  const client = new Anthropic({ baseURL: address, apiKey: "none", maxRetries: 0 });
  const ask = { model, max_tokens: 20, messages: [{ role: "user", content: "hi" }] };
  expect((await client.messages.create(ask)).content[0].type === "text", "a message of anthropic");
  const streamed = await client.messages.stream(ask).finalMessage();
  expect(streamed.content[0].type === "text" && streamed.stop_reason, "a stream of anthropic");
}

async function useSdk(name, chosen) {
  const ask = { model: chosen, prompt: "How is the weather?", maxRetries: 0 };
  const whole = await generateText({ ...ask, maxOutputTokens: 20, temperature: 0 });
  let text = "";
  for await (const part of streamText({ ...ask, maxOutputTokens: 20, temperature: 0 }).textStream) text += part;
  expect(text === whole.text, `a stream of ${name}`);

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
}

await useOpenAI();
await useAnthropic();
await useSdk("@ai-sdk/openai", createOpenAI({ baseURL: `${address}/v1`, apiKey: "none" })(model));
await useSdk("@ai-sdk/anthropic", createAnthropic({ baseURL: `${address}/v1`, apiKey: "none" })(model));
console.log("as it should be");
