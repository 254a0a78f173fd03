"""Models that generate texts: a decoder whose tokens are characters, so that expressions say what it answers."""

from __future__ import annotations

import json
import math
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY

import gpux

REFERENCE = REPOSITORY / "tests" / "generation" / "references" / "qwen3"
TEMPLATE = (
    "{# <think> <tool_call> #}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if tools %}{{ tools | length }} tools\n{% endif %}"
    "{% if add_generation_prompt %}assistant: {% if opens %}<think>{% endif %}{% endif %}"
)
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {}}}]
MESSAGES = [{"role": "user", "content": "hi"}]


def character_tokenizer() -> dict[str, Any]:
    """Byte-level BPE without merges: a token for each byte, and three special ones."""
    characters = [chr(code) for code in (*range(0x21, 0x7F), 0x120, 0x10A)]
    special = ["<unk>", "<s>", "</s>"]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": index, "content": token, **flags} for index, token in enumerate(special)],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: index for index, token in enumerate([*special, *characters])},
            "merges": [],
        },
    }


@pytest.fixture(scope="module")
def folder(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model as people get it; in the store it is "plain", and "talking" with a chat template."""
    source = tmp_path_factory.mktemp("generator")
    config = json.loads((REFERENCE / "config.json").read_text())
    config["max_position_embeddings"] = 100_000
    (source / "config.json").write_text(json.dumps(config))
    shutil.copy(REFERENCE / "model.safetensors", source / "model.safetensors")
    (source / "generation_config.json").write_text(json.dumps({"eos_token_id": 2}))
    (source / "tokenizer.json").write_text(json.dumps(character_tokenizer()))
    gpux.Store().import_folder(source, "plain")
    (source / "chat_template.jinja").write_text(TEMPLATE)
    gpux.Store().import_folder(source, "talking")
    return source


@pytest.fixture(scope="module")
def generator(folder: Path) -> gpux.Generator:
    return gpux.Generator("talking")


def test_draft(folder: Path) -> None:
    with (
        gpux.Generator("plain", "decoder") as alone,
        gpux.Generator("plain", "decoder", draft="talking") as drafted,
    ):
        answers = [one.generate("ab", max_tokens=60, ignore_eos=True) for one in (alone, drafted)]
        assert answers[0].tokens == answers[1].tokens
        assert "draft model 'talking'" in str(drafted.verdict.notes)
    with pytest.raises(gpux.Usage, match="draft is 'talking', and the draft model runs on cpu"):
        gpux.Generator("plain", "cpu", draft="talking")


def test_texts(generator: gpux.Generator) -> None:
    completion = generator.generate("ab", max_tokens=8, ignore_eos=True)
    assert str(completion) == completion.text
    assert len(completion.tokens) == 8
    assert completion.finish_reason == "length"
    assert completion.prompt_tokens == 2
    assert 0 < completion.time_to_first_token <= completion.time
    assert generator.generate("ab", max_tokens=8, ignore_eos=True).tokens == completion.tokens
    sampled = [generator.generate("ab", max_tokens=30, temperature=1.5, seed=7).tokens for _ in range(2)]
    assert sampled[0] == sampled[1]


def test_settings(generator: gpux.Generator) -> None:
    assert generator.generate("a", regex="yes, no", stop=",").text == "yes"
    assert generator.generate("a", regex="yes, no", stop=["x", "o"]).stop_text == "o"
    schema = {"type": "object", "properties": {"a": {"enum": [12]}}, "required": ["a"], "additionalProperties": False}
    assert json.loads(generator.generate("a", json_schema=schema).text) == {"a": 12}
    assert json.loads(generator.generate("a", json_schema=json.dumps(schema)).text) == {"a": 12}
    assert generator.generate("a", grammar='start: "xyz"').text == "xyz"
    scores = generator.generate("a", max_tokens=2, top_log_probabilities=3, ignore_eos=True).scores
    assert [len(score.most_probable) for score in scores] == [3, 3]
    assert scores[0].chosen.log_probability == scores[0].most_probable[0].log_probability < 0
    prompt = generator.generate("abc", prompt_only=True, prompt_log_probabilities=1)
    assert (prompt.text, prompt.tokens, len(prompt.prompt_scores)) == ("", [], prompt.prompt_tokens)
    assert math.isnan(prompt.prompt_scores[0].chosen.log_probability)
    assert all(one.rank >= 1 and one.chosen.log_probability < 0 for one in prompt.prompt_scores[1:])
    with pytest.raises(gpux.Usage, match="prompt_only is set, and max_tokens"):
        generator.generate("a", prompt_only=True, max_tokens=2)
    token = scores[0].chosen.token
    assert generator.generate("a", max_tokens=1, ignore_eos=True, logit_bias={token: -100}).tokens != [token]
    assert generator.generate("a", stop_tokens=[token], max_tokens=5).end_token == token


def test_a_stream(generator: gpux.Generator) -> None:
    stream = generator.stream("ab", regex="some text")
    with pytest.raises(gpux.Usage):
        _ = stream.completion
    pieces = list(stream)
    assert len(pieces) > 2
    assert "".join(pieces) == "some text" == stream.completion.text
    with generator.stream("ab", ignore_eos=True) as endless:
        assert next(endless)
    assert sum(len(piece) for piece in endless) < 100_000
    assert endless.completion.finish_reason == "cancelled"


def test_a_stream_is_cancelled_from_another_thread(generator: gpux.Generator) -> None:
    stream = generator.stream("ab", ignore_eos=True)
    next(stream)
    timer = threading.Timer(0.05, stream.cancel)
    timer.start()
    assert sum(1 for _ in stream) < 100_000  # the timer runs: waiting does not hold the GIL
    assert stream.completion.finish_reason == "cancelled"


def test_a_chat(generator: gpux.Generator) -> None:
    assert generator.has_chat_template
    assert generator.chat_prompt(MESSAGES) == "user: hi\nassistant: "
    assert generator.chat_prompt(MESSAGES, add_generation_prompt=False) == "user: hi\n"
    answer = generator.chat(MESSAGES, regex="<think>why</think>yes")
    assert (answer.reasoning, answer.content, str(answer), answer.finish_reason) == ("why", "yes", "yes", "stop")
    assert answer.message == {"role": "assistant", "content": "yes", "reasoning_content": "why"}
    assert answer.completion.text == "<think>why</think>yes"
    assert generator.generate([*MESSAGES, answer.message, *MESSAGES], regex="no").content == "no"
    opened = generator.chat(MESSAGES, template_values={"opens": True}, regex="why</think>yes")
    assert (opened.reasoning, opened.content) == ("why", "yes")


def test_a_chat_asks_for_reasoning(generator: gpux.Generator) -> None:
    with pytest.raises(gpux.Usage, match="reasoning is 'much'; accepted: none, minimal, low, medium, high, xhigh"):
        generator.chat(MESSAGES, reasoning="much")  # type: ignore[arg-type]
    assert generator.chat_prompt(MESSAGES, reasoning=None) == generator.chat_prompt(MESSAGES)


def test_a_chat_with_tools(generator: gpux.Generator) -> None:
    call = r'<tool_call>\{"name": "add", "arguments": \{"a": 1\}\}</tool_call>'
    answer = generator.chat(MESSAGES, tools=TOOLS, regex=call, seed=1)
    (one,) = answer.tool_calls
    assert (one.name, json.loads(one.arguments)) == ("add", {"a": 1})
    result = {"role": "tool", "content": "2", "tool_call_id": one.id, "name": "add"}
    assert generator.chat([*MESSAGES, answer.message, result], tools=TOOLS, regex="two").content == "two"


def test_a_chat_that_has_to_call(generator: gpux.Generator) -> None:
    nothing = {"type": "object", "properties": {}, "additionalProperties": False}
    tools = [*TOOLS, {"type": "function", "function": {"name": "now", "parameters": nothing}}]
    no_thinking = {3 + ord("h") - 0x21: -100.0}
    named = {"type": "function", "function": {"name": "now"}}
    answer = generator.chat(MESSAGES, tools=tools, tool_choice=named, logit_bias=no_thinking)
    (one,) = answer.tool_calls
    assert (one.name, json.loads(one.arguments), answer.content) == ("now", {}, "")
    stream = generator.stream_chat(
        MESSAGES, tools=tools[1:], tool_choice="required", parallel_tool_calls=False, logit_bias=no_thinking
    )
    assert [delta.name for delta in stream if delta.kind == "tool_call"] == ["now"]
    assert generator.chat(MESSAGES, tools=tools, tool_choice="none", regex="yes").content == "yes"
    with pytest.raises(gpux.InvalidInput, match="there are no tools"):
        generator.chat(MESSAGES, tool_choice="required")
    for wrong in ("any", {"function": {}}, None):
        with pytest.raises(gpux.Usage, match="tool_choice is"):
            generator.chat(MESSAGES, tools=tools, tool_choice=wrong)  # type: ignore[arg-type]


def test_a_chat_as_a_stream(generator: gpux.Generator) -> None:
    stream = generator.stream_chat(MESSAGES, regex="<think>why</think>yes")
    deltas = list(stream)
    joined = {kind: "".join(one.text for one in deltas if one.kind == kind) for kind in ("reasoning", "content")}
    assert joined == {"reasoning": "why", "content": "yes"}
    assert stream.completion.content == "yes"
    assert [one.text for one in generator.stream(MESSAGES, regex="y")] == ["y"]


def test_figures_of_the_model(generator: gpux.Generator) -> None:
    assert generator.context_length == 100_000
    assert generator.verdict.active in (["cpu"], ["decoder"])
    memory = gpux.Generator.memory_of("talking", 100)
    assert memory.tokens * memory.cache_bytes_per_token == generator.memory_needed(100)
    assert memory.total_bytes == memory.weight_bytes + generator.memory_needed(100)
    assert gpux.Generator.memory_of("talking").tokens == 100_000


def test_loading_and_closing(folder: Path) -> None:
    phases: list[str] = []
    with gpux.Generator("talking", context_length=64, max_sequences=2, progress=phases.append) as one:
        assert phases == ["reading", "session", "first_run", "ready"]
        assert one.context_length == 64
        stream = one.stream("a", regex="yes")
    assert "".join(stream) == "yes"
    with pytest.raises(gpux.Usage, match="closed"):
        one.generate("a")
    one.close()


def test_a_progress_that_raises(folder: Path) -> None:
    def progress(phase: str) -> None:
        raise RuntimeError(phase)

    with pytest.raises(RuntimeError, match="reading"):
        gpux.Generator("talking", progress=progress)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temprature": 1}, "there is no setting 'temprature'; accepted: temperature"),
        ({"temperature": 1000}, "temperature is 1000; accepted: 0 to 100"),
        ({"temperature": "warm"}, "temperature is 'warm', and not a number"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"top_k": 1.5}, "top_k is 1.5, and not a whole number"),
        ({"stop": 1}, "stop is 1, and not a list"),
        ({"regex": "a", "json_object": True}, "regex and json_object are given"),
        ({"logit_bias": [1]}, "logit_bias is"),
        ({"cache_salt": 1}, "cache_salt is 1"),
        ({"bad_words": [""]}, "bad_words has a text of 0 bytes; accepted: 1 to 256"),
        ({"bad_words": "a", "json_object": True}, "bad_words is set, and a constraint"),
        ({"cache_salt": "a" * 1025}, "cache_salt has 1025 bytes; accepted: up to 1024"),
    ],
)
def test_settings_that_are_none(generator: gpux.Generator, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(gpux.Usage, match=message.replace("(", r"\(")):
        generator.generate("a", **settings)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "needs a message"),
        ([{"content": "a"}], r"messages\[0\] has no role"),
        ([{"role": "user", "content": ["a"]}], "is a list, and not a str"),
        ([{"role": "user", "contents": "a"}], "has the key 'contents'"),
        (["a"], "is a str, and not a dict"),
        ([{"role": "assistant", "tool_calls": [1]}], "is 1, and not"),
        ([{"role": "assistant", "tool_calls": 1}], "is 1, and not a list of calls"),
        ({"role": "user"}, "and not a list of dicts"),
        ([{"role": "user", "content": "\ud800"}], "not valid Unicode"),
    ],
)
def test_messages_that_are_none(generator: gpux.Generator, messages: Any, message: str) -> None:
    with pytest.raises(gpux.InvalidInput, match=message):
        generator.chat(messages)


def test_a_model_without_a_chat_template(folder: Path) -> None:
    with gpux.Generator("plain") as plain:
        assert not plain.has_chat_template
        assert plain.generate("a", regex="b").text == "b"
        with pytest.raises(gpux.InvalidModel, match="has no chat template"):
            plain.chat(MESSAGES)


@pytest.mark.parametrize(
    "call", ['generator.generate("a", ignore_eos=True)', 'list(generator.stream("a", ignore_eos=True))']
)
def test_ctrl_c_ends_a_text(folder: Path, call: str) -> None:
    code = f"""
import gpux
generator = gpux.Generator("plain")
print("ready", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", generator.generate("a", regex="yes"))
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    threading.Event().wait(0.3)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (0, "interrupted yes\n", "")


def test_ctrl_c_ends_only_the_call_that_it_came_to(folder: Path) -> None:
    code = """
import gpux, os, signal, threading
generator = gpux.Generator("plain")
for _ in range(100):
    try:
        threading.Timer(0.005, os.kill, (os.getpid(), signal.SIGINT)).start()
        while True:
            generator.generate("a", max_tokens=1)
    except KeyboardInterrupt:
        for _ in range(10):
            generator.generate("a", max_tokens=1)
print("done")
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (process.returncode, process.stdout, process.stderr) == (0, "done\n", "")


def test_prompts_are_kept_across_restarts(folder: Path, tmp_path: Path) -> None:
    assert folder.exists()  # it is stored as "plain"
    kept, prompt = tmp_path / "prompts", "a rule of many " * 20
    with gpux.Generator("plain") as generator:
        expected = generator.generate(prompt, max_tokens=5, temperature=0, ignore_eos=True).tokens
    with gpux.Generator("plain", prompt_cache=kept) as generator:
        assert generator.generate(prompt, max_tokens=5, temperature=0, ignore_eos=True).cached_tokens == 0
    with gpux.Generator("plain", prompt_cache=str(kept)) as generator:
        answer = generator.generate(prompt, max_tokens=5, temperature=0, ignore_eos=True)
    assert answer.tokens == expected
    assert answer.cached_tokens > 250
    with pytest.raises(gpux.Usage, match="prompt_cache_bytes"):
        gpux.Generator("plain", prompt_cache=kept, prompt_cache_bytes=10)
    with pytest.raises(gpux.Usage, match="prompts are not reused"):
        gpux.Generator("plain", prompt_cache=kept, reuse_prefixes=False)
