"""Models that generate texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, cast, overload

from gpux import _gpux
from gpux._closing import Closing
from gpux._options import Isolation, Options, Sandbox, Strict, model_options
from gpux.errors import InvalidInput, Usage
from gpux.runtime import path_of, require_unicode

if TYPE_CHECKING:
    import os
    from types import TracebackType
    from typing import Unpack

Message: TypeAlias = Mapping[str, Any]
"""A message of a conversation, as OpenAI has it.

"role" ("system", "user", "assistant", "tool") and "content"; of an assistant also "reasoning_content" and "tool_calls";
of a tool "tool_call_id" and "name".
"""
ToolChoice: TypeAlias = Literal["auto", "none", "required"] | Mapping[str, Any]
"""Whether an answer calls tools, as OpenAI has it.

"auto": the model decides. "none": it is not shown the tools. "required": the answer is nothing but calls, with
arguments that are valid against the function's parameters, and reasoning before them where the model thinks first.
{"type": "function", "function": {"name": "add"}}: one call of this function.
"""
Reasoning: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
"""How much a model thinks before it answers, from nothing to as much as it can."""
CachePrecision: TypeAlias = Literal["auto", "model", "float16", "int8"]
"""How keys and values are stored: as the provider reads them best, as in the model's file, in half the memory, or in
about a quarter."""
LoadPhase: TypeAlias = Literal["reading", "session", "first_run", "ready"]
"""What loading a model does.

"reading": the files next to the model. "session": ONNX Runtime reads the weights and prepares the graph, which takes
nearly all of the time. "first_run": a run of two tokens, which reserves memory.
"""


class GenerationSettings(TypedDict, total=False):
    """How a text goes on: keyword arguments of gpux.Generator's calls.

    What is not given is as generation_config.json of the model says. Order of the steps: penalties, temperature, top_k,
    top_p, min_p, typical_p. At most one of json_object, json_schema, regex and grammar may be given.
    """

    temperature: float
    """0 to 100; 0: the most probable token."""
    top_k: int
    """Choose among so many of the most probable tokens; 0: all."""
    top_p: float
    """Choose among the most probable tokens with this share together; above 0 to 1."""
    min_p: float
    """Leave out tokens below this share of the highest probability; 0 to 1."""
    typical_p: float
    """Choose among locally typical tokens with this share together; above 0 to 1."""
    repetition_penalty: float
    """Divides the positive logits of tokens that occurred, also in the prompt; above 0 to 100."""
    repetition_window: int
    """So many of the last tokens have the repetition penalty; 0: all."""
    presence_penalty: float
    """Subtracted from the logits of generated tokens; -2 to 2."""
    frequency_penalty: float
    """The same for each time that a token was generated; -2 to 2."""
    logit_bias: Mapping[int, float]
    """Added to the logits of these tokens; -100 to 100."""
    seed: int
    """The same seed gives the same text; without one, it is another one each time."""
    max_tokens: int
    """From 1; default: until the context is full."""
    min_tokens: int
    """No end token and no stop ends the text before so many tokens."""
    stop: str | Sequence[str]
    """Texts that end it; they are not part of it."""
    stop_tokens: Sequence[int]
    """Tokens that end it, besides the model's end tokens."""
    bad_words: str | Sequence[str]
    """Texts whose tokens are not generated one after the other, alone and behind a space; not with a form."""
    ignore_eos: bool
    """The model's end tokens end nothing."""
    log_probabilities: bool
    """`scores` of the completion is filled."""
    top_log_probabilities: int
    """The most probable tokens in each score; 0 to 20."""
    prompt_log_probabilities: int
    """`prompt_scores` of the completion is filled, with so many most probable tokens each; 0 to 20. The prompt then
    runs token by token, like a text."""
    prompt_only: bool
    """No token is generated; not with max_tokens, min_tokens, a form."""
    cache_salt: str
    """Keys and values of earlier prompts serve prompts of the same salt alone; up to 1,024 bytes."""
    json_object: bool
    """The text is a JSON object."""
    json_schema: Mapping[str, Any] | str
    """The text is JSON that is valid against this schema."""
    regex: str
    """The whole text matches this regular expression."""
    grammar: str
    """The text is of this grammar, in Lark."""


