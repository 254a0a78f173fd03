"""Models as tensors in, tensors out."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from gpux import _gpux
from gpux._closing import Closing
from gpux._options import Isolation, Options, Sandbox, Strict, milliseconds, model_options
from gpux.errors import InvalidInput, Usage

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

ModelSource: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview
"""The path of an ONNX file, of a gpux.yml or of a folder with one; NAME[:TAG] or an id in the store; or the content of
an ONNX file as bytes. A path takes precedence over a name.
"""
Inputs: TypeAlias = Any
"""A dict of values by input name, or the value of the model's only input.

A value is a numpy array, anything with `__dlpack__`, a list or number, a list for a sequence, a dict for a map, or
None for an empty optional.
"""


class ModelInfo:
    """What a model is: its name, inputs, outputs and content.

    Attributes:
        name: of the package, or the file's name without its suffix.
        version: of the package; "1.0.0" without one.
        inputs: in the model's order. A model that reads texts has the input `text` in place of its tokens.
        outputs: in the model's order.
    """

    def __init__(
        self,
        name: str,
        version: str,
        inputs: list[_gpux.SignatureEntry],
        outputs: list[_gpux.SignatureEntry],
        content: str,
    ) -> None:
        self.name = name
        self.version = version
        self.inputs = inputs
        self.outputs = outputs
        self._content = content

    @property
    def content(self) -> dict[str, Any]:
        """What gpux.inspect() returns."""
        return cast("dict[str, Any]", json.loads(self._content))

    def __repr__(self) -> str:
        return f"ModelInfo({self.name}:{self.version}, inputs={self.inputs}, outputs={self.outputs})"


class _Bytes:
    """A model in memory, as a file while it is loaded: ONNX Runtime may read its weights from there until the end."""

    def __init__(self, content: bytes | bytearray | memoryview) -> None:
        import tempfile

        memory = Path("/dev/shm")
        self._folder = tempfile.mkdtemp(prefix="gpux-", dir=memory if os.access(memory, os.W_OK) else None)
        self.path = str(Path(self._folder) / "model.onnx")
        try:
            Path(self.path).write_bytes(content)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        import shutil

        shutil.rmtree(self._folder, ignore_errors=True)


def path_of(model: object) -> str:
    """A path or a name in the store as the library takes it."""
    kind = type(model).__name__
    if isinstance(model, str | os.PathLike):
        path = os.fspath(cast("str | os.PathLike[str] | os.PathLike[bytes]", model))
        if isinstance(path, str):
            if not path:
                raise Usage("the model is an empty string: give a path or a name in the store")
            # A Path loses its "./", without which a path could be taken for a name in the store.
            return path if isinstance(model, str) or "/" in path else f"./{path}"
    raise Usage(f"the model is a {kind}, and not a path, a name in the store, or bytes")


def require_unicode(text: str) -> None:
    """gpux.InvalidInput where the text has half of a surrogate pair, which UTF-8 cannot hold."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(f"a text is not valid Unicode: {error}") from error


