"""GPUX's runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpux.core.models import ModelInfo, ModelInspector
from gpux.core.providers import ExecutionProvider, ProviderManager, id_of
from gpux.errors import Usage
from gpux.runtime import Runtime

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    Inputs = dict[str, Any] | NDArray[Any]


class GPUXRuntime:
    """A model, as GPUX runs it. `gpux.Runtime` does more.

    Args:
        model_path: None: load_model() follows.
        provider: a name, or None or "auto".
        memory_limit, gpu_memory: in bytes or as text ("2GB"); two names of one argument.
        batch_size: maximum of rows in a run of batch_infer().
        timeout: of a run, in seconds.
        enable_profiling: write ONNX Runtime's profile to the working folder. Not supported: GPUX_PROFILE and the flag
            --profile of the program do.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        provider: str | ExecutionProvider | None = None,
        *,
        memory_limit: int | str | None = None,
        gpu_memory: int | str | None = None,
        batch_size: int = 1,
        timeout: float | None = 30,
        enable_profiling: bool = False,
    ) -> None:
        if enable_profiling:
            raise Usage("enable_profiling is not supported: set GPUX_PROFILE to a file, or use `gpux run --profile`")
        self._memory_limit = memory_limit if memory_limit is not None else gpu_memory
        self._batch_size = batch_size
        self._timeout = timeout
        self._provider = provider
        self._runtime: Runtime | None = None
        self._path: str | os.PathLike[str] | None = None
        if model_path is not None:
            self.load_model(model_path, provider)

    def load_model(self, model_path: str | os.PathLike[str], provider: str | ExecutionProvider | None = None) -> None:
        """Load another model in place of the one before.

        Raises:
            gpux.NotFound, which is a FileNotFoundError, and the other errors of gpux.Runtime.
        """
        loaded = Runtime(
            model_path,
            id_of(provider if provider is not None else self._provider),
            memory_limit=self._memory_limit,
            timeout=self._timeout,
        )
        self.cleanup()
        self._runtime = loaded
        self._path = model_path

    def infer(self, input_data: Inputs) -> dict[str, NDArray[Any]]:
        """Run the model once. An array is the value of the only input."""
        return self._loaded().run(input_data)

    def batch_infer(self, batch_data: Sequence[Inputs]) -> list[dict[str, NDArray[Any]]]:
        """Run the model on each item."""
        return self._loaded().run_batch(batch_data, batch_limit=self._batch_size)

    def benchmark(self, input_data: Inputs, num_runs: int = 100, warmup_runs: int = 10) -> dict[str, float]:
        """Eight numbers: times of a run in milliseconds, and runs per second."""
        result = self._loaded().benchmark(input_data, num_runs, warmup_runs=warmup_runs)
        return {
            "mean_time_ms": result.mean_ms,
            "std_time_ms": result.std_ms,
            "min_time_ms": result.min_ms,
            "max_time_ms": result.max_ms,
            "median_time_ms": result.median_ms,
            "p95_time_ms": result.p95_ms,
            "p99_time_ms": result.p99_ms,
            "throughput_fps": result.throughput_per_second,
        }

    def get_model_info(self) -> ModelInfo | None:
        """What the model's file contains; None before a model is loaded."""
        if self._runtime is None or self._path is None:
            return None
        content = self._runtime.info.content
        return ModelInspector().inspect(content["path"])

    def get_provider_info(self) -> dict[str, Any]:
        """The provider that runs the model."""
        active = self._loaded().verdict.active
        return ProviderManager().get_provider_info(active[0])

    def get_available_providers(self) -> list[str]:
        """ONNX Runtime's names of the providers that this machine can use."""
        return ProviderManager().get_available_providers()

    def cleanup(self) -> None:
        """Release the model."""
        if self._runtime is not None:
            self._runtime.close()
            self._runtime = None

    def __enter__(self) -> GPUXRuntime:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cleanup()

    def _loaded(self) -> Runtime:
        if self._runtime is None:
            raise Usage("no model is loaded: call load_model()")
        return self._runtime


__all__ = ["GPUXRuntime"]
