"""Transformations of Ray Data's datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ray
import ray.data
from ray.exceptions import RayActorError, RayTaskError

from gpux.errors import Error, InvalidInput, ProviderUnavailable, Usage
from gpux.ray.packages import Package, pack
from gpux.ray.resources import Resources, resources_of, workers_at_once
from gpux.ray.workers import TensorWorker, TextWorker, check_is_text

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import pyarrow as pa

    from gpux._options import Options, Strict
    from gpux.embedder import Batching

_sample_rows = 1000


def _own_context(dataset: ray.data.Dataset) -> ray.data.Dataset:
    """The same dataset with settings of its own: errors of workers reach the caller as gpux's exceptions."""
    copied = ray.data.Dataset.copy(dataset, _deep_copy=True)
    copied.context.raise_original_map_exception = True
    return copied


def _sample(dataset: ray.data.Dataset) -> pa.Table:
    """The first rows. Runs what comes before, as far as needed."""
    if not isinstance(dataset, ray.data.Dataset):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Usage(f"the dataset is a {type(dataset).__name__}, and not a ray.data.Dataset")
    try:
        return dataset.take_batch(_sample_rows, batch_format="pyarrow")
    except ValueError as error:
        if "empty" in str(error):
            raise InvalidInput("the dataset has no rows") from error
        raise


def _check_columns(table: pa.Table, read: list[str], written: list[str]) -> None:
    names = table.column_names
    for column in read:
        if column not in names:
            raise InvalidInput(f"the dataset has no column '{column}': {', '.join(names)}")
    for column in written:
        if column in names:
            raise Usage(f"the dataset has a column '{column}' already: give the output another name")


