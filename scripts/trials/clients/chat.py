#!/usr/bin/env python3
"""Lets the clients openai, langchain-openai, ollama and instructor, unchanged, chat with a `gpux serve` that it starts:
whole and streamed answers, calls of tools, and structured outputs.

usage: scripts/trials/clients/chat.py PROGRAM        as in build/release/bin/gpux

The model is a tiny decoder with random weights, whose tokens are characters: what it says means nothing, and what the
clients make of it has to be right all the same. Needs the packages of scripts/requirements-integrations.txt; installs
nothing.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import instructor
import langchain_openai
import ollama
import openai
import pydantic

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from chat_model import write_chat_model


class Person(pydantic.BaseModel, extra="forbid"):
    name: str = pydantic.Field(max_length=6)
    age: int = pydantic.Field(ge=10, le=99)


class Weather(pydantic.BaseModel, extra="forbid"):
    """The weather of a place."""

    place: str = pydantic.Field(max_length=6)


WEATHER = {"type": "function", "function": {"name": "Weather", "parameters": Weather.model_json_schema()}}
MESSAGES = [{"role": "user", "content": "How is the weather?"}]


def expect(condition, what):
    if not condition:
        sys.exit(f"not as it should be: {what}")


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
    with tempfile.TemporaryDirectory(prefix="gpux-chat-") as home:
        folder = pathlib.Path(home) / "tiny"
        folder.mkdir()
        write_chat_model(folder)
        environment = {**os.environ, "GPUX_HOME": str(pathlib.Path(home) / "store")}
        subprocess.run([program, "import", "-q", folder, "-t", "tiny"], env=environment, check=True)
        serve = [program, "serve", "tiny", "--port", "0", "--no-grpc", "--json"]
        with subprocess.Popen(serve, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
            try:
                address = f"http://127.0.0.1:{json.loads(server.stdout.readline())['port']}"
                for clients in (with_openai, with_langchain, with_ollama, with_instructor):
                    clients(address)
            finally:
                server.terminate()
    print(f"as it should be, with openai {openai.__version__} and instructor {instructor.__version__}")


main(sys.argv[1])
