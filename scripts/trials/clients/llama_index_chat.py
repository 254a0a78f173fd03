#!/usr/bin/env python3
"""Lets LlamaIndex's OpenAILike and Ollama classes, unchanged, use a `gpux serve` that it starts: whole and streamed
answers, several turns, tools, structured outputs, completions, vectors and errors.

usage: scripts/trials/clients/llama_index_chat.py PROGRAM        as in build/release/bin/gpux

The model is that of chat.py. Needs the packages llama-index-llms-openai-like, llama-index-llms-ollama,
llama-index-embeddings-openai-like and llama-index-embeddings-ollama (scripts/trials/clients/try-all installs them);
installs nothing.
"""

import asyncio
import importlib.metadata
import pathlib
import sys

import ollama
import openai
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.ollama import OllamaEmbedding
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.ollama import Ollama
from llama_index.llms.openai_like import OpenAILike

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from chat_checks import Person, expect, first
from chat_model import served_chat_model

KEY = "a-key-of-this-trial"
QUESTION = [ChatMessage("How is the weather?")]


def openai_like(address, key=KEY, model="tiny", **more):
    given = {"is_chat_model": True, "is_function_calling_model": True, "should_use_structured_outputs": True, "max_retries": 0}
    return OpenAILike(model=model, api_base=address + "/v1", api_key=key, context_window=4096, **given, **more)


def of_ollama(address, key=KEY, model="tiny", **more):
    options = {"num_predict": more.pop("max_tokens", 40), "seed": 1}
    headers = {"Authorization": f"Bearer {key}"}
    return Ollama(
        model=model, base_url=address, context_window=4096, additional_kwargs=options, request_timeout=60,
        client=ollama.Client(address, headers=headers), async_client=ollama.AsyncClient(address, headers=headers), **more,
    )


def check_texts(name, made):
    llm = made(max_tokens=40, temperature=0)
    whole = llm.chat(QUESTION)
    expect(whole.message.content, f"a chat of {name}")
    parts = list(llm.stream_chat(QUESTION))
    expect("".join(part.delta or "" for part in parts) == whole.message.content, f"a stream of {name}")
    expect(asyncio.run(llm.achat(QUESTION)).message.content == whole.message.content, f"an asynchronous chat of {name}")
    turns = [ChatMessage("Be brief.", role=MessageRole.SYSTEM), *QUESTION, whole.message, ChatMessage("And now?")]
    expect(llm.chat(turns).message.content, f"a second turn of {name}")
    completed = llm.complete("How is the weather?").text
    expect("".join(part.delta or "" for part in llm.stream_complete("How is the weather?")) == completed, f"completions of {name}")


def check_calls(name, made):
    def weather(place: str = "here") -> str:
        """The weather of a place."""
        return "12 degrees"

    llm, tool = made(max_tokens=300), FunctionTool.from_defaults(weather)

    def call():
        answer = llm.chat_with_tools([tool], user_msg=QUESTION[0], tool_required=True)
        calls = llm.get_tool_calls_from_response(answer, error_on_no_tool_call=False)
        return (answer.message, calls) if calls else None

    if name == "Ollama":  # which requires no calls: the turn is that of a model that did call
        llm.chat_with_tools([tool], user_msg=QUESTION[0])
        block = ToolCallBlock(tool_call_id="1", tool_name="weather", tool_kwargs={"place": "Berlin"})
        message, ids = ChatMessage(role=MessageRole.ASSISTANT, blocks=[block]), ["1"]
    else:
        message, calls = first(call, f"a call of {name}")
        expect(calls[0].tool_name == "weather", f"a call of {name}")
        ids = [one.tool_id for one in calls]
    results = [
        ChatMessage("12 degrees", role=MessageRole.TOOL, additional_kwargs={"tool_call_id": one, "name": "weather"})
        for one in ids
    ]
    again = llm.chat_with_tools([tool], chat_history=[*QUESTION, message, *results])
    expect(again.message, f"the turn after a call of {name}")


def check_outputs(name, made):
    llm = made(max_tokens=200)
    prompt = PromptTemplate("Who?")
    person = llm.structured_predict(Person, prompt)
    expect(10 <= person.age <= 99, f"a structured output of {name}")
    streamed = list(llm.stream_structured_predict(Person, prompt))
    expect(streamed, f"a streamed structured output of {name}")


def check_errors(name, made):
    for key, model, status in (("wrong-key-of-this-trial", "tiny", 401), (KEY, "no-such-model", 404)):
        try:
            made(key=key, model=model).chat(QUESTION)
        except (openai.AuthenticationError, openai.NotFoundError, ollama.ResponseError) as error:
            expect(error.status_code == status, f"the status {status} of {name}")
        else:
            sys.exit(f"not as it should be: {name} takes {key}, {model}")


def check_vectors(address):
    by_openai = OpenAILikeEmbedding(model_name="words", api_base=address + "/v1", api_key=KEY, embed_batch_size=10)
    by_ollama = OllamaEmbedding(
        model_name="words", base_url=address, ollama_additional_kwargs={"num_ctx": 128, "mirostat": 0},
        client_kwargs={"headers": {"Authorization": f"Bearer {KEY}"}},
    )
    texts = ["a dog runs", "a puppy"]
    for model in (by_openai, by_ollama):
        vectors = model.get_text_embedding_batch(texts)
        expect(len(vectors) == 2 and len(vectors[0]) > 1, f"vectors of {type(model).__name__}")
        expect(len(model.get_query_embedding("a dog")) == len(vectors[0]), f"a vector of {type(model).__name__}")


def main(program):
    with served_chat_model(program, key=KEY) as address:
        for name, make in (("OpenAILike", openai_like), ("Ollama", of_ollama)):
            for check in (check_texts, check_calls, check_outputs, check_errors):
                check(name, lambda **given: make(address, **given))
        check_vectors(address)
    print(f"as it should be, with llama-index-core {importlib.metadata.version('llama-index-core')}")


main(sys.argv[1])
