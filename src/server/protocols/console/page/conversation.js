// How a streamed answer becomes a message of a conversation.
import { addToolCalls, eventsOf } from "./answers.js";

/** Reads an answer, shows it with `shown` (addText, addReasoning, showCalls), and adds it to `messages`, also what came
    before it broke off. Returns its calls of tools, the time of its first part, its usage, and whether it was cut. */
export async function readAnswer(answer, messages, shown) {
  const calls = [];
  let text = "";
  let first = null;
  let usage = null;
  let end = null;
  let isWhole = false;
  try {
    for await (const event of eventsOf(answer)) {
      if (event.error) throw new Error(event.error.message);
      usage = event.usage ?? usage;
      end = event.choices[0]?.finish_reason ?? end;
      const delta = event.choices[0]?.delta ?? {};
      if (delta.content || delta.reasoning_content || delta.tool_calls) first ??= performance.now();
      if (delta.reasoning_content) shown.addReasoning(delta.reasoning_content);
      if (delta.content) {
        text += delta.content;
        shown.addText(delta.content);
      }
      if (delta.tool_calls) shown.showCalls(addToolCalls(calls, delta.tool_calls));
    }
    isWhole = true;
  } finally {
    // Calls that broke off get no results.
    if (isWhole && calls.length !== 0) messages.push({ role: "assistant", content: text, tool_calls: calls });
    else if (text !== "") messages.push({ role: "assistant", content: text });
  }
  return { calls, first, usage, isCut: end === "length" };
}

/** Takes the user's message back that nothing has answered; undefined where the last message is another. */
export function takeBack(messages) {
  return messages.at(-1)?.role === "user" ? messages.pop().content : undefined;
}
