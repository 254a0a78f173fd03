"""Values that the extension does not convert itself: lists, strings, element types that numpy lacks."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from gpux.errors import InvalidInput

# gpux's names of the element types that ml_dtypes adds to numpy, and their bits.
_ml_types = {
    "bfloat16": ("bfloat16", 16),
    "float8e4m3fn": ("float8_e4m3fn", 8),
    "float8e4m3fnuz": ("float8_e4m3fnuz", 8),
    "float8e5m2": ("float8_e5m2", 8),
    "float8e5m2fnuz": ("float8_e5m2fnuz", 8),
    "float8e8m0": ("float8_e8m0fnu", 8),
    "float4e2m1": ("float4_e2m1fn", 4),
    "int4": ("int4", 4),
    "uint4": ("uint4", 4),
    "int2": ("int2", 2),
    "uint2": ("uint2", 2),
}
_gpux_names = {ml_name: (name, bits) for name, (ml_name, bits) in _ml_types.items()}


@cache
def _ml_dtype(element: str) -> np.dtype[Any]:
    import ml_dtypes

    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ml_types[element][0]))
    return dtype


def _pack(elements: np.ndarray[Any, np.dtype[np.uint8]], bits: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Several elements per byte, the first in the lowest bits, as in ONNX's tensors."""
    per_byte = 8 // bits
    padded = np.zeros(-(-elements.size // per_byte) * per_byte, np.uint8)
    padded[: elements.size] = elements & ((1 << bits) - 1)
    packed = np.zeros(padded.size // per_byte, np.uint8)
    for position in range(per_byte):
        packed |= padded[position::per_byte] << (position * bits)
    return packed


def _unpack(packed: np.ndarray[Any, np.dtype[np.uint8]], bits: int, count: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    per_byte = 8 // bits
    elements = np.empty((packed.size, per_byte), np.uint8)
    for position in range(per_byte):
        elements[:, position] = (packed >> (position * bits)) & ((1 << bits) - 1)
    return elements.reshape(-1)[:count]


def of_element_type(raw: np.ndarray[Any, np.dtype[np.uint8]], element: str, shape: list[int]) -> np.ndarray[Any, Any]:
    """The bytes of a tensor as an array of an ml_dtypes type. Types of 2 and 4 bits are unpacked into a copy."""
    dtype = _ml_dtype(element)
    bits = _ml_types[element][1]
    if bits >= 8:
        return raw.view(dtype).reshape(shape)
    elements = _unpack(raw, bits, int(np.prod(shape, dtype=np.int64)))
    if element in ("int4", "int2"):
        # ml_dtypes keeps each element sign-extended in a byte.
        unused = 8 - bits
        return (elements << unused).view(np.int8).__rshift__(unused).astype(dtype).reshape(shape)
    return elements.view(dtype).reshape(shape)


def dict_of(keys: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> dict[Any, Any]:
    """A map of a model as a dict: Python's numbers and strings, or arrays where a value has several elements."""
    return dict(zip(keys.tolist(), values.tolist() if values.ndim == 1 else list(values), strict=True))


def _on_the_host(value: Any, name: str) -> Any:
    """A tensor of another library as one in host memory; a copy if it is on a device."""
    device_type, _ = value.__dlpack_device__()
    if int(device_type) == 1:
        return value
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        return value.detach().cpu()
    if hasattr(value, "get"):
        return value.get()
    raise InvalidInput(f"input '{name}' is on device type {int(device_type)}: copy it to host memory first")


def _array_of(value: Any, name: str, wanted: str) -> Any:
    """An array, or a tensor that numpy cannot represent."""
    given: Any = value
    is_array = isinstance(value, np.ndarray | np.generic)
    if hasattr(value, "__dlpack__") and not is_array:
        value = _on_the_host(value, name)
        if getattr(value, "requires_grad", False):
            value = value.detach()
        if hasattr(value, "is_contiguous") and not value.is_contiguous():
            value = value.contiguous()
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError):
            # The extension takes what it exports, such as bfloat16, which numpy does not know.
            return value
    try:
        array: np.ndarray[Any, Any] = np.asarray(given)
    except ValueError as error:
        raise InvalidInput(f"input '{name}' takes an array, and the lists given have different lengths") from error
    if is_array or not wanted:
        return array
    return _converted(value, array, name, wanted)


# The kinds of numpy elements that a list may have for a declared type: no element changes its kind unnoticed.
_accepted_kinds = {"b": "b", "i": "iu", "u": "iu", "f": "iuf", "c": "iufc", "V": "iuf"}


def _converted(value: Any, array: np.ndarray[Any, Any], name: str, wanted: str) -> np.ndarray[Any, Any]:
    """A list or number as an array of the declared type."""
    if wanted == "string":
        return np.asarray(value, dtype=object)
    dtype = _ml_dtype(wanted) if wanted in _ml_types else np.dtype(wanted)
    kind = "i" if wanted in ("int4", "uint4", "int2", "uint2") else dtype.kind
    if array.size and array.dtype.kind not in _accepted_kinds[kind]:
        raise InvalidInput(f"input '{name}' takes {wanted}, and the list given has elements of type {array.dtype}")
    try:
        return np.asarray(value, dtype=dtype) if dtype.kind != "V" else array.astype(dtype)
    except (OverflowError, ValueError, TypeError) as error:
        raise InvalidInput(f"input '{name}' takes {wanted}: {error}") from error


def tensor_parts(value: Any, name: str, wanted: str) -> tuple[str, tuple[int, ...], Any]:
    """Element type, shape, and a C-contiguous array of the bytes, or a list of str, for a tensor of the model.

    `wanted` is the declared element type; empty if it is unknown.
    """
    given = _array_of(value, name, wanted)
    if not isinstance(given, np.ndarray):
        return "uint8", (), given
    return _parts(given, name)  # pyright: ignore[reportUnknownArgumentType]


def _parts(array: np.ndarray[Any, Any], name: str) -> tuple[str, tuple[int, ...], Any]:
    if array.dtype.kind in "OUT":
        return "string", array.shape, array.reshape(-1).tolist()
    if array.dtype.name in _gpux_names:
        element, bits = _gpux_names[array.dtype.name]
        if bits < 8:
            return element, array.shape, _pack(np.ascontiguousarray(array).reshape(-1).view(np.uint8), bits)
        unsigned = np.dtype(f"uint{bits}")
        return element, array.shape, np.ascontiguousarray(array).reshape(-1).view(unsigned)
    element = "bool" if array.dtype == np.bool_ else array.dtype.name
    if array.dtype.kind not in "biufc" or element in ("longdouble", "float128", "clongdouble", "complex256"):
        raise InvalidInput(f"input '{name}' has the numpy type {array.dtype}, which no ONNX tensor has")
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    shape = native.shape
    return element, shape, np.require(native, requirements=["C", "A"])