_numbers = ("temperature", "top_p", "min_p", "typical_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
_counts = {
    "top_k": 2**32,
    "repetition_window": 2**63,
    "seed": 2**64,
    "max_tokens": 2**63,
    "min_tokens": 2**63,
    "top_log_probabilities": 2**32,
    "prompt_log_probabilities": 2**32,
}
_flags = ("ignore_eos", "log_probabilities", "prompt_only")
_forms = ("json_object", "json_schema", "regex", "grammar")
_names = (*_numbers, *_counts, *_flags, *_forms, "stop", "stop_tokens", "bad_words", "logit_bias", "cache_salt")


class TextStream:
    """A text that is being generated: an iterator of str, in pieces of whole characters.

    Waiting for a piece does not hold the GIL, and Ctrl-C ends it. As a context manager, the text ends with the block.
    """

    def __init__(self, stream: _gpux.HeldTextStream) -> None:
        self._stream = stream

    def __iter__(self) -> TextStream:
        return self

    def __next__(self) -> str:
        piece = self._stream.next()
        if piece is None:
            raise StopIteration
        return piece

    @property
    def completion(self) -> _gpux.Completion:
        """The whole text and its figures, after the last piece; gpux.Usage before."""
        return self._stream.completion()

    def cancel(self) -> None:
        """End the text soon: a few pieces may still come. May be called from another thread."""
        self._stream.cancel()

    def __enter__(self) -> TextStream:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cancel()


class ChatStream:
    """An answer that is being generated: an iterator of gpux.ChatDelta.

    Waiting for a part does not hold the GIL, and Ctrl-C ends it. As a context manager, the answer ends with the block.
    """

    def __init__(self, stream: _gpux.HeldChatStream) -> None:
        self._stream = stream

    def __iter__(self) -> ChatStream:
        return self

    def __next__(self) -> _gpux.ChatDelta:
        delta = self._stream.next()
        if delta is None:
            raise StopIteration
        return delta

    @property
    def completion(self) -> _gpux.ChatCompletion:
        """The whole answer, after the last part; gpux.Usage before."""
        return self._stream.completion()

    def cancel(self) -> None:
        """End the answer soon: a few parts may still come. May be called from another thread."""
        self._stream.cancel()

    def __enter__(self) -> ChatStream:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cancel()


class Generator(Closing):
    """Continues texts and answers conversations with a model that `gpux import` made of a decoder.

    May be used from several threads at once: their texts share the runs of the model, and do not depend on each other.
    No call holds the GIL while it waits, and Ctrl-C ends it. As a context manager, the generator is closed at the end.

    Args:
        model: a folder with tokenizer.json and model.onnx, or a name in the store. `gpux.Store().import_folder()` makes
            one of a folder with safetensors.
        provider: as for gpux.Runtime.
        context_length: tokens of a text with its prompt; None: the model's, or what the memory holds.
        max_sequences: texts at the same time; 1 to 256.
        max_waiting: texts that wait for one of these to end; more raise gpux.ResourceExhausted.
        cache_bytes: of keys and values; None: half of the memory that models leave, which all generators share.
        prompt_chunk: tokens of a prompt in a run, between which other texts go on; even, 2 to 65,536.
        reuse_prefixes: the keys and values of earlier prompts serve prompts that begin alike.
        prompt_lookup: tokens are guessed by what followed the same tokens earlier in the text, and several run at once,
            where the provider computes each as it does alone and where it pays. Changes no token.
        draft: a smaller model with the same tokens that guesses how texts go on, as `model`; None: none. Its guesses
            are computed as those of prompt_lookup are. Changes no token. It has the other arguments of the model, and
            both need the provider "decoder".
        cache_precision: of keys and values: "auto", "model" (as in the model's file), "float16" or "int8", which raises
            gpux.Usage where it makes the model's predictions worse.
        prompt_cache: a folder that keeps keys and values of prompts for later processes, which need not compute them
            again; it is made with mode 0700, and may be shared by processes of one user. None: no folder. Changes no
            token.
        prompt_cache_bytes: of all its files: those used longest ago are removed.
        progress: called with a LoadPhase as each phase of loading begins.
        strict, threads, memory_limit, isolation, sandbox, timeout, options: as for gpux.Runtime.

    Raises:
        Those of gpux.Runtime; gpux.InvalidModel where the model generates no text; gpux.Usage where the draft model has
        other tokens; gpux.ResourceExhausted where the memory holds no keys and values. All calls but close() raise
        gpux.Usage after close().
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        provider: str = "auto",
        *,
        context_length: int | None = None,
        max_sequences: int = 16,
        max_waiting: int = 256,
        cache_bytes: int | None = None,
        prompt_chunk: int = 256,
        reuse_prefixes: bool = True,
        prompt_lookup: bool = True,
        draft: str | os.PathLike[str] | None = None,
        cache_precision: CachePrecision = "auto",
        prompt_cache: str | os.PathLike[str] | None = None,
        prompt_cache_bytes: int = 4 << 30,
        progress: Callable[[LoadPhase], object] | None = None,
        strict: Strict = False,
        threads: int | None = None,
        memory_limit: int | str | None = None,
        isolation: Isolation | None = None,
        sandbox: Sandbox | None = None,
        timeout: float | None = None,
        options: Options | None = None,
    ) -> None:
        settings = model_options(
            None if provider == "auto" else provider,
            strict=strict,
            threads=threads,
            memory_limit=memory_limit,
            isolation=isolation,
            sandbox=sandbox,
            timeout=timeout,
            options=options,
        )
        engine: dict[str, object] = {"reuses_prefixes": bool(reuse_prefixes), "prompt_lookup": bool(prompt_lookup)}
        if cache_precision not in ("auto", "model", "float16", "int8"):
            raise Usage(f"cache_precision is {cache_precision!r}; accepted: auto, model, float16, int8")
        engine["cache_precision"] = cache_precision
        if prompt_cache is not None:
            engine["prompt_cache"] = path_of(prompt_cache)
        if draft is not None:
            engine["draft"] = path_of(draft)
        counts = {
            "context_length": context_length,
            "max_sequences": max_sequences,
            "max_waiting": max_waiting,
            "cache_bytes": cache_bytes,
            "prompt_chunk": prompt_chunk,
            "prompt_cache_bytes": prompt_cache_bytes,
        }
        for name, count in counts.items():
            if count is not None:
                engine[name] = _count(name, count, 2**63)
        self._generator = _gpux.LoadedGenerator(path_of(model), settings, engine, progress)

    @property
    def context_length(self) -> int:
        """Tokens of prompt and text together."""
        return self._generator.context_length

    @property
    def has_chat_template(self) -> bool:
        """Whether chat() can be used."""
        return self._generator.has_chat_template

    @property
    def verdict(self) -> _gpux.Verdict:
        """Which provider runs the model, and why."""
        return self._generator.verdict

    @overload
    def generate(self, prompt: str, **settings: Unpack[GenerationSettings]) -> _gpux.Completion: ...

    @overload
    def generate(self, prompt: Iterable[Message], **settings: Unpack[GenerationSettings]) -> _gpux.ChatCompletion: ...

    def generate(
        self, prompt: str | Iterable[Message], **settings: Unpack[GenerationSettings]
    ) -> _gpux.Completion | _gpux.ChatCompletion:
        """Continue a text as it is, without a chat template. With messages it is chat().

        Args:
            prompt: a str, or messages.
            settings: those of gpux.GenerationSettings.

        Returns:
            The text and its figures.

        Raises:
            gpux.InvalidInput (no token, longer than the context), gpux.Usage (an unknown setting, or one outside its
            range), gpux.ResourceExhausted (too many wait), gpux.DeadlineExceeded.
        """
        if isinstance(prompt, str):
            require_unicode(prompt)
            return self._generator.generate(prompt, _settings(settings))
        return self.chat(prompt, **settings)

    @overload
    def stream(self, prompt: str, **settings: Unpack[GenerationSettings]) -> TextStream: ...

    @overload
    def stream(self, prompt: Iterable[Message], **settings: Unpack[GenerationSettings]) -> ChatStream: ...

    def stream(
        self, prompt: str | Iterable[Message], **settings: Unpack[GenerationSettings]
    ) -> TextStream | ChatStream:
        """Continue a text, in pieces as they come. With messages it is stream_chat().

        What is not taken waits in memory. The model stays loaded while the stream exists.

        Args:
            prompt: a str, or messages.
            settings: those of gpux.GenerationSettings.

        Returns:
            An iterator.

        Raises:
            Those of generate(), also while the pieces are taken.
        """
        if isinstance(prompt, str):
            require_unicode(prompt)
            return TextStream(self._generator.stream(prompt, _settings(settings)))
        return self.stream_chat(prompt, **settings)

    def chat(
        self,
        messages: Iterable[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: ToolChoice = "auto",
        parallel_tool_calls: bool = True,
        template_values: Mapping[str, Any] | None = None,
        reasoning: Reasoning | None = None,
        **settings: Unpack[GenerationSettings],
    ) -> _gpux.ChatCompletion:
        """Answer a conversation, with the model's chat template.

        Args:
            messages: the conversation, dicts with "role" and "content".
            tools: functions that the model may call, as OpenAI has them.
            tool_choice: whether the answer calls one of them.
            parallel_tool_calls: False: calls behind the first one are left out.
            template_values: more variables of the template, such as {"enable_thinking": False}.
            reasoning: how much the model thinks before it answers, for templates that can be told; None: as the
                template has it.
            settings: those of gpux.GenerationSettings.

        Returns:
            The answer; its `message` is appended to the conversation to go on.

        Raises:
            Those of generate(); gpux.InvalidModel where the model has no chat template; gpux.InvalidInput for messages
            or tools that the template refuses.
        """
        return self._generator.chat(
            _messages(messages),
            _json(tools, "tools"),
            _tool_choice(tool_choice, parallel_tool_calls),
            _json(template_values, "template_values"),
            _reasoning(reasoning),
            _settings(settings),
        )

    def stream_chat(
        self,
        messages: Iterable[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: ToolChoice = "auto",
        parallel_tool_calls: bool = True,
        template_values: Mapping[str, Any] | None = None,
        reasoning: Reasoning | None = None,
        **settings: Unpack[GenerationSettings],
    ) -> ChatStream:
        """Answer a conversation, in parts as they come.

        Args:
            messages: as for chat().
            tools: as for chat().
            tool_choice: as for chat().
            parallel_tool_calls: as for chat().
            template_values: as for chat().
            reasoning: as for chat().
            settings: those of gpux.GenerationSettings.

        Returns:
            An iterator of gpux.ChatDelta.

        Raises:
            Those of chat(), also while the parts are taken.
        """
        return ChatStream(
            self._generator.stream_chat(
                _messages(messages),
                _json(tools, "tools"),
                _tool_choice(tool_choice, parallel_tool_calls),
                _json(template_values, "template_values"),
                _reasoning(reasoning),
                _settings(settings),
            )
        )

    def chat_prompt(
        self,
        messages: Iterable[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_values: Mapping[str, Any] | None = None,
        reasoning: Reasoning | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        """The prompt that chat() makes of messages, with its special tokens.

        Args:
            messages: as for chat().
            tools: as for chat().
            template_values: as for chat().
            reasoning: as for chat().
            add_generation_prompt: end with the beginning of the assistant's answer.

        Raises:
            Those of chat().
        """
        return self._generator.chat_prompt(
            _messages(messages),
            _json(tools, "tools"),
            _json(template_values, "template_values"),
            _reasoning(reasoning),
            bool(add_generation_prompt),
        )

    def memory_needed(self, tokens: int) -> int:
        """Bytes that the keys and values of so many tokens take."""
        return self._generator.memory_needed(_count("tokens", tokens, 2**40))

    @staticmethod
    def memory_of(model: str | os.PathLike[str], tokens: int | None = None) -> _gpux.GenerationMemory:
        """The memory that a model would take, without loading it.

        Args:
            model: as for gpux.Generator.
            tokens: of a text with its prompt; None: the model's whole context.

        Raises:
            gpux.NotFound, gpux.InvalidModel, gpux.Usage (more tokens than the context has).
        """
        return _gpux.generation_memory(path_of(model), _count("tokens", tokens or 0, 2**63), model_options())

    def close(self) -> None:
        """Release the model. Texts that are being generated keep it until they end; later calls raise gpux.Usage."""
        self._generator.close()


def _count(name: str, value: object, limit: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < limit:
        raise Usage(f"{name} is {value!r}, and not a whole number from 0")
    return value


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Usage(f"{name} is {value!r}, and not a number")
    return float(value)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise Usage(f"{name} is {value!r}, and not a str")
    require_unicode(value)
    return value


def _items(name: str, value: object) -> list[object]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise Usage(f"{name} is {value!r}, and not a list")
    return list(cast("Sequence[object]", value))


def _bias(value: object) -> list[tuple[int, float]]:
    if not isinstance(value, Mapping):
        raise Usage(f"logit_bias is {value!r}, and not a dict of tokens and numbers")
    pairs = cast("Mapping[object, object]", value).items()
    return [(_count("a token of logit_bias", token, 2**32), _number("logit_bias", bias)) for token, bias in pairs]


def _form(name: str, value: object) -> tuple[str, str]:
    if name == "json_object":
        return name, ""
    if name == "json_schema" and isinstance(value, Mapping):
        return name, _json(cast("Mapping[str, Any]", value), name)
    return name, _text(name, value)


def _settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as the extension reads them. What is None counts as not given."""
    result: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in _names:
            raise Usage(f"there is no setting {name!r}; accepted: {', '.join(_names)}")
        if value is None or (name == "json_object" and value is False):
            continue
        if name in _numbers:
            result[name] = _number(name, value)
        elif name in _counts:
            result[name] = _count(name, value, _counts[name])
        elif name in _flags:
            result[name] = bool(value)
        elif name in ("stop", "bad_words"):
            result[name] = [_text(name, one) for one in ([value] if isinstance(value, str) else _items(name, value))]
        elif name == "stop_tokens":
            result[name] = [_count(name, one, 2**32) for one in _items(name, value)]
        elif name == "cache_salt":
            result[name] = _text(name, value)
        elif name == "logit_bias":
            result[name] = _bias(value)
        elif "constraint" in result:
            raise Usage(f"{result['constraint'][0]} and {name} are given: the text has one form")
        else:
            result["constraint"] = _form(name, value)
    if result.get("max_tokens") == 0:
        raise Usage("max_tokens is 0, and not a whole number from 1")
    if result.get("top_log_probabilities"):
        result["log_probabilities"] = True
    return result


def _json(value: object, name: str) -> str:
    """Of a dict or a list; "" of None."""
    if value is None:
        return ""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} cannot be written as JSON: {error}") from error
    require_unicode(text)
    return text