def _rows_of(table: pa.Table, columns: list[str], batch_bytes: int) -> int:
    """Rows that have about so many bytes in these columns."""
    if isinstance(batch_bytes, bool) or not isinstance(batch_bytes, int) or batch_bytes < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Usage(f"batch_bytes is {batch_bytes!r}, and not a number of bytes from 1")
    size = sum(table.column(column).nbytes for column in columns)
    return max(1, batch_bytes * table.num_rows // max(1, size))


def _probe(worker: type[Any], resources: Resources, *arguments: Any) -> Any:
    """Load the model in a worker like those of the job, so that what fails there fails now."""
    actor = ray.remote(worker).options(**resources.ray_arguments).remote(*arguments)
    try:
        return ray.get(actor.probe.remote())
    except RayTaskError as error:
        if isinstance(error.cause, Error):
            raise error.cause from None
        raise
    except RayActorError as error:
        raise ProviderUnavailable(f"a worker ended while it loaded the model: {error}") from error
    finally:
        ray.kill(actor)


def embed(  # noqa: D417
    dataset: ray.data.Dataset,
    model: str | os.PathLike[str] | Package,
    column: str,
    *,
    output: str = "embedding",
    provider: str = "auto",
    precision: str | None = None,
    batching: Batching = "exact",
    strict: Strict = False,
    options: Options | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
    normalize: bool | None = None,
    dimensions: int | None = None,
    max_tokens: int | None = None,
    concurrency: int | tuple[int, int] | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    batch_bytes: int = 128 * 1024,
) -> ray.data.Dataset:
    """Add the embeddings of a column of texts to a dataset.

    An embedding has the bits that it has on one machine with the same provider and precision, whatever the number of
    workers. Rows may change their order, as in all of Ray Data: keep a column that identifies them.

    Reads the first rows, and loads the model in one worker: what fails there fails in this call. The rest is done when
    the dataset is consumed.

    Args:
        dataset: with a column of texts, none of them null.
        model: as for gpux.ray.pack().
        column: its texts are embedded.
        output: the name of the new column, of Arrow's type fixed_size_list<float>[dimensions].
        provider, precision, batching, strict, options: as for gpux.Embedder.
        prompt, prompt_name, normalize, dimensions, max_tokens: as for gpux.Embedder.encode().
        concurrency: the number of workers, or the least and the greatest; None: from 1 to as many as fit into the
            cluster.
        num_cpus: of a worker, and its threads; None: 1.
        num_gpus: of a worker; None: 1 for providers of GPUs, and for "auto" where the cluster has GPUs.
        batch_bytes: texts that a worker gets at a time.

    Raises:
        gpux.NotFound and other errors of the model; gpux.InvalidInput (no rows, no such column, not of texts);
        gpux.ProviderUnavailable; gpux.Usage. Consuming the dataset raises gpux.InvalidInput for a null or a text that
        is not UTF-8.
    """
    sample = _sample(dataset)
    _check_columns(sample, [column], [output])
    check_is_text(sample.column(column).type, column)
    rows = _rows_of(sample, [column], batch_bytes)
    package = pack(model)
    resources = resources_of(provider, num_cpus, num_gpus)
    workers = workers_at_once(concurrency, resources)
    loading = {
        "provider": provider,
        "precision": precision,
        "batching": batching,
        "strict": strict,
        "options": options,
        "workers": 0 if resources.gpus else resources.threads,
    }
    encoding = {
        "prompt": prompt,
        "prompt_name": prompt_name,
        "normalize": normalize,
        "dimensions": dimensions,
        "max_tokens": max_tokens,
    }
    arguments = (package, column, output, batch_bytes, loading, encoding)
    _probe(TextWorker, resources, *arguments)
    return (
        _own_context(dataset)
        .repartition(target_num_rows_per_block=rows)
        .map_batches(
            TextWorker,
            batch_size=rows,
            batch_format="pyarrow",
            fn_constructor_args=arguments,
            concurrency=workers,
            udf_modifying_row_count=False,
            **resources.ray_arguments,
        )
    )


def run(  # noqa: D417
    dataset: ray.data.Dataset,
    model: str | os.PathLike[str] | Package,
    *,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    provider: str = "auto",
    strict: Strict = False,
    options: Options | None = None,
    concurrency: int | tuple[int, int] | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    batch_bytes: int = 8 * 2**20,
) -> ray.data.Dataset:
    """Run a model on each row of a dataset, and add the outputs as columns.

    A row has an input's value without its batch dimension, or with all dimensions. Rows share runs where that changes
    no bit of an output. Errors, and what is done when, are those of embed().

    Args:
        dataset: with a column for each input.
        model: as for gpux.ray.pack().
        inputs: the column of each input; None: of the same name.
        outputs: the name of the column for each output that is wanted; None: all, under their names.
        provider, strict, options: as for gpux.Runtime.
        concurrency, num_cpus, num_gpus: as for embed(). `num_cpus` is the number of threads inside an operator.
        batch_bytes: of the inputs that a worker gets at a time.
    """
    sample = _sample(dataset)
    package = pack(model)
    resources = resources_of(provider, num_cpus, num_gpus)
    workers = workers_at_once(concurrency, resources)
    loading = {"provider": provider, "strict": strict, "options": options, "threads": resources.threads}
    arguments = (package, inputs, outputs, loading)
    of_inputs, names = _probe(TensorWorker, resources, *arguments)
    for name in outputs or ():
        if name not in names:
            raise InvalidInput(f"the model has no output '{name}': {', '.join(names)}")
    columns = list(of_inputs.values())
    _check_columns(sample, columns, list(outputs.values()) if outputs else names)
    rows = _rows_of(sample, columns, batch_bytes)
    return (
        _own_context(dataset)
        .repartition(target_num_rows_per_block=rows)
        .map_batches(
            TensorWorker,
            batch_size=rows,
            batch_format="numpy",
            fn_constructor_args=arguments,
            concurrency=workers,
            udf_modifying_row_count=False,
            **resources.ray_arguments,
        )
    )


__all__ = ["embed", "run"]
