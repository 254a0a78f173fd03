#!/usr/bin/env python3
"""Lets langchain-ollama, unchanged, use a `gpux serve` that it starts: whole and streamed answers, several turns, tools,
structured outputs, options, completions, vectors and errors.

usage: scripts/trials/clients/langchain_ollama_chat.py PROGRAM        as in build/release/bin/gpux

The model is that of chat.py. Needs the package langchain-ollama (scripts/trials/clients/try-all installs it); installs
nothing.
"""

import asyncio
import importlib.metadata
import pathlib
import sys

import ollama
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_ollama import ChatOllama, OllamaEmbeddings, OllamaLLM

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from chat_checks import Person, Weather, expect, first, raises
from chat_model import served_chat_model

KEY = "a-key-of-this-trial"
QUESTION = "How is the weather?"


def given(address, key=KEY):
    return {"base_url": address, "client_kwargs": {"headers": {"Authorization": f"Bearer {key}"}}}


def check_texts(address):
    chat = ChatOllama(**given(address), model="tiny", temperature=0, num_predict=40)
    whole = chat.invoke(QUESTION)
    expect(whole.content and 0 < whole.usage_metadata["output_tokens"] <= 40, "a chat")
    parts = list(chat.stream(QUESTION))
    expect("".join(part.content for part in parts) == whole.content, "a stream")
    expect(sum(parts[1:], parts[0]).usage_metadata == whole.usage_metadata, "the usage of a stream")
    expect(asyncio.run(chat.ainvoke(QUESTION)).content == whole.content, "an asynchronous chat")
    turns = [SystemMessage("Be brief."), HumanMessage(QUESTION), whole, HumanMessage("And now?")]
    expect(chat.invoke(turns).content, "a second turn")
    completed = OllamaLLM(**given(address), model="tiny", temperature=0, num_predict=40)
    expect("".join(completed.stream(QUESTION)) == completed.invoke(QUESTION) == whole.content, "completions")


def check_calls(address):
    chat = ChatOllama(**given(address), model="tiny", num_predict=60)
    expect(chat.bind_tools([Weather], tool_choice="any").invoke(QUESTION) is not None, "a chat with tools")
    # The model need not call by itself: its turn is that of a model that did.
    for arguments in ({"place": "Berlin"}, {}):
        called = AIMessage("", tool_calls=[{"id": "1", "name": "Weather", "args": arguments}])
        turns = [HumanMessage(QUESTION), called, ToolMessage("12", tool_call_id="1"), HumanMessage("And now?")]
        expect(chat.bind_tools([Weather]).invoke(turns) is not None, "the turn after a call")
    longer = ChatOllama(**given(address), model="tiny", num_predict=200)
    person = longer.with_structured_output(Person, method="json_schema").invoke(QUESTION)
    expect(isinstance(person, Person), "a structured output")
    both = longer.bind_tools([Weather]).bind(format=Person.model_json_schema())

    def ended():
        answer = both.invoke(QUESTION)
        return answer if answer.response_metadata["done_reason"] == "stop" else None

    answer = first(ended, "tools with a form")
    if not answer.tool_calls:
        Person.model_validate_json(answer.content)
    expect(isinstance(longer.with_structured_output(None, method="json_mode").invoke(QUESTION), dict | None), "JSON")


def check_options(address):
    options = {
        "num_ctx": 256, "num_gpu": 1, "num_thread": 2, "num_predict": 5, "repeat_penalty": 1.1, "repeat_last_n": 64, "temperature": 0.5,
        "seed": 1, "stop": ["zz"], "top_k": 5, "top_p": 0.9, "mirostat": 0, "mirostat_eta": 0.1, "mirostat_tau": 5.0,
        "tfs_z": 1.0, "keep_alive": "5m", "reasoning": False, "logprobs": True, "top_logprobs": 2,
    }
    answer = ChatOllama(**given(address), model="tiny", validate_model_on_init=True, **options).invoke(QUESTION)
    expect(answer.content and answer.usage_metadata["output_tokens"] <= 5, "options")
    expect(answer.response_metadata["logprobs"], "log probabilities")
    expect(ChatOllama(**given(address), model="tiny", num_predict=5, num_ctx=100_000).invoke(QUESTION), "a large context")
    with raises(ollama.ResponseError, "mirostat"):
        ChatOllama(**given(address), model="tiny", mirostat=1).invoke(QUESTION)


def check_vectors(address):
    options = {"num_ctx": 128, "num_gpu": 1, "num_thread": 2, "temperature": 0.5, "keep_alive": 300}
    for more in ({}, options):
        vectors = OllamaEmbeddings(**given(address), model="words", **more).embed_documents(["a dog runs", "a puppy"])
        expect(len(vectors) == 2 and len(vectors[0]) > 1, f"vectors, {more}")


def check_errors(address):
    for key, model, status in (("wrong-key-of-this-trial", "tiny", 401), (KEY, "no-such-model", 404)):
        for stream in (False, True):
            chat = ChatOllama(**given(address, key), model=model)
            try:
                list(chat.stream(QUESTION)) if stream else chat.invoke(QUESTION)
            except ollama.ResponseError as error:
                expect(error.status_code == status, f"the status {status}")
            else:
                sys.exit(f"not as it should be: taken: {key}, {model}")


def main(program):
    with served_chat_model(program, key=KEY) as address:
        for check in (check_texts, check_calls, check_options, check_vectors, check_errors):
            check(address)
    print(f"as it should be, with langchain-ollama {importlib.metadata.version('langchain-ollama')}")


main(sys.argv[1])
