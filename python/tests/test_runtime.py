"""Models: loading, running, describing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from conftest import MODELS

import gpux


def digit(number: int, digits: Path) -> np.ndarray:
    return np.load(digits / f"digit-{number}.npy").astype(np.float32)


def test_a_digit_is_read(digits: Path) -> None:
    with gpux.Runtime(digits) as runtime:
        for number in range(10):
            outputs = runtime.run({runtime.info.inputs[0].name: digit(number, digits)})
            assert int(outputs["logits"].argmax()) == number


def test_the_only_input_needs_no_name() -> None:
    runtime = gpux.Runtime(MODELS / "add.onnx")
    np.testing.assert_array_equal(runtime.run(np.array([[1, 2, 3]], np.float32))["y"], [[2, 4, 6]])
    np.testing.assert_array_equal(runtime.run([[1, 2, 3]])["y"], [[2, 4, 6]])


def test_only_the_outputs_that_are_asked_for(digits: Path) -> None:
    runtime = gpux.Runtime(MODELS / "masked_sum.onnx")
    inputs = {"values": np.array([[1, 2, 3]], np.float32), "mask": np.array([[1, 0, 1]], np.float32)}
    assert list(runtime.run(inputs)) == ["total", "doubled"]
    assert list(runtime.run(inputs, ["doubled"])) == ["doubled"]
    assert list(runtime.run(inputs, ("doubled", "total"))) == ["doubled", "total"]
    with pytest.raises(gpux.InvalidInput, match="there is no output 'y'"):
        runtime.run(inputs, ["y"])


def test_info_describes_inputs_and_outputs() -> None:
    info = gpux.Runtime(MODELS / "masked_sum.onnx").info
    assert [(entry.name, entry.type, entry.shape) for entry in info.inputs] == [
        ("values", "float32", ("batch", "seq")),
        ("mask", "float32", ("batch", "seq")),
    ]
    assert info.outputs[0].shape == ("batch",)
    assert info.content["operators"]
    assert gpux.Runtime(MODELS / "unknown_rank.onnx").info.inputs[0].shape is None
    assert gpux.Runtime(MODELS / "dynamic_unnamed.onnx").info.inputs[0].shape == (None, None)
    assert gpux.Runtime(MODELS / "zipmap_int64.onnx").info.outputs[0].type == "sequence(map(int64, float32[]))"
    assert not gpux.Runtime(MODELS / "scale_default.onnx").info.inputs[1].required


def test_the_verdict_names_the_provider_and_the_source_of_the_request() -> None:
    verdict = gpux.Runtime(MODELS / "add.onnx", "cpu").verdict
    assert verdict.active == ["cpu"]
    assert verdict.requested == "cpu"
    assert verdict.requested_from == "provider="
    assert str(verdict).startswith("ran on cpu (1 of 1 nodes)")
    assert not verdict.fell_back
    assert gpux.Runtime(MODELS / "add.onnx").verdict.requested == "auto"


def test_placement_has_the_provider_of_each_node() -> None:
    nodes = gpux.Runtime(MODELS / "split.onnx").placement()
    assert {node.provider for node in nodes} == {"cpu"}
    assert "Det" in {node.operator_type for node in nodes}


def test_a_model_of_bytes() -> None:
    content = (MODELS / "add.onnx").read_bytes()
    for model in (content, bytearray(content), memoryview(content)):
        with gpux.Runtime(model) as runtime:
            assert runtime.run(np.zeros((1, 3), np.float32))["y"].tolist() == [[1, 2, 3]]
            assert runtime._bytes is not None
            file = Path(runtime._bytes.path)
            assert file.exists()
        assert not file.parent.exists()
    with pytest.raises(gpux.InvalidModel):
        gpux.Runtime(b"no model")


def test_a_model_of_the_store(digits: Path) -> None:
    stored = gpux.Store().build(digits, "stored-digits")
    runtime = gpux.Runtime("stored-digits")
    assert (stored.name, stored.tag) == ("stored-digits", "latest")
    assert int(runtime.run(digit(3, digits))["logits"].argmax()) == 3


def test_texts_are_tokenized(classifier: str) -> None:
    runtime = gpux.Runtime(classifier)
    assert runtime.info.inputs[0].name == "text"
    together = runtime.run({"text": ["the fox", "a dog"]})["logits"]
    alone = [runtime.run({"text": text})["logits"] for text in (["the fox"], ["a dog"])]
    np.testing.assert_array_equal(together, np.concatenate(alone))
    batch = runtime.run_batch([{"text": ["the fox"]}, {"text": ["a dog"]}])
    np.testing.assert_array_equal(together, np.concatenate([one["logits"] for one in batch]))


def test_a_batch_has_the_results_of_each_item_alone() -> None:
    runtime = gpux.Runtime(MODELS / "add.onnx")
    items = [{"x": np.full((rows, 3), rows, np.float32)} for rows in (1, 2, 5)]
    for item, result in zip(items, runtime.run_batch(items), strict=True):
        np.testing.assert_array_equal(result["y"], runtime.run(item)["y"])
    assert runtime.run_batch([]) == []
    with pytest.raises(gpux.InvalidInput, match="item 1"):
        runtime.run_batch([items[0], {"x": np.zeros((1, 4), np.float32)}])


def test_a_benchmark_measures() -> None:
    runtime = gpux.Runtime(MODELS / "matmul_chain.onnx")
    result = runtime.benchmark(runs=20, warmup_runs=2)
    assert result.runs == 20
    assert 0 < result.min_ms <= result.median_ms <= result.max_ms
    assert runtime.benchmark({"x": np.ones((1, 16), np.float32)}, runs=3).runs == 3
    assert runtime.run_sharing().reason


def test_many_threads_share_a_runtime() -> None:
    runtime = gpux.Runtime(MODELS / "add.onnx")
    wrong: list[int] = []

    def work(number: int) -> None:
        for step in range(200):
            x = np.full((2, 3), number * 1000 + step, np.float32)
            if not np.array_equal(runtime.run({"x": x})["y"], x + [1, 2, 3]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_other_threads_run_python_during_a_run() -> None:
    runtime = gpux.Runtime(MODELS / "slow.onnx")
    inputs = {"x": np.eye(16, dtype=np.float32), "iterations": np.array(300_000)}
    done = threading.Event()
    thread = threading.Thread(target=lambda: (runtime.run(inputs), done.set()))
    thread.start()
    steps = 0
    while not done.is_set():
        steps += 1
    thread.join()
    # With the GIL held during the run, this thread would hardly come to count.
    assert steps > 1000


def test_runs_in_an_event_loop() -> None:
    async def main() -> list[dict[str, np.ndarray]]:
        with gpux.Runtime(MODELS / "add.onnx") as runtime:
            return await asyncio.gather(*(runtime.run_async(np.full((1, 3), i, np.float32)) for i in range(20)))

    assert [int(result["y"][0, 0]) for result in asyncio.run(main())] == list(range(1, 21))


def test_a_cancelled_task_stops_its_run() -> None:
    async def main() -> None:
        with gpux.Runtime(MODELS / "slow.onnx") as runtime:
            inputs = {"x": np.eye(16, dtype=np.float32), "iterations": np.array(1_000_000_000)}
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(runtime.run_async(inputs), 0.2)
            # close() waits for the run: it would take half an hour.

    asyncio.run(main())


def test_a_deadline_passes() -> None:
    inputs = {"x": np.eye(16, dtype=np.float32), "iterations": np.array(1_000_000_000)}
    with pytest.raises(gpux.DeadlineExceeded) as raised:
        gpux.Runtime(MODELS / "slow.onnx", timeout=0.1).run(inputs)
    assert isinstance(raised.value, TimeoutError)
    with pytest.raises(gpux.DeadlineExceeded):
        gpux.Runtime(MODELS / "slow.onnx").run(inputs, timeout=0.1)


def test_a_closed_runtime_is_refused(digits: Path) -> None:
    runtime = gpux.Runtime(digits)
    runtime.close()
    runtime.close()
    with pytest.raises(gpux.Usage, match="closed"):
        runtime.run(digit(1, digits))
    assert repr(runtime) == "Runtime(closed)"


def test_closing_waits_for_no_run_and_breaks_none() -> None:
    runtime = gpux.Runtime(MODELS / "slow.onnx")
    inputs = {"x": np.eye(16, dtype=np.float32), "iterations": np.array(200_000)}
    results: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: results.append(runtime.run(inputs)["y"]))
    thread.start()
    runtime.close()
    thread.join()
    # It was closed before the run began, or kept until it ended.
    assert all(result.shape == (16, 16) for result in results)


def test_options_reach_the_session(tmp_path: Path) -> None:
    options = {
        "precision": "fp32",
        "inter_threads": 1,
        "optimization": "basic",
        "session": {"session.set_denormal_as_zero": "1"},
    }
    runtime = gpux.Runtime(MODELS / "add.onnx", "cpu", threads=1, memory_limit="2GB", options=options)
    assert runtime.run(np.zeros((1, 3), np.float32))["y"].shape == (1, 3)
    with pytest.raises(gpux.Error):
        gpux.Runtime(MODELS / "add.onnx", "cpu", options={"cpu": {"no_such_option": "1"}})


def test_a_memory_limit_is_kept(digits: Path) -> None:
    # In a process of its own: this one has memory to spare from the tests before.
    code = f"""
import gpux
try:
    gpux.Runtime({str(digits)!r}, memory_limit="1kB")
except gpux.ResourceExhausted as error:
    print(error.code, isinstance(error, MemoryError))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "resource_exhausted True\n"


def test_strict_refuses_another_provider() -> None:
    with pytest.raises(gpux.ProviderUnavailable) as raised:
        gpux.Runtime(MODELS / "add.onnx", "cuda", strict=True)
    assert raised.value.code == "provider_unavailable"
    assert raised.value.exit_code == 5
    assert gpux.Runtime(MODELS / "add.onnx", "cuda").verdict.fell_back
