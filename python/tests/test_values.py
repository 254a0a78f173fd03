"""Values of every kind, in and out."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from conftest import MODELS

import gpux

NUMPY_TYPES = {
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "bool": np.bool_,
    "bfloat16": ml_dtypes.bfloat16,
    "float8e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8e5m2": ml_dtypes.float8_e5m2,
    "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "int4": ml_dtypes.int4,
    "uint4": ml_dtypes.uint4,
}


@pytest.mark.parametrize("name", NUMPY_TYPES)
def test_an_array_of_each_element_type_comes_back(name: str) -> None:
    numbers = np.array([0, 1, 1, 0, 1]) if name == "bool" else np.array([0, 1, 2, 3, 7])
    if not name.startswith(("u", "bool")):
        numbers = numbers * [1, -1, 1, -1, 1]
    x = numbers.astype(NUMPY_TYPES[name])
    y = gpux.Runtime(MODELS / f"identity_{name}.onnx").run({"x": x})["y"]
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("name", NUMPY_TYPES)
def test_an_empty_array_of_each_element_type(name: str) -> None:
    y = gpux.Runtime(MODELS / f"identity_{name}.onnx").run({"x": np.zeros(0, NUMPY_TYPES[name])})["y"]
    assert y.shape == (0,)
    assert y.dtype == NUMPY_TYPES[name]


def test_a_list_gets_the_declared_type() -> None:
    for name, list_of in {
        "float32": [1, 2.5],
        "int8": [1, -2],
        "bool": [True, False],
        "bfloat16": [1, 2.5],
        "uint4": [1, 15],
    }.items():
        y = gpux.Runtime(MODELS / f"identity_{name}.onnx").run({"x": list_of})["y"]
        assert y.dtype == NUMPY_TYPES[name]
        assert [float(one) for one in y] == [float(one) for one in list_of]
    assert gpux.Runtime(MODELS / "scalar.onnx").run({"x": 3})["y"].item() == -3


def test_a_list_changes_no_value_unnoticed() -> None:
    for name, list_of in {"int8": [300], "int64": [1.5], "bool": [2], "uint8": [-1], "string": [1]}.items():
        with pytest.raises(gpux.InvalidInput, match="'x'"):
            gpux.Runtime(MODELS / f"identity_{name}.onnx").run({"x": list_of})


def test_another_type_than_the_declared_one_is_refused() -> None:
    with pytest.raises(gpux.InvalidInput, match=r"takes float32\[n\], got float64\[2\]"):
        gpux.Runtime(MODELS / "identity_float32.onnx").run({"x": np.zeros(2)})


@pytest.mark.parametrize(
    "strings",
    [["a", "Zürich", ""], np.array(["a", "Zürich", ""]), np.array(["a", "Zürich", ""], object), ("a", "Zürich", "")],
)
def test_strings(strings: object) -> None:
    y = gpux.Runtime(MODELS / "string_concat.onnx").run({"x": strings})["y"]
    assert y.dtype == object
    assert y.tolist() == ["a!", "Zürich!", "!"]


def test_strings_may_hold_nul_and_no_surrogates() -> None:
    runtime = gpux.Runtime(MODELS / "identity_string.onnx")
    assert runtime.run({"x": ["a\0b"]})["y"].tolist() == ["a\0b"]
    with pytest.raises(gpux.InvalidInput, match="not valid Unicode"):
        runtime.run({"x": ["\ud800"]})
    with pytest.raises(gpux.InvalidInput, match="bytes"):
        runtime.run({"x": np.array([b"a"], object)})


def test_sequences() -> None:
    runtime = gpux.Runtime(MODELS / "sequence_input.onnx")
    x = [np.array([1, 2], np.float32), np.array([3], np.float32)]
    assert runtime.run({"x": x})["y"].tolist() == [1, 2, 3]
    assert runtime.run({"x": [[1, 2], [3]]})["y"].tolist() == [1, 2, 3]
    a, b = np.array([1], np.float32), np.array([2, 3], np.float32)
    y = gpux.Runtime(MODELS / "sequence_output.onnx").run({"a": a, "b": b})["y"]
    assert [one.tolist() for one in y] == [[1], [2, 3]]
    with pytest.raises(gpux.InvalidInput, match="takes a list"):
        runtime.run({"x": a})


def test_maps() -> None:
    y = gpux.Runtime(MODELS / "zipmap_int64.onnx").run({"x": np.array([[1, 2, 3]], np.float32)})["y"]
    assert y == [{10: 1.0, 20: 2.0, 30: 3.0}]
    y = gpux.Runtime(MODELS / "zipmap_string.onnx").run({"x": np.array([[1, 2, 3]], np.float32)})["y"]
    assert y == [{"cat": 1.0, "dog": 2.0, "eel": 3.0}]
    runtime = gpux.Runtime(MODELS / "map_input.onnx")
    assert runtime.run({"x": {"dog": 2, "eel": 3.0}})["y"].tolist() == [[0, 2, 3]]
    with pytest.raises(gpux.InvalidInput, match="takes a dict"):
        runtime.run({"x": [1]})


def test_optionals() -> None:
    runtime = gpux.Runtime(MODELS / "optional_input.onnx")
    assert runtime.run({"x": np.array([5], np.float32)})["y"].tolist() == [5]
    assert runtime.run({"x": None})["y"].tolist() == [-1]
    assert gpux.Runtime(MODELS / "optional_none.onnx").run({"x": [1.0]})["y"] is None


def test_a_default_may_be_left_out() -> None:
    runtime = gpux.Runtime(MODELS / "scale_default.onnx")
    assert runtime.run({"x": [1.0, 2.0]})["y"].tolist() == [2, 4]
    assert runtime.run({"x": [1.0, 2.0], "scale": [3.0]})["y"].tolist() == [3, 6]


def test_layouts_that_need_a_copy() -> None:
    runtime = gpux.Runtime(MODELS / "add.onnx")
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    expected = rows + [1, 2, 3]
    swapped = rows.astype(">f4")
    unaligned = np.frombuffer(b"\0" + rows.tobytes(), np.float32, offset=1).reshape(4, 3)
    assert not unaligned.flags.aligned
    for x in (np.asfortranarray(rows), swapped, unaligned, np.repeat(rows, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(runtime.run({"x": x})["y"], expected)
    read_only = rows.copy()
    read_only.flags.writeable = False
    np.testing.assert_array_equal(runtime.run({"x": read_only})["y"], expected)
