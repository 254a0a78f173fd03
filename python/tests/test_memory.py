"""Memory is shared, not copied, and lives as long as it is used."""

from __future__ import annotations

import gc
import sys
import weakref
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from conftest import MODELS

import gpux
from gpux import _gpux


class Exporter:
    """What another library's tensor offers."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **arguments: object) -> object:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, np.float16, np.complex64, ml_dtypes.bfloat16])
def test_neither_direction_copies(dtype: type) -> None:
    x = np.ones((4, 5), dtype)
    y = _gpux.round_trip(x)
    assert y.ctypes.data == x.ctypes.data
    assert y.dtype == x.dtype
    assert y.shape == x.shape


def test_outputs_are_the_memory_of_onnx_runtime() -> None:
    y = gpux.Runtime(MODELS / "add.onnx").run(np.zeros((2, 3), np.float32))["y"]
    assert not y.flags.owndata
    assert type(y.base).__name__ == "PyCapsule"
    assert y.flags.writeable
    y += 1
    assert y.tolist() == [[2, 3, 4], [2, 3, 4]]


def test_outputs_outlive_the_runtime() -> None:
    runtime = gpux.Runtime(MODELS / "add.onnx")
    y = runtime.run(np.zeros((1000, 3), np.float32))["y"]
    runtime.close()
    del runtime
    gc.collect()
    assert y.sum() == 6000


def test_an_output_that_is_an_input_is_not_its_memory() -> None:
    x = np.ones((1, 3), np.float32)
    outputs = gpux.Runtime(MODELS / "pass_through.onnx").run({"x": x})
    outputs["x"][:] = 7
    assert x.tolist() == [[1, 1, 1]]


def test_dlpack_in_and_out() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert _gpux.round_trip(Exporter(x)).ctypes.data == x.ctypes.data
    y = gpux.Runtime(MODELS / "add.onnx").run({"x": Exporter(x)})["y"]
    assert np.from_dlpack(y).ctypes.data == y.ctypes.data
    transposed = Exporter(np.ones((3, 3), np.float32)[:, ::2].T)
    assert gpux.Runtime(MODELS / "identity_float32.onnx").info
    np.testing.assert_array_equal(_gpux.round_trip(transposed), np.ones((2, 3)))


def test_a_device_tensor_without_a_way_to_the_host_is_refused() -> None:
    class OnDevice(Exporter):
        def __dlpack__(self, **arguments: object) -> object:
            raise BufferError("on a device")

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    with pytest.raises(gpux.InvalidInput, match="device type 2"):
        gpux.Runtime(MODELS / "add.onnx").run({"x": OnDevice(np.zeros((1, 3), np.float32))})


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    assert _gpux.round_trip(x).ctypes.data == x.data_ptr()
    runtime = gpux.Runtime(MODELS / "add.onnx")
    y = torch.from_dlpack(runtime.run({"x": x})["y"])
    assert y.tolist() == [[1, 3, 5], [4, 6, 8]]
    assert runtime.run({"x": x.clone().requires_grad_()})["y"].shape == (2, 3)
    np.testing.assert_array_equal(runtime.run({"x": torch.ones(3, 2).T})["y"], np.ones((2, 3)) + [1, 2, 3])
    half = torch.ones(5, dtype=torch.bfloat16)
    assert _gpux.round_trip(half).ctypes.data == half.data_ptr()
    assert gpux.Runtime(MODELS / "identity_bfloat16.onnx").run({"x": half})["y"].dtype == ml_dtypes.bfloat16


def test_an_input_is_released_after_the_run() -> None:
    class Array(np.ndarray):
        pass

    x = np.ones((1, 3), np.float32).view(Array)
    alive = weakref.ref(x)
    before = sys.getrefcount(x)
    runtime = gpux.Runtime(MODELS / "add.onnx")
    runtime.run({"x": x})
    assert sys.getrefcount(x) == before
    del x
    assert alive() is None


def test_an_abandoned_run_keeps_its_inputs() -> None:
    runtime = gpux.Runtime(MODELS / "slow.onnx")
    for _ in range(3):
        x = np.eye(16, dtype=np.float32)
        with pytest.raises(gpux.DeadlineExceeded):
            runtime.run({"x": x, "iterations": np.array(1_000_000_000)}, timeout=0.05)
        del x
        gc.collect()
    assert runtime.run({"x": np.eye(16, dtype=np.float32), "iterations": np.array(1)}, timeout=60)["y"].shape == (
        16,
        16,
    )


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.slow
def test_100_000_runs_leak_nothing() -> None:
    runtime = gpux.Runtime(MODELS / "add.onnx", threads=1)
    x = np.ones((64, 3), np.float32)
    strings = gpux.Runtime(MODELS / "string_concat.onnx", threads=1)

    def work(count: int) -> None:
        for step in range(count):
            runtime.run({"x": x})
            if step % 50 == 0:
                strings.run({"x": ["some text that is too long to be stored in place"]})
                with pytest.raises(gpux.InvalidInput):
                    runtime.run({"y": x})

    work(20_000)
    gc.collect()
    before = resident_bytes()
    work(100_000)
    gc.collect()
    # An output that is kept, of 768 bytes, would be 77 MB.
    assert resident_bytes() - before < 3_000_000