class Runtime(Closing):
    """A loaded model: one session, on the providers that `verdict` names.

    `run()` may be called from several threads at once; it does not hold the GIL. Ctrl-C ends a run after its current
    node. As a context manager, the runtime is closed at the end.

    Args:
        model: the path of an ONNX file, of a gpux.yml or of a folder with one; NAME[:TAG] or an id in the store; or the
            content of an ONNX file as bytes, whose weights must be in the file.
        provider: "auto", "fastest", "gpu", "npu", the name of a provider such as "cuda", or a list "tensorrt,cuda,cpu".
            With "auto", GPUX_PROVIDER and gpux.yml decide first.
        strict: True or "provider": the first requested provider must run at least one node. "nodes": also, no node may
            run outside the requested providers. Otherwise gpux falls back, and `verdict` reports it.
        threads: inside an operator; None: one for each core that this process may use.
        memory_limit: of the model, in bytes or as text ("2GB").
        isolation: "process": in a worker process, which is replaced if it ends. None: in this process.
        sandbox: "on" or "strict": in a worker process that may use only the model's files and the devices.
        timeout: of a run, in seconds.
        options: "precision", "device", "inter_threads", "optimization", "cache_directory", "config" (a gpux.yml);
            "session" and "provider_libraries" with a dict each; the name of a provider with a dict of its options.

    Raises:
        gpux.NotFound, gpux.InvalidModel, gpux.InvalidConfig, gpux.Usage (an unknown provider or option),
        gpux.ProviderUnavailable (strict, or no provider of a list is available), gpux.ResourceExhausted. All calls
        but close() raise gpux.Usage after close().
    """

    def __init__(
        self,
        model: ModelSource,
        provider: str = "auto",
        *,
        strict: Strict = False,
        threads: int | None = None,
        memory_limit: int | str | None = None,
        isolation: Isolation | None = None,
        sandbox: Sandbox | None = None,
        timeout: float | None = None,
        options: Options | None = None,
    ) -> None:
        settings = model_options(
            None if provider == "auto" else provider,
            strict=strict,
            threads=threads,
            memory_limit=memory_limit,
            isolation=isolation,
            sandbox=sandbox,
            timeout=timeout,
            options=options,
        )
        self._bytes: _Bytes | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._executor_lock = threading.Lock()
        if isinstance(model, bytes | bytearray | memoryview):
            self._bytes = _Bytes(model)
        try:
            self._model = _gpux.LoadedModel(self._bytes.path if self._bytes else path_of(model), settings)
        except BaseException:
            self._remove_bytes()
            raise

    @property
    def info(self) -> ModelInfo:
        """The model's name, inputs, outputs and content."""
        model = self._model
        return ModelInfo(model.name, model.version, model.inputs, model.outputs, model.content)

    @property
    def verdict(self) -> _gpux.Verdict:
        """Which provider runs the model, and why."""
        return self._model.verdict

    @property
    def load_ms(self) -> float:
        """How long loading took, in milliseconds."""
        return self._model.load_ms

    def placement(self) -> list[_gpux.PlacedNode]:
        """The provider of each node, as the session reports it; empty where `verdict.placement_known` is False."""
        return self._model.placement()

    def run(
        self, inputs: Inputs, outputs: Sequence[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """Run the model once.

        Args:
            inputs: a dict by input name, or the value of the only input. C-contiguous arrays and DLPack tensors of the
                declared type are used in place; they must not change during the call, and after a timeout not before
                the run has stopped.
            outputs: only these, in this order; None: all.
            timeout: in seconds; None: that of the runtime.

        Returns:
            The outputs by name. Arrays own ONNX Runtime's memory, which is not copied, and may be written to.

        Raises:
            gpux.InvalidInput (names, types, ranks, sizes), gpux.DeadlineExceeded, gpux.ResourceExhausted.
        """
        if timeout is None and outputs is None:
            return self._model.run(inputs, None, None, None)
        return self._model.run(inputs, _names(outputs), milliseconds("timeout", timeout), None)

    def run_batch(
        self,
        items: Sequence[Inputs],
        outputs: Sequence[str] | None = None,
        *,
        batch_limit: int = 0,
        timeout: float | None = None,
    ) -> list[dict[str, Any]]:
        """Run the model on several items, each with its own leading dimension.

        The results are those of each item alone. Items of equal shapes share runs if gpux has found that no answer
        changes by that, as run_sharing() reports.

        Args:
            items: inputs as for run(), for example arrays of [1, …].
            outputs: only these, in this order; None: all.
            batch_limit: maximum of rows in a run that items share; 0: runtime.batch_size of gpux.yml, else 32.
            timeout: of a run, in seconds; None: that of the runtime.

        Returns:
            The outputs of each item by name, in the order of the items.

        Raises:
            Those of run().
        """
        return self._model.run_batch(list(items), _names(outputs), milliseconds("timeout", timeout), batch_limit)

    async def run_async(
        self, inputs: Inputs, outputs: Sequence[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """Run the model once, without blocking the event loop. Cancelling the task stops the run.

        Arguments and errors are those of run(). Up to 32 runs are in flight at once; others wait.
        """
        import asyncio

        stop = _gpux.Stop()
        loop = asyncio.get_running_loop()
        run = loop.run_in_executor(
            self._threads(), self._model.run, inputs, _names(outputs), milliseconds("timeout", timeout), stop
        )
        try:
            return await run
        except asyncio.CancelledError:
            stop.request()
            raise

    def benchmark(
        self, inputs: Inputs = None, runs: int = 100, *, warmup_runs: int = 10, seconds: float | None = None
    ) -> _gpux.BenchmarkResult:
        """Repeat the run on one thread and measure it.

        Args:
            inputs: as for run(), with the model's own inputs; None: synthetic ones.
            runs: how many are measured; ignored if `seconds` is set.
            warmup_runs: before them.
            seconds: measure for this time instead.

        Raises:
            Those of run(); gpux.Usage for 0 runs.
        """
        return self._model.benchmark(inputs, runs, warmup_runs, seconds)

    def run_sharing(self) -> _gpux.RunSharing:
        """Whether requests may share a run of this model, and how that is known. The first call may run a trial."""
        return self._model.run_sharing()

    def close(self) -> None:
        """Release the model. Runs in flight end first; later ones raise gpux.Usage."""
        with self._executor_lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown()
        self._model.close()
        self._remove_bytes()

    def __del__(self) -> None:
        # __init__ may have failed before it was set.
        if getattr(self, "_bytes", None) is not None:
            self._remove_bytes()

    def __repr__(self) -> str:
        if self._model.is_closed:
            return "Runtime(closed)"
        return f"Runtime({self._model.name}: {self.verdict})"

    def _remove_bytes(self) -> None:
        if self._bytes is not None:
            self._bytes.remove()
            self._bytes = None

    def _threads(self) -> ThreadPoolExecutor:
        with self._executor_lock:
            if self._executor is None:
                from concurrent.futures import ThreadPoolExecutor

                self._executor = ThreadPoolExecutor(max_workers=32, thread_name_prefix="gpux-run")
            return self._executor


def _names(outputs: Sequence[str] | None) -> list[str] | None:
    if outputs is None:
        return None
    if isinstance(outputs, str) or not isinstance(outputs, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Usage(f"outputs is {outputs!r}, and not a list of names")
    names = list(outputs)
    if not all(isinstance(name, str) for name in names):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Usage(f"outputs is {outputs!r}, and not a list of names")
    return names


def inspect(model: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of an ONNX file, read without a session.

    Args:
        model: the path of an ONNX file.

    Returns:
        What `gpux inspect --json` prints of the model: "name", "version", "format", "path", "size_bytes", "size_mb",
        "inputs", "outputs", "ir_version", "opsets", "producer", "domain", "graph_name", "description",
        "model_version", "metadata", "operators" (nodes by operator), "node_count", "parameter_count",
        "parameter_bytes", "parameter_types" (parameters by element type), "external_files".

    Raises:
        gpux.NotFound, gpux.Permission, gpux.InvalidModel.
    """
    return cast("dict[str, Any]", json.loads(_gpux.inspect(path_of(model))))


__all__ = ["Inputs", "ModelInfo", "ModelSource", "Runtime", "inspect"]
