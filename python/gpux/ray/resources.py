"""What a worker reserves of a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ray

from gpux.errors import ProviderUnavailable, Usage

# Ray counts NVIDIA, AMD and Intel GPUs as "GPU". Other devices are custom resources of a cluster, if it names them.
_gpu_providers = {"gpu", "tensorrt", "tensorrt-rtx", "cuda", "migraphx", "rocm", "amd", "directml", "webgpu"}


@dataclass(frozen=True)
class Resources:
    """Of one worker. `cpus` are also the threads of a worker without GPU."""

    cpus: float
    gpus: float

    @property
    def ray_arguments(self) -> dict[str, Any]:
        """As Ray's remote functions take them."""
        return {"num_cpus": self.cpus, **({"num_gpus": self.gpus} if self.gpus else {})}

    @property
    def threads(self) -> int:
        """Texts that a worker processes in parallel."""
        return max(1, int(self.cpus))


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**16:
        raise Usage(f"{name} is {value!r}, and not a number from 0")
    return float(value)


def needs_gpu(provider: str, cluster: dict[str, float]) -> bool:
    """Whether a worker with this provider reserves a GPU of such a cluster."""
    first = provider.split(",")[0].strip().lower()
    if first in ("auto", "fastest"):
        return cluster.get("GPU", 0) > 0
    return first in _gpu_providers


def resources_of(provider: str, num_cpus: float | None, num_gpus: float | None) -> Resources:
    """By the provider, unless given.

    Raises:
        gpux.ProviderUnavailable: the workers need a GPU, and no node of the cluster has one.
    """
    cluster = ray.cluster_resources()
    gpus = (1.0 if needs_gpu(provider, cluster) else 0.0) if num_gpus is None else _number("num_gpus", num_gpus)
    if gpus > 0 and not cluster.get("GPU"):
        raise ProviderUnavailable(
            f"the provider '{provider}' needs a GPU, and no node of the Ray cluster has one; num_gpus=0 tries it anyway"
        )
    cpus = 1.0 if num_cpus is None else _number("num_cpus", num_cpus)
    if cpus > cluster.get("CPU", 0):
        raise Usage(f"num_cpus is {num_cpus}, and the Ray cluster has {cluster.get('CPU', 0):g} processors")
    return Resources(cpus, gpus)


def workers_at_once(concurrency: int | tuple[int, int] | None, resources: Resources) -> int | tuple[int, int]:
    """How many workers a job has; None: from 1 to as many as the cluster has resources for."""
    if concurrency is None:
        cluster = ray.cluster_resources()
        most = cluster["GPU"] / resources.gpus if resources.gpus else cluster.get("CPU", 1) / max(resources.cpus, 0.01)
        return (1, max(1, int(most)))
    bounds = concurrency if isinstance(concurrency, tuple) else (concurrency, concurrency)
    if len(bounds) != 2 or any(isinstance(one, bool) or not isinstance(one, int) for one in bounds):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Usage(f"concurrency is {concurrency!r}, and not a number of workers, or the least and greatest number")
    if not 1 <= bounds[0] <= bounds[1]:
        raise Usage(f"concurrency is {concurrency!r}, and not at least 1 worker")
    return concurrency


__all__ = ["Resources", "needs_gpu", "resources_of", "workers_at_once"]
