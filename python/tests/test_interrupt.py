"""Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from conftest import MODELS

SLOW = f"""
import numpy as np, gpux
runtime = gpux.Runtime({str(MODELS / "slow.onnx")!r})
inputs = {{"x": np.eye(16, dtype=np.float32), "iterations": np.array(1_000_000_000)}}
short = {{"x": np.eye(16, dtype=np.float32), "iterations": np.array(1)}}
runtime.run(short)
"""
CALLS = {
    "run": "runtime.run(inputs)",
    "run with a deadline": "runtime.run(inputs, timeout=3600)",
    "run_batch": "runtime.run_batch([inputs, inputs])",
    "benchmark": "runtime.benchmark(short, seconds=3600)",
}


def interrupted(code: str) -> tuple[int, str, str]:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


@pytest.mark.parametrize("call", CALLS)
def test_it_ends_a_long_call(call: str) -> None:
    code = f"""{SLOW}
print("ready", flush=True)
try:
    {CALLS[call]}
except KeyboardInterrupt:
    print("interrupted", runtime.run(short)["y"].shape)
"""
    assert interrupted(code) == (0, "interrupted (16, 16)\n", "")


def test_it_ends_an_endless_embedding(encoder: object) -> None:
    code = f"""
import itertools, gpux
embedder = gpux.Embedder({str(encoder)!r})
embedder.encode(["a"])
print("ready", flush=True)
try:
    for vector in embedder.encode_stream(itertools.repeat("a dog")): pass
except KeyboardInterrupt:
    print("interrupted", embedder.encode("a").shape == (embedder.dimension,))
"""
    assert interrupted(code) == (0, "interrupted True\n", "")


def test_a_handler_that_raises_nothing() -> None:
    code = f"""{SLOW}
import signal
signal.signal(signal.SIGINT, lambda number, frame: print("handled"))
print("ready", flush=True)
try:
    runtime.run(inputs)
except gpux.Interrupted as error:
    print(error.code, error.exit_code)
"""
    assert interrupted(code) == (0, "handled\ninterrupted 130\n", "")
