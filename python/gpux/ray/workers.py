"""The actors that hold a loaded model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpux.embedder import Embedder
from gpux.errors import Error, InvalidInput
from gpux.ray.packages import NAME, Package, install
from gpux.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Row = dict[str, Any]


def texts_of(column: pa.ChunkedArray, name: str) -> list[str]:
    """The texts of a column, all of them str.

    Raises:
        gpux.InvalidInput: a null, another type, or bytes that are not UTF-8.
    """
    check_is_text(column.type, name)
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise InvalidInput(f"the column '{name}' has {column.null_count} nulls, the first in row {row} of a batch")
    try:
        return column.to_pylist()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the column '{name}' has a text that is not UTF-8: {error}") from error


def check_is_text(column_type: pa.DataType, name: str) -> None:
    """Raises gpux.InvalidInput where a column cannot be embedded."""
    types = pa.types
    held = column_type.value_type if types.is_dictionary(column_type) else column_type
    if not (types.is_string(held) or types.is_large_string(held) or types.is_string_view(held)):
        raise InvalidInput(f"the column '{name}' is of type {column_type}, and not of texts")


def parts(table: pa.Table, sizes: np.ndarray[Any, Any], limit: int) -> Iterator[pa.Table]:
    """The table in slices of up to `limit` bytes, or of one row."""
    start, held = 0, 0
    for row, size in enumerate(sizes.tolist()):
        if row > start and held + size > limit:
            yield table.slice(start, row - start)
            start, held = row, 0
        held += size
    if start < table.num_rows:
        yield table.slice(start)


class _Worker:
    """Loads on construction, and keeps an error until the first call.

    Ray restarts an actor whose constructor fails, again and again, and reports that it died: the call reports why.
    """

    def __init__(self) -> None:
        self._failure: Error | None = None

    def _load(self, package: Package, load: Any) -> Any:
        try:
            self._package = install(package)
            self._package.use()
            return load(NAME)
        except Error as error:
            self._failure = error
            return None

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure


class TextWorker(_Worker):
    """Embeds a column of Arrow tables."""

    def __init__(
        self,
        package: Package,
        column: str,
        output: str,
        batch_bytes: int,
        loading: Mapping[str, Any],
        encoding: Mapping[str, Any],
    ) -> None:
        super().__init__()
        self._column = column
        self._output = output
        self._batch_bytes = batch_bytes
        self._encoding = dict(encoding)
        self._embedder: Embedder | None = self._load(package, lambda name: Embedder(name, **loading))

    def probe(self) -> int:
        """The number of dimensions of an embedding. Raises what loading raised."""
        return int(self._encode(["gpux"]).shape[1])

    def __call__(self, table: pa.Table) -> Iterator[pa.Table]:
        """Slices of the table with the embeddings as a column of fixed_size_list<float>."""
        self._check()
        column = table.column(self._column)
        check_is_text(column.type, self._column)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy()
        for part in parts(table, lengths, self._batch_bytes):
            vectors = self._encode(texts_of(part.column(self._column), self._column))
            values = pa.array(vectors.reshape(-1))
            yield part.append_column(self._output, pa.FixedSizeListArray.from_arrays(values, vectors.shape[1]))

    def _encode(self, texts: list[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        self._check()
        assert self._embedder is not None
        return self._embedder.encode(texts, **self._encoding)


def _item(value: Any, rank: int, name: str) -> tuple[Any, bool]:
    """A row's value with the rank of the input, and whether a leading dimension was added to it."""
    array = np.asarray(value)
    if array.dtype == object:
        array = np.asarray(value.tolist() if isinstance(value, np.ndarray) else value)
    if array.ndim == rank:
        return array, False
    if array.ndim == rank - 1:
        return array[np.newaxis], True
    raise InvalidInput(f"a row has a value of rank {array.ndim} for the input '{name}', whose rank is {rank}")


class TensorWorker(_Worker):
    """Runs a model on each row of batches of numpy arrays."""

    def __init__(
        self,
        package: Package,
        inputs: Mapping[str, str] | None,
        outputs: Mapping[str, str] | None,
        loading: Mapping[str, Any],
    ) -> None:
        super().__init__()
        self._outputs = outputs
        self._runtime: Runtime | None = self._load(package, lambda name: Runtime(name, **loading))
        if self._runtime is not None:
            entries = self._runtime.info.inputs
            self._ranks = {entry.name: len(entry.shape or []) for entry in entries}
            self._types = {entry.name: entry.type for entry in entries}
            self._inputs = dict(inputs) if inputs is not None else {name: name for name in self._ranks}

    def probe(self) -> tuple[dict[str, str], list[str]]:
        """The column of each input, and the names of the outputs. Raises what loading raised."""
        self._check()
        assert self._runtime is not None
        return self._inputs, [entry.name for entry in self._runtime.info.outputs]

    def __call__(self, batch: dict[str, np.ndarray[Any, Any]]) -> Row:
        """The batch with the outputs as columns: arrays of [rows, …], or of objects where rows differ in shape."""
        self._check()
        assert self._runtime is not None
        items: list[Row] = []
        added: list[bool] = []
        for row in range(len(next(iter(batch.values())))):
            item: Row = {}
            has_added = False
            for name, column in self._inputs.items():
                value, was_added = _item(batch[column][row], self._ranks[name], name)
                has_added = has_added or was_added
                item[name] = self._of_declared_type(value, name)
            items.append(item)
            added.append(has_added)
        results = self._runtime.run_batch(items, list(self._outputs) if self._outputs else None)
        columns = dict(batch)
        for name in results[0] if results else []:
            values = [
                result[name][0] if was_added else result[name] for result, was_added in zip(results, added, strict=True)
            ]
            columns[self._outputs[name] if self._outputs else name] = _column(values)
        return columns

    def _of_declared_type(self, value: np.ndarray[Any, Any], name: str) -> Any:
        """Numbers as a list where their type differs: the runtime then converts them, or refuses to change a value."""
        declared = self._types[name]
        if value.dtype.kind in "fiu" and _numpy_name(declared) not in (None, value.dtype.name):
            return value.tolist()
        return value


def _numpy_name(declared: str) -> str | None:
    return {
        "float": "float32",
        "float32": "float32",
        "double": "float64",
        "float64": "float64",
        "float16": "float16",
        **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    }.get(declared.removeprefix("tensor(").removesuffix(")"))


def _column(values: list[Any]) -> np.ndarray[Any, Any]:
    arrays = [np.asarray(value) for value in values]
    if len({array.shape for array in arrays}) == 1:
        return np.stack(arrays)
    column = np.empty(len(arrays), object)
    for row, array in enumerate(arrays):
        column[row] = array
    return column


__all__ = ["TensorWorker", "TextWorker", "check_is_text", "texts_of"]
