#!/usr/bin/env python3
"""Lets LiteLLM, unchanged, use a `gpux serve` that it starts, by its providers openai, hosted_vllm, anthropic, ollama_chat
and ollama: whole and streamed answers, calls of tools with the turn after them, structured outputs, vectors and errors.

usage: scripts/trials/clients/litellm_chat.py PROGRAM        as in build/release/bin/gpux

The model is that of chat.py. Needs the package litellm (scripts/trials/clients/try-all installs it); installs nothing.
"""

import importlib.metadata
import json
import os
import pathlib
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks for a list on the internet
import litellm

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from chat_checks import MESSAGES, WEATHER, Person, expect, first, raises
from chat_model import served_chat_model

KEY = "a-key-of-this-trial"
FORM = {"type": "json_schema", "json_schema": {"name": "Person", "schema": Person.model_json_schema(), "strict": True}}


def text_of(chunks):
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def check_texts(provider, ask):
    whole = litellm.completion(**ask, messages=MESSAGES, max_tokens=40, temperature=0)
    text = whole.choices[0].message.content
    expect(text and 0 < whole.usage.completion_tokens <= 40, f"a chat by {provider}")
    usage = {"stream_options": {"include_usage": True}}
    chunks = list(litellm.completion(**ask, **usage, messages=MESSAGES, max_tokens=40, temperature=0, stream=True))
    expect(text_of(chunks) == text, f"a stream by {provider}")
    streamed = litellm.stream_chunk_builder(chunks, messages=MESSAGES)
    expect(streamed.usage.completion_tokens == whole.usage.completion_tokens, f"the usage of a stream by {provider}")
    # The answer goes back as LiteLLM has it: as its object, and as what its object writes.
    for said in (whole.choices[0].message, whole.choices[0].message.model_dump(), streamed.choices[0].message.model_dump()):
        turns = [{"role": "system", "content": "Be brief."}, *MESSAGES, said, {"role": "user", "content": "And now?"}]
        again = litellm.completion(**ask, messages=turns, max_tokens=5)
        expect(again.usage.prompt_tokens > whole.usage.prompt_tokens, f"a second turn by {provider}")


def check_calls(provider, ask):
    one_call = {"tool_choice": "required", "parallel_tool_calls": False}

    def call(**more):
        answer = litellm.completion(**ask, messages=MESSAGES, max_tokens=200, tools=[WEATHER], **one_call, **more)
        if more.get("stream"):
            answer = litellm.stream_chunk_builder(list(answer), messages=MESSAGES)
        message = answer.choices[0].message
        return message if answer.choices[0].finish_reason == "tool_calls" and message.tool_calls else None

    for more in ({}, {"stream": True}):
        message = first(lambda: call(**more), f"a call by {provider}, {more}")
        # Without additionalProperties, which LiteLLM leaves out for vLLM, there may be others.
        expect("place" in json.loads(message.tool_calls[0].function.arguments), f"the arguments of a call by {provider}")
        for said in (message, message.model_dump()):
            results = [{"role": "tool", "tool_call_id": one.id, "content": "12"} for one in message.tool_calls]
            history = [*MESSAGES, said, *results]
            for form in ({}, {"response_format": FORM}):
                again = litellm.completion(**ask, messages=history, max_tokens=100, tools=[WEATHER], **form)
                expect(again.choices[0].message, f"the turn after a call by {provider}, {form}")


def check_cut_call(provider, ask):
    """A call that max_tokens ended goes back as it is."""
    function = {"name": "Weather", "arguments": '{"place": "Ber'}
    said = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    history = [*MESSAGES, said, {"role": "tool", "tool_call_id": "c", "content": "cut"}]
    expect(litellm.completion(**ask, messages=history, max_tokens=5), f"a call that was cut, by {provider}")


def check_forms(provider, ask):
    def ended(form):
        answer = litellm.completion(**ask, messages=MESSAGES, max_tokens=300, response_format=form)
        return answer.choices[0].message.content if answer.choices[0].finish_reason == "stop" else None

    for form in (FORM, Person):
        text = first(lambda: ended(form), f"a form by {provider}")
        expect(set(json.loads(text)) == {"name", "age"}, f"a form by {provider}")
    litellm.completion(**ask, messages=MESSAGES, max_tokens=40, response_format={"type": "json_object"})


def check_settings(provider, ask):
    settings = {"temperature": 0.5, "top_p": 0.9, "seed": 1, "stop": ["zz"], "max_tokens": 5, "user": "u", "metadata": {"a": "b"}}
    if provider in ("openai", "hosted_vllm"):
        settings |= {
            "presence_penalty": 0.5, "frequency_penalty": 0.5, "logit_bias": {"5": 1}, "logprobs": True, "top_logprobs": 2,
            "n": 2, "parallel_tool_calls": False, "tools": [WEATHER],
        }
    if provider == "hosted_vllm":
        settings |= {"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "reasoning_effort": "none"}
    if provider == "ollama_chat":
        settings |= {"num_ctx": 256, "top_k": 5, "repeat_penalty": 1.1, "mirostat": 0, "keep_alive": "5m", "reasoning_effort": "none"}
    if provider == "anthropic":
        settings = {"temperature": 0.5, "top_p": 0.9, "top_k": 5, "stop": ["zz"], "max_tokens": 5}
    answer = litellm.completion(**ask, messages=MESSAGES, **settings)
    expect(len(answer.choices) == settings.get("n", 1), f"settings by {provider}")


def check_errors(provider, ask):
    with raises(litellm.AuthenticationError, f"a wrong key by {provider}"):
        litellm.completion(**{**ask, "api_key": "wrong"}, messages=MESSAGES, max_tokens=5)
    with raises(litellm.NotFoundError, f"an unknown model by {provider}"):
        litellm.completion(**{**ask, "model": f"{provider}/no-such-model"}, messages=MESSAGES, max_tokens=5)
    with raises(litellm.BadRequestError, f"a wrong temperature by {provider}"):
        litellm.completion(**ask, messages=MESSAGES, max_tokens=5, temperature=1000)


def check_vectors(address):
    texts = ["a dog runs", "a puppy"]
    for model, base in (
        ("openai/words", address + "/v1"), ("hosted_vllm/words", address + "/v1"), ("ollama/words", address),
    ):
        answer = litellm.embedding(model=model, api_base=base, api_key=KEY, input=texts)
        vectors = [one["embedding"] for one in answer.data]
        expect(len(vectors) == 2 and len(vectors[0]) == len(vectors[1]) > 1, f"vectors by {model}")
        expect(answer.usage.prompt_tokens > 0, f"the usage of vectors by {model}")


def main(program):
    litellm.suppress_debug_info = True
    with served_chat_model(program, key=KEY) as address:
        for provider, base, checks in (
            ("openai", "/v1", (check_texts, check_calls, check_cut_call, check_forms, check_settings, check_errors)),
            ("hosted_vllm", "/v1", (check_texts, check_calls, check_cut_call, check_forms, check_settings, check_errors)),
            ("anthropic", "", (check_texts, check_calls, check_forms, check_settings, check_errors)),
            ("ollama_chat", "", (check_texts, check_forms, check_settings, check_errors)),
            ("ollama", "", (check_texts, check_forms)),
        ):
            for check in checks:
                check(provider, {"model": f"{provider}/tiny", "api_base": address + base, "api_key": KEY})
        check_vectors(address)
    print(f"as it should be, with litellm {importlib.metadata.version('litellm')}")


main(sys.argv[1])
