#!/usr/bin/env python3
"""Lets OpenAI's Agents SDK, unchanged and by its default API, use a `gpux serve` that it starts: an agent with a tool
and one with an output type, whole and streamed.

usage: scripts/trials/clients/agents.py PROGRAM        as in build/release/bin/gpux

The model is that of chat.py. Needs the package openai-agents, which scripts/setup does not install; installs nothing.
"""

import asyncio
import pathlib
import sys
from typing import Annotated

# This file has the name of the package.
sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])
import agents
import openai
import pydantic
from chat_checks import Person, expect
from chat_model import served_chat_model


async def run(agent, question):
    """The whole run, whose output the streamed one has, too."""
    whole = await agents.Runner.run(agent, question, max_turns=3)
    streamed = agents.Runner.run_streamed(agent, question, max_turns=3)
    async for _ in streamed.stream_events():
        pass
    expect(streamed.final_output == whole.final_output, "the output of a streamed run")
    return whole


async def use_agents(address):
    places = []

    @agents.function_tool
    def weather(place: Annotated[str, pydantic.Field(max_length=6)]) -> str:
        """The weather of a place."""
        places.append(place)
        return "12 degrees"

    agents.set_tracing_disabled(True)
    agents.set_default_openai_client(openai.AsyncOpenAI(base_url=address + "/v1", api_key="none", max_retries=0))
    # What a model with random weights says by itself may have no end: a run ends with the call, another with a form.
    settings = agents.ModelSettings(tool_choice="required", parallel_tool_calls=False, extra_body={"seed": 1})
    caller = agents.Agent(
        name="caller", instructions="Be brief.", model="tiny", tools=[weather], model_settings=settings,
        tool_use_behavior="stop_on_first_tool",
    )
    called = await run(caller, "How is the weather?")
    expect([item.type for item in called.new_items] == ["tool_call_item", "tool_call_output_item"], "the items of a run")
    expect(called.final_output == "12 degrees" and places[0] == places[1], "the calls of the tool")
    settings = agents.ModelSettings(extra_body={"seed": 1})
    reader = agents.Agent(name="reader", model="tiny", output_type=Person, model_settings=settings)
    person = await run(reader, [*called.to_input_list(), {"role": "user", "content": "Who?"}])
    expect(10 <= person.final_output.age <= 99, "an output type")


def main(program):
    with served_chat_model(program) as address:
        asyncio.run(use_agents(address))
    print("as it should be")


main(sys.argv[1])