def _tool_choice(choice: object, allows_several: object) -> tuple[str, str, bool]:
    """The choice in a word, the function that is called or "", and whether several calls may come."""
    if isinstance(choice, str) and choice in ("auto", "none", "required"):
        return choice, "", bool(allows_several)
    function = cast("Mapping[str, object]", choice).get("function") if isinstance(choice, Mapping) else None
    name = cast("Mapping[str, object]", function).get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name:
        raise Usage(
            f'tool_choice is {choice!r}; accepted: "auto", "none", "required", or '
            '{"type": "function", "function": {"name": …}}'
        )
    require_unicode(name)
    return "required", name, bool(allows_several)


_efforts = ("none", "minimal", "low", "medium", "high", "xhigh")


def _reasoning(effort: object) -> str:
    if effort is None:
        return ""
    if not isinstance(effort, str) or effort not in _efforts:
        raise Usage(f"reasoning is {effort!r}; accepted: {', '.join(_efforts)}")
    return effort


_message_keys = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name")
_Call: TypeAlias = tuple[str, str, str]


def _member(message: Mapping[str, Any], key: str, place: str) -> str:
    value = message.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidInput(f"{place}[{key!r}] is a {type(value).__name__}, and not a str")
    require_unicode(value)
    return value


def _call(call: object, place: str) -> _Call:
    function = call.get("function") if isinstance(call, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not isinstance(function, Mapping):
        raise InvalidInput(f'{place} is {call!r}, and not {{"id": …, "function": {{"name": …, "arguments": …}}}}')
    one = cast("Mapping[str, Any]", call)
    named = cast("Mapping[str, Any]", function)
    return _member(one, "id", place), _member(named, "name", place), _member(named, "arguments", place)


def _message(message: object, place: str) -> tuple[str, str, str, list[_Call], str, str]:
    if not isinstance(message, Mapping):
        raise InvalidInput(f"{place} is a {type(message).__name__}, and not a dict with role and content")
    given = cast("Mapping[str, Any]", message)
    for key in given:
        if key not in _message_keys:
            raise InvalidInput(f"{place} has the key {key!r}: {', '.join(_message_keys)}")
    calls: object = given.get("tool_calls") or ()
    if isinstance(calls, str) or not isinstance(calls, Sequence):
        raise InvalidInput(f"{place}['tool_calls'] is {calls!r}, and not a list of calls")
    read = [_call(one, f"{place}['tool_calls']") for one in cast("Sequence[object]", calls)]
    role = _member(given, "role", place)
    if not role:
        raise InvalidInput(f"{place} has no role")
    content, reasoning = _member(given, "content", place), _member(given, "reasoning_content", place)
    return role, content, reasoning, read, _member(given, "tool_call_id", place), _member(given, "name", place)


def _messages(messages: object) -> list[tuple[str, str, str, list[_Call], str, str]]:
    given = messages
    if isinstance(messages, str | Mapping) or not isinstance(messages, Iterable):
        raise InvalidInput(f"the messages are a {type(given).__name__}, and not a list of dicts")
    return [_message(one, f"messages[{index}]") for index, one in enumerate(cast("Iterable[object]", messages))]


__all__ = ["CachePrecision", "ChatStream", "GenerationSettings", "Generator", "LoadPhase", "Message", "TextStream"]
