"""What the trials of clients ask of every client alike, and how they say what is wrong."""

import contextlib
import sys

import pydantic


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


@contextlib.contextmanager
def raises(error, what):
    """The block has to raise the error."""
    try:
        yield
    except error:
        return
    sys.exit(f"not as it should be: {what} is taken")


def first(attempt, what, tries=20):
    """The first result that is none of nothing: what a model with random weights says may have no end, and is cut."""
    for _ in range(tries):
        result = attempt()
        if result:
            return result
    sys.exit(f"not as it should be: {what}")
