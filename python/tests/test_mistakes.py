"""30 mistakes on purpose: each is a clear exception, and none ends the process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import MODELS, REPOSITORY

import gpux

X = np.zeros((1, 3), np.float32)


def add() -> gpux.Runtime:
    return gpux.Runtime(MODELS / "add.onnx")


def closed() -> gpux.Runtime:
    runtime = add()
    runtime.close()
    return runtime


# What is done, the exception, and what its message says.
MISTAKES: dict[str, tuple[Callable[[Path], Any], type[gpux.Error], str]] = {
    "a file that is not there": (lambda _: gpux.Runtime("/no/such/model.onnx"), gpux.NotFound, "/no/such/model.onnx"),
    "a name that is not stored": (lambda _: gpux.Runtime("no-such-name"), gpux.NotFound, "no-such-name"),
    "a text file as a model": (lambda _: gpux.Runtime(REPOSITORY / "README.md"), gpux.Error, "README.md"),
    "half a model": (lambda _: gpux.Runtime((MODELS / "add.onnx").read_bytes()[:80]), gpux.InvalidModel, "model.onnx"),
    "an empty model": (lambda _: gpux.Runtime(b""), gpux.InvalidModel, "empty"),
    "a number as a model": (lambda _: gpux.Runtime(7), gpux.Usage, "is a int"),  # type: ignore[arg-type]
    "an empty name": (lambda _: gpux.Runtime(""), gpux.Usage, "empty string"),
    "an operator that nobody knows": (
        lambda _: gpux.Runtime(MODELS / "unknown_operator.onnx"),
        gpux.InvalidModel,
        "NoSuchOperator",
    ),
    "weights that are missing": (lambda _: gpux.Runtime(MODELS / "external_missing.onnx"), gpux.Error, "external"),
    "a provider that nobody knows": (lambda _: gpux.Runtime(MODELS / "add.onnx", "cudaa"), gpux.Usage, "cuda"),
    "a provider that is not here, strictly": (
        lambda _: gpux.Runtime(MODELS / "add.onnx", "cuda", strict=True),
        gpux.ProviderUnavailable,
        "cuda",
    ),
    "an option that nobody knows": (
        lambda _: gpux.Runtime(MODELS / "add.onnx", options={"precission": "int8"}),
        gpux.Usage,
        "precission",
    ),
    "a memory limit that is no size": (
        lambda _: gpux.Runtime(MODELS / "add.onnx", memory_limit="much"),
        gpux.Usage,
        "much",
    ),
    "a negative number of threads": (lambda _: gpux.Runtime(MODELS / "add.onnx", threads=-1), gpux.Usage, "threads"),
    "a timeout of nothing": (lambda _: gpux.Runtime(MODELS / "add.onnx", timeout=0), gpux.Usage, "timeout"),
    "an argument that is no strictness": (
        lambda _: gpux.Runtime(MODELS / "add.onnx", strict="very"),  # type: ignore[arg-type]
        gpux.Usage,
        "very",
    ),
    "an input that the model does not have": (lambda _: add().run({"xx": X}), gpux.InvalidInput, "did you mean 'x'"),
    "an input that is missing": (lambda _: add().run({}), gpux.InvalidInput, "'x'"),
    "another element type": (lambda _: add().run({"x": X.astype(np.float64)}), gpux.InvalidInput, "float64"),
    "another rank": (lambda _: add().run({"x": X[0]}), gpux.InvalidInput, r"float32\[3\]"),
    "another size": (lambda _: add().run({"x": np.zeros((1, 4), np.float32)}), gpux.InvalidInput, r"\[1, 4\]"),
    "lists of different lengths": (lambda _: add().run({"x": [[1, 2, 3], [1]]}), gpux.InvalidInput, "lengths"),
    "text for numbers": (lambda _: add().run({"x": [["a", "b", "c"]]}), gpux.InvalidInput, "float32"),
    "None for a tensor": (lambda _: add().run({"x": None}), gpux.InvalidInput, "'x'"),
    "an object of no use": (lambda _: add().run({"x": object()}), gpux.InvalidInput, "'x'"),
    "dates for numbers": (
        lambda _: add().run({"x": np.zeros((1, 3), "datetime64[s]")}),
        gpux.InvalidInput,
        "datetime64",
    ),
    "numbers as names of inputs": (lambda _: add().run({1: X}), gpux.InvalidInput, "names"),
    "one output's name for a list": (lambda _: add().run({"x": X}, "y"), gpux.Usage, "list of names"),
    "an output that the model does not have": (lambda _: add().run({"x": X}, ["z"]), gpux.InvalidInput, "'z'"),
    "an array for a model of two inputs": (
        lambda _: gpux.Runtime(MODELS / "divide.onnx").run(np.zeros(1, np.float32)),
        gpux.InvalidInput,
        "2 inputs",
    ),
    "an index outside of the table": (
        lambda _: gpux.Runtime(MODELS / "gather.onnx").run({"index": np.array([9])}),
        gpux.InvalidInput,
        "gather|Gather|indices",
    ),
    "a closed runtime": (lambda _: closed().run({"x": X}), gpux.Usage, "closed"),
    "a run that takes too long": (
        lambda _: gpux.Runtime(MODELS / "slow.onnx").run(
            {"x": np.eye(16, dtype=np.float32), "iterations": np.array(10**9)}, timeout=0.05
        ),
        gpux.DeadlineExceeded,
        "0.05 s",
    ),
    "an embedder of a model of numbers": (lambda _: gpux.Embedder(MODELS / "add.onnx"), gpux.Error, "."),
    "a prompt that the model does not have": (
        lambda encoder: gpux.Embedder(encoder).encode("a", prompt_name="nobody"),
        gpux.Usage,
        "query",
    ),
    "more dimensions than there are": (
        lambda encoder: gpux.Embedder(encoder).encode(["a"], dimensions=10**9),
        gpux.Usage,
        "dimensions",
    ),
    "bytes for a text": (lambda encoder: gpux.Embedder(encoder).encode([b"a"]), gpux.InvalidInput, "bytes"),
    "no list of texts": (lambda encoder: gpux.Embedder(encoder).encode(7), gpux.InvalidInput, "int"),
    "two prompts": (
        lambda encoder: gpux.Embedder(encoder).encode("a", prompt="b", prompt_name="query"),
        gpux.Usage,
        "prompt",
    ),
    "a way of batching that there is not": (
        lambda encoder: gpux.Embedder(encoder, batching="fast"),
        gpux.Usage,
        "fast",
    ),
    "half of a surrogate pair": (lambda encoder: gpux.Embedder(encoder).encode("\ud800"), gpux.InvalidInput, "Unicode"),
    "a vector of another dimension": (lambda _: gpux.SearchIndex().search([[1.0]]), gpux.InvalidInput, "dimension"),
    "a package that is not stored": (lambda _: gpux.Store().remove("nobody"), gpux.NotFound, "nobody"),
    "a server without a model": (lambda _: gpux.serve("no-such-model"), gpux.NotFound, "no-such-model"),
}


def test_there_are_at_least_thirty() -> None:
    assert len(MISTAKES) >= 30


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_a_clear_exception(mistake: str, encoder: Path) -> None:
    do, error, message = MISTAKES[mistake]
    with pytest.raises(error, match=message) as raised:
        do(encoder)
    assert raised.value.code == type(raised.value).code
    assert "\n" not in str(raised.value)


def test_every_code_of_the_library_has_an_exception() -> None:
    header = (REPOSITORY / "include" / "gpux" / "error.h").read_text()
    codes = {}
    for line in header.splitlines():
        if (
            " = " in line
            and line.strip().split(",")[0].replace(" = ", "").replace("_", "").isalnum()
            and "///<" in line
        ):
            name, number = line.strip().split(",")[0].split(" = ")
            codes[name] = int(number)
    assert codes
    assert {error.code: number for number, error in gpux.errors.by_exit_code.items()} == codes
