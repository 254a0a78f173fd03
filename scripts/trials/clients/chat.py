#!/usr/bin/env python3
"""Lets the clients openai (chats and responses), anthropic, langchain-openai, ollama and instructor, unchanged, chat
with a `gpux serve` that it starts: whole and streamed answers, calls of tools, and structured outputs.

usage: scripts/trials/clients/chat.py PROGRAM        as in build/release/bin/gpux

The model is a tiny decoder with random weights, whose tokens are characters: what it says means nothing, and what the
clients make of it has to be right all the same. Needs the packages of scripts/requirements-integrations.txt; installs
nothing.
"""

import pathlib
import sys

import anthropic
import instructor
import langchain_openai
import ollama
import openai

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from chat_checks import MESSAGES, WEATHER, Person, Weather, expect
from chat_model import served_chat_model


def with_openai(address):
    client = openai.OpenAI(base_url=address + "/v1", api_key="none", max_retries=0)
    ask = {"model": "tiny", "messages": MESSAGES, "seed": 1, "max_tokens": 40}
    whole = client.chat.completions.create(**ask)
    text = whole.choices[0].message.content
    expect(text and whole.usage.completion_tokens <= 40, "a chat of openai")
    chunks = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    parts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    expect("".join(parts) == text, "a stream of openai")
    expect(chunks[-1].usage.total_tokens == whole.usage.total_tokens, "the usage of a stream")
    scored = client.chat.completions.create(**ask, logprobs=True, top_logprobs=2)
    expect(len(scored.choices[0].logprobs.content[0].top_logprobs) == 2, "log probabilities")

    ask["max_tokens"] = 200
    one_call = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False}
    called = client.chat.completions.create(**ask, **one_call)
    call = called.choices[0].message.tool_calls[0]
    expect(called.choices[0].finish_reason == "tool_calls" and call.function.name == "Weather", "a call of a tool")
    Weather.model_validate_json(call.function.arguments)
    # The answer goes back as the client has it.
    history = [*MESSAGES, called.choices[0].message]
    history += [{"role": "tool", "tool_call_id": one.id, "content": "12"} for one in called.choices[0].message.tool_calls]
    again = client.chat.completions.create(**{**ask, "messages": history, "max_tokens": 5})
    expect(again.choices[0].message.content is not None, "an answer after a call")
    with client.chat.completions.stream(**ask, **one_call) as stream:
        final = stream.get_final_completion()
    expect(final.choices[0].message.tool_calls[0].function.arguments == call.function.arguments, "a streamed call")

    parsed = client.chat.completions.parse(**ask, response_format=Person)
    expect(10 <= parsed.choices[0].message.parsed.age <= 99, "a structured output of openai")
    for error, change in (
        (openai.BadRequestError, {"temperature": 1000}),
        (openai.NotFoundError, {"model": "no-such-model"}),
    ):
        try:
            client.chat.completions.create(**{**ask, **change})
        except error:
            continue
        sys.exit(f"taken: {change}")


def with_responses(address):
    client = openai.OpenAI(base_url=address + "/v1", api_key="none", max_retries=0)
    ask = {"model": "tiny", "max_output_tokens": 40, "extra_body": {"seed": 1}}
    whole = client.responses.create(**ask, input="How is the weather?", instructions="Be brief.")
    expect(whole.output_text and whole.usage.output_tokens <= 40, "a response")
    events = list(client.responses.create(**ask, input="How is the weather?", instructions="Be brief.", stream=True))
    expect([event.sequence_number for event in events] == list(range(len(events))), "the order of events")
    expect(events[-1].response.output_text == whole.output_text, "a streamed response")
    parts = [event.delta for event in events if event.type == "response.output_text.delta"]
    expect("".join(parts) == whole.output_text, "the deltas of a response")

    expect(client.responses.retrieve(whole.id).output_text == whole.output_text, "a response that is kept")
    more = client.responses.create(**ask, input="And now?", previous_response_id=whole.id)
    items = list(client.responses.input_items.list(more.id, order="asc"))
    expect([item.type for item in items] == ["message"] * 3, "the items of a conversation")
    client.responses.delete(whole.id)
    try:
        client.responses.retrieve(whole.id)
    except openai.NotFoundError:
        pass
    else:
        sys.exit("a response is kept that was deleted")

    ask["max_output_tokens"] = 300
    tool = {"type": "function", "name": "Weather", "parameters": Weather.model_json_schema(), "strict": True}
    one_call = {"tools": [tool], "tool_choice": "required", "parallel_tool_calls": False}
    question = [{"role": "user", "content": "How is the weather?"}]
    called = client.responses.create(**ask, **one_call, input=question)
    call = called.output[-1]
    Weather.model_validate_json(call.arguments)
    with client.responses.stream(**ask, **one_call, input=question) as stream:
        final = stream.get_final_response()
    expect(final.output[-1].arguments == call.arguments, "a streamed call")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "12"}
    again = client.responses.create(**ask, input=[*question, *called.output, result])
    continued = client.responses.create(**ask, input=[result], previous_response_id=called.id)
    expect(again.output_text == continued.output_text, "an answer after a call")
    parsed = client.responses.parse(**ask, input="Who?", text_format=Person)
    expect(10 <= parsed.output_parsed.age <= 99, "a structured output of responses")
    counted = client.responses.input_tokens.count(model="tiny", input=question)
    expect(counted.input_tokens > 0, "the number of tokens")
    for change in ({"background": True}, {"tools": [{"type": "web_search"}]}, {"reasoning": {"effort": "high"}}):
        try:
            client.responses.create(**{**ask, **change}, input="a")
        except openai.BadRequestError:
            continue
        sys.exit(f"taken: {change}")


