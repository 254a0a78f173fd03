// What answers of the server say: their errors, and their parts where they are streamed. Pure but for the reading.

/** The message of an error in any of the server's shapes; the text itself where it is none. */
export function messageOf(text) {
  const inside = (value) =>
    typeof value === "string" ? value : value && inside(value.detail ?? value.error ?? value.message);
  try {
    return inside(JSON.parse(text)) || text;
  } catch {
    return text;
  }
}

/** Cuts a text that comes in pieces at a separator: call it with each piece, and at the end without one. */
export function cutter(separator) {
  let rest = "";
  return (piece) => {
    const parts = (rest + (piece ?? "")).split(separator);
    rest = piece === undefined ? "" : parts.pop();
    return parts.filter((part) => part.trim() !== "");
  };
}

async function* pieces(response, separator) {
  const cut = cutter(separator);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    yield* cut(done ? undefined : value);
    if (done) return;
  }
}

/** The JSON of each line. */
export async function* linesOf(response) {
  for await (const line of pieces(response, "\n")) yield JSON.parse(line);
}

/** The JSON of each server-sent event, up to "[DONE]". */
export async function* eventsOf(response) {
  for await (const event of pieces(response, "\n\n")) {
    const data = event
      .split("\n")
      .filter((line) => line.startsWith("data:"))
      .map((line) => line.slice(5).trim())
      .join("\n");
    if (data === "[DONE]") return;
    if (data !== "") yield JSON.parse(data);
  }
}

/** Ends well where the last line of a pull's progress says that it has. */
export function requireSuccess(line) {
  if (line?.status !== "success") throw new Error("the progress ended too early");
}

/** Adds the calls of tools that an event has to those so far, as OpenAI's streams cut them. */
export function addToolCalls(calls, deltas) {
  for (const delta of deltas ?? []) {
    const call = (calls[delta.index] ??= { id: "", type: "function", function: { name: "", arguments: "" } });
    if (delta.id) call.id = delta.id;
    call.function.name += delta.function?.name ?? "";
    call.function.arguments += delta.function?.arguments ?? "";
  }
  return calls;
}
