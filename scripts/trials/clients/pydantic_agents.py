#!/usr/bin/env python3
"""Lets Pydantic AI, unchanged, use a `gpux serve` that it starts, by chats (providers openai, ollama and vllm), responses
and messages of Anthropic: texts, streams, several turns, tools together with an output type, vectors and errors.

usage: scripts/trials/clients/pydantic_agents.py PROGRAM        as in build/release/bin/gpux

The model is that of chat.py. Needs the package pydantic-ai-slim[openai,anthropic] (scripts/trials/clients/try-all
installs it); installs nothing.
"""

import asyncio
import contextlib
import importlib.metadata
import pathlib
import sys
from typing import Literal

import pydantic
from pydantic_ai import Agent, Embedder, ModelHTTPError, NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import ModelRequest, ToolReturnPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.ollama import OllamaModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.profiles.anthropic import AnthropicModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.vllm import VLLMProvider
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import UsageLimits

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from chat_checks import Weather, expect, raises
from chat_model import served_chat_model

KEY = "a-key-of-this-trial"
QUESTION = "How is the weather?"


def models(address, name="tiny", key=KEY):
    given = {"base_url": address + "/v1", "api_key": key}
    return {
        "openai chat": OpenAIChatModel(name, provider=OpenAIProvider(**given)),
        "openai responses": OpenAIResponsesModel(name, provider=OpenAIProvider(**given)),
        "ollama": OllamaModel(name, provider=OllamaProvider(**given)),
        "vllm": OpenAIChatModel(name, provider=VLLMProvider(**given)),
        # The library allows forms to models whose names it knows; a profile says it of others.
        "anthropic": AnthropicModel(
            name, provider=AnthropicProvider(base_url=address, api_key=key),
            profile=AnthropicModelProfile(supports_json_schema_output=True),
        ),
    }


async def check_texts(name, model):
    settings = {"max_tokens": 40, "temperature": 0}
    agent = Agent(model, instructions="Be brief.", model_settings=settings)
    whole = await agent.run(QUESTION)
    expect(whole.output and 0 < whole.usage.output_tokens <= 40, f"a text of {name}")
    async with agent.run_stream(QUESTION) as stream:
        expect(await stream.get_output() == whole.output, f"a stream of {name}")
        expect(stream.usage.output_tokens == whole.usage.output_tokens, f"the usage of a stream of {name}")
    again = await agent.run("And now?", message_history=whole.all_messages())
    expect(again.output and len(again.all_messages()) == 4, f"a second turn of {name}")


class Sky(pydantic.BaseModel):
    """Has no bounds, which the library leaves out for Anthropic."""

    kind: Literal["clear", "cloudy"]
    is_warm: bool


WEATHER = ToolDefinition(name="Weather", parameters_json_schema=Weather.model_json_schema())


async def check_calls(name, model):
    """A call that is required, and the turn after it, also as a stream."""
    history = [ModelRequest.user_text_prompt(QUESTION)]
    tools = ModelRequestParameters(function_tools=[WEATHER], allow_text_output=False)
    settings = {"max_tokens": 300, "tool_choice": "required", "parallel_tool_calls": False}
    for _ in range(20):
        called = await model_request(model, history, model_settings=settings, model_request_parameters=tools)
        async with model_request_stream(model, history, model_settings=settings, model_request_parameters=tools) as stream:
            async for _ in stream:
                pass
        if called.finish_reason == stream.get().finish_reason == "tool_call":
            break
    for response in (called, stream.get()):
        expect(response.tool_calls and not response.text, f"a call of {name}")
        for call in response.tool_calls:
            Weather.model_validate(call.args_as_dict())
        results = [ToolReturnPart(call.tool_name, "12", tool_call_id=call.tool_call_id) for call in response.tool_calls]
        turns = [*history, response, ModelRequest(results)]
        free = ModelRequestParameters(function_tools=[WEATHER])
        again = await model_request(model, turns, model_settings={"max_tokens": 5}, model_request_parameters=free)
        expect(again.usage.input_tokens > called.usage.input_tokens, f"the turn after a call of {name}")


async def check_outputs(name, model):
    """Tools together with a type of the output, in each way that the library has."""

    def weather(place: str = "here") -> str:
        """The weather of a place."""
        return "12 degrees"

    for output in (ToolOutput(Sky), NativeOutput(Sky)):
        agent = Agent(model, output_type=output, tools=[weather], model_settings={"max_tokens": 200})
        for _ in range(20):
            try:
                sky = (await agent.run(QUESTION, usage_limits=UsageLimits(request_limit=4))).output
                break
            except (UnexpectedModelBehavior, UsageLimitExceeded):  # a text that was cut, or calls without end
                continue
        else:
            sys.exit(f"not as it should be: a tool with {type(output).__name__} of {name}")
        expect(isinstance(sky, Sky), f"the output of {name}")
    with contextlib.suppress(UnexpectedModelBehavior):  # the form is in the prompt alone, which this model cannot read
        await Agent(model, output_type=PromptedOutput(Sky), model_settings={"max_tokens": 200}).run(QUESTION)


async def check_settings(name, model):
    settings = {
        "max_tokens": 5, "temperature": 0.5, "top_p": 0.9, "top_k": 5, "seed": 1, "presence_penalty": 0.5,
        "frequency_penalty": 0.5, "logit_bias": {"5": 1}, "stop_sequences": ["zz"], "parallel_tool_calls": False,
        "timeout": 20, "thinking": False, "openai_logprobs": True, "openai_top_logprobs": 2, "openai_user": "u",
        "openai_service_tier": "auto", "openai_store": False,
    }
    expect((await Agent(model, model_settings=settings).run(QUESTION)).output, f"settings of {name}")


async def check_errors(address):
    for key, model, status in (("wrong-key-of-this-trial", "tiny", 401), (KEY, "no-such-model", 404)):
        for name, one in models(address, model, key).items():
            try:
                await Agent(one, model_settings={"max_tokens": 5}).run(QUESTION)
            except ModelHTTPError as error:
                expect(error.status_code == status, f"the status {status} of {name}")
            else:
                sys.exit(f"not as it should be: {name} takes {key} and {model}")
    with raises(ModelHTTPError, "a wrong temperature"):
        await Agent(models(address)["openai chat"], model_settings={"temperature": 1000}).run(QUESTION)


async def check_vectors(address):
    provider = OpenAIProvider(base_url=address + "/v1", api_key=KEY)
    embedder = Embedder(OpenAIEmbeddingModel("words", provider=provider))
    answer = await embedder.embed_documents(["a dog runs", "a puppy"])
    expect(len(answer.embeddings) == 2 and answer.usage.input_tokens > 0, "vectors")


async def main(program):
    with served_chat_model(program, key=KEY) as address:
        for name, model in models(address).items():
            for check in (check_texts, check_calls, check_outputs, check_settings):
                await check(name, model)
        await check_errors(address)
        await check_vectors(address)
    print(f"as it should be, with pydantic-ai {importlib.metadata.version('pydantic-ai-slim')}")


asyncio.run(main(sys.argv[1]))
