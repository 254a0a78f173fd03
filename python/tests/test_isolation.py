"""Models in worker processes, started by the library."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpux
from gpux._program import program

REPOSITORY = Path(__file__).resolve().parents[2]
ADD = REPOSITORY / "tests" / "models" / "add.onnx"
MANUAL = REPOSITORY / "examples" / "manual"


def children() -> list[int]:
    """Process ids of the children of this process whose name is that of a worker."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            stat = (process / "stat").read_text()
        except OSError:
            continue
        command, rest = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 2 :].split()
        if command == "gpux-worker" and int(rest[1]) == os.getpid():
            found.append(int(process.name))
    return found


def test_a_model_in_a_worker_answers_as_in_this_process() -> None:
    here, there = gpux.Runtime(ADD), gpux.Runtime(ADD, isolation="process")
    x = np.array([[1, 2, 3]], dtype=np.float32)
    assert np.array_equal(here.run({"x": x})["y"], there.run({"x": x})["y"])
    assert "the model runs in a worker process" in str(there.verdict)
    assert "worker process" not in str(here.verdict)
    assert len(children()) == 1
    there.close()
    assert not children()
    here.close()


def test_a_worker_that_ends_is_replaced() -> None:
    with gpux.Runtime(ADD, isolation="process") as model:
        x = np.array([[1, 2, 3]], dtype=np.float32)
        expected = model.run({"x": x})["y"]
        (worker,) = children()
        os.kill(worker, signal.SIGKILL)
        # A run that it had taken would be lost: there is none.
        deadline = time.monotonic() + 20
        while children() in ([], [worker]) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert np.array_equal(model.run({"x": x})["y"], expected)
        assert children() != [worker]


def test_a_sandbox_implies_a_worker() -> None:
    with gpux.Runtime(ADD, sandbox="on") as model:
        assert "sandboxed: " in str(model.verdict)
        assert len(children()) == 1


def test_a_generator_in_a_worker_gives_the_same_text() -> None:
    with gpux.Generator(MANUAL) as here, gpux.Generator(MANUAL, isolation="process") as there:
        settings = {"max_tokens": 12, "temperature": 0.7, "seed": 3}
        assert there.generate("a text", **settings).text == here.generate("a text", **settings).text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"isolation": "container"}, "isolation is 'container', and not thread, process"),
        ({"sandbox": True}, "sandbox is True, and not off, on, strict"),
        ({"sandbox": "on", "isolation": "thread"}, "a sandbox requires isolation 'process'"),
    ],
)
def test_mistakes_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(gpux.Usage, match=message):
        gpux.Runtime(ADD, **arguments)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("exit 0", "the worker of 'add' exited with code 0 while it loaded the model"),
        (
            'exec {program} worker "$2" --protocol 0123456789abcdef',
            "is of another build than the library that starts it",
        ),
    ],
)
def test_a_program_of_another_build_is_refused(
    command: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "gpux"
    other.write_text("#!/bin/sh\n" + command.format(program=program()) + "\n")
    other.chmod(0o755)
    monkeypatch.setenv("GPUX_PROGRAM", str(other))
    with pytest.raises(gpux.Error, match=message):
        gpux.Runtime(ADD, isolation="process")