def with_anthropic(address):
    client = anthropic.Anthropic(base_url=address, api_key="none", max_retries=0)
    ask = {"model": "tiny", "max_tokens": 40, "messages": MESSAGES, "extra_body": {"temperature": 0}}
    whole = client.messages.create(**ask)
    text = whole.content[0].text
    expect(text and whole.usage.output_tokens <= 40, "a message of anthropic")
    with client.messages.stream(**ask) as stream:
        expect("".join(stream.text_stream) == text, "a stream of anthropic")
        expect(stream.get_final_message().stop_reason == whole.stop_reason, "the end of a stream of anthropic")
    counted = client.messages.count_tokens(model="tiny", messages=MESSAGES)
    expect(counted.input_tokens == whole.usage.input_tokens + whole.usage.cache_read_input_tokens, "the number of tokens")
    stopped = client.messages.create(**ask, stop_sequences=[text[2:4]])
    expect(stopped.stop_reason == "stop_sequence" and stopped.stop_sequence == text[2:4], "a stop sequence")

    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    tool = {"name": "Weather", "description": "of a place", "input_schema": Weather.model_json_schema()}
    call = {"model": "tiny", "max_tokens": 500, "tools": [tool], "tool_choice": {"type": "tool", "name": "Weather"}}
    for tries in range(20):  # answers that do not end are cut off
        called = client.messages.create(**call, messages=MESSAGES, system=system)
        with client.messages.stream(**call, messages=MESSAGES) as stream:
            streamed = stream.get_final_message()
        if called.stop_reason == streamed.stop_reason == "tool_use":
            break
    else:
        sys.exit("no call of anthropic")
    for message in (called, streamed):
        Weather.model_validate(message.content[-1].input)
    result = {"type": "tool_result", "tool_use_id": called.content[-1].id, "content": "12"}
    history = [*MESSAGES, {"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}]
    expect(client.messages.create(**{**ask, "messages": history}).content, "an answer after a call of anthropic")
    for error, change in (
        (anthropic.BadRequestError, {"extra_body": {"temperature": 1000}}),
        (anthropic.NotFoundError, {"model": "no-such-model"}),
    ):
        try:
            client.messages.create(**{**ask, **change})
        except error:
            continue
        sys.exit(f"taken: {change}")


def with_langchain(address):
    ask = {"base_url": address + "/v1", "api_key": "none", "model": "tiny", "seed": 1, "max_retries": 0}
    chat = langchain_openai.ChatOpenAI(**ask, max_tokens=40)
    text = chat.invoke("How is the weather?").content
    expect(text, "a chat of langchain-openai")
    expect("".join(part.content for part in chat.stream("How is the weather?")) == text, "a stream of langchain-openai")
    longer = langchain_openai.ChatOpenAI(**ask, max_tokens=200)
    calls = longer.bind_tools([Weather], tool_choice="required", parallel_tool_calls=False).invoke("How is the weather?").tool_calls
    expect(calls[0]["name"] == "Weather" and set(calls[0]["args"]) == {"place"}, "a call of langchain-openai")
    for method in ("json_schema", "function_calling"):
        person = longer.with_structured_output(Person, method=method).invoke("Who?")
        expect(isinstance(person, Person), f"a structured output of langchain-openai, {method}")


def with_ollama(address):
    client = ollama.Client(host=address)
    options = {"seed": 1, "num_predict": 40}
    whole = client.chat(model="tiny:latest", messages=MESSAGES, options=options)
    expect(whole.message.content and whole.eval_count <= 40 and whole.total_duration > 0, "a chat of ollama")
    parts = client.chat(model="tiny", messages=MESSAGES, options=options, stream=True)
    expect("".join(part.message.content for part in parts) == whole.message.content, "a stream of ollama")
    generated = client.generate(model="tiny", prompt="How is the weather?", options=options)
    expect(generated.response == whole.message.content, "generate of ollama")
    options["num_predict"] = 200
    shaped = client.chat(model="tiny", messages=MESSAGES, options=options, format=Person.model_json_schema())
    Person.model_validate_json(shaped.message.content)
    expect(client.chat(model="tiny", messages=MESSAGES, options=options, tools=[WEATHER]).message, "tools of ollama")
    expect("tiny:latest" in [model.model for model in client.list().models], "the list of ollama")
    expect("completion" in client.show("tiny").capabilities, "show of ollama")
    expect(client.ps().models[0].model == "tiny:latest", "ps of ollama")
    try:
        client.chat(model="no-such-model", messages=MESSAGES)
    except ollama.ResponseError as error:
        expect(error.status_code == 404, "the status of an unknown model")
    else:
        sys.exit("an unknown model was taken")


def with_instructor(address):
    client = openai.OpenAI(base_url=address + "/v1", api_key="none", max_retries=0)
    for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
        person = instructor.from_openai(client, mode=mode).chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "Who?"}], response_model=Person, max_retries=0,
            seed=1, max_tokens=200,
        )
        expect(10 <= person.age <= 99, f"instructor, {mode}")


def main(program):
    with served_chat_model(program) as address:
        for clients in (with_openai, with_responses, with_anthropic, with_langchain, with_ollama, with_instructor):
            clients(address)
    print(f"as it should be, with openai {openai.__version__}, anthropic {anthropic.__version__} and instructor {instructor.__version__}")


main(sys.argv[1])
