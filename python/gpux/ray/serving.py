"""Models as applications of Ray Serve."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np
import ray
from ray import serve

from gpux.embedder import Embedder
from gpux.errors import DeadlineExceeded, Error, InvalidInput, NotFound, Storage, Usage
from gpux.ray.packages import NAME, Blob, Package, install, pack
from gpux.ray.resources import resources_of
from gpux.runtime import Runtime

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from gpux._options import Options, Strict

Task: TypeAlias = Literal["embed", "run"]
"""What a deployment does with a model: embeddings of texts, or runs with tensors."""

_namespace = "gpux"
_probe_seconds = 10.0
# HTTP's status of an error. Others are the server's fault.
_statuses = {
    "usage": 400,
    "invalid_input": 400,
    "not_found": 404,
    "resource_exhausted": 503,
    "provider_unavailable": 503,
    "deadline_exceeded": 504,
}


@ray.remote(num_cpus=0, max_restarts=0)
class _Keeper:
    """Owns a package's objects, so that replicas that start after the driver has ended can still get them."""

    def __init__(self) -> None:
        self._blobs: list[Blob] = []
        self._chunks: list[ray.ObjectRef[Any]] = []

    def add_chunk(self, chunk: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        self._chunks.append(ray.put(chunk))

    def end_blob(self, digest: str, size: int) -> None:
        self._blobs.append(Blob(digest, size, tuple(self._chunks)))
        self._chunks = []

    def blobs(self) -> tuple[Blob, ...]:
        return tuple(self._blobs)


def _keeper_name(digest: str) -> str:
    return f"package-{digest}"


def _keep(package: Package) -> None:
    try:
        ray.get_actor(_keeper_name(package.digest), _namespace)
    except ValueError:
        keeper = (
            cast("Any", _Keeper)
            .options(name=_keeper_name(package.digest), namespace=_namespace, lifetime="detached", get_if_exists=True)
            .remote()
        )
        for blob in package.blobs:
            for chunk in blob.chunks:
                ray.get(keeper.add_chunk.remote(chunk))
            ray.get(keeper.end_blob.remote(blob.digest, blob.size))


def release(model: str | os.PathLike[str] | Package) -> bool:
    """Free the memory that deployments of a model use in Ray's object store.

    Replicas that run keep their model. New ones find it only in the caches of nodes that had one.

    Returns:
        Whether there was any.
    """
    try:
        keeper = ray.get_actor(_keeper_name(pack(model).digest), _namespace)
    except ValueError:
        return False
    ray.kill(keeper)
    return True


def _kept(digest: str, files: tuple[str, ...]) -> Package:
    try:
        keeper = ray.get_actor(_keeper_name(digest), _namespace)
        return Package(digest, files, ray.get(keeper.blobs.remote()))
    except (ValueError, ray.exceptions.RayActorError) as error:
        raise Storage(f"the cluster does not keep the model package {digest} any more: deploy it again") from error


class _Replica:
    """A loaded model that answers requests over HTTP and by handle."""

    def __init__(self, digest: str, files: tuple[str, ...], task: Task, loading: Mapping[str, Any]) -> None:
        self._package = install(_kept(digest, files))
        self._package.use()
        self._task = task
        self._embedder = Embedder(NAME, **loading) if task == "embed" else None
        self._runtime = Runtime(NAME, **loading) if task == "run" else None
        self._proven = time.monotonic()

    async def embed(self, texts: str | list[str], **encoding: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
        """The embeddings: arguments and errors of gpux.Embedder.encode()."""
        if self._embedder is None:
            raise Usage("this deployment runs tensors: deploy the model with task='embed'")
        vectors = await asyncio.to_thread(self._embedder.encode, texts, **encoding)
        self._proven = time.monotonic()
        return vectors

    async def run(self, inputs: Any, outputs: list[str] | None = None) -> dict[str, Any]:
        """One run of the model: arguments and errors of gpux.Runtime.run()."""
        if self._runtime is None:
            raise Usage("this deployment embeds texts: deploy the model with task='run'")
        results = await self._runtime.run_async(inputs, outputs)
        self._proven = time.monotonic()
        return results

    def verdict(self) -> str:
        """Which provider runs the model, and why."""
        model = self._embedder or self._runtime
        assert model is not None
        return str(model.verdict)

    async def check_health(self) -> None:
        """Ray Serve replaces the replica where this raises: the model runs once, unless a request has just done so."""
        if time.monotonic() - self._proven < _probe_seconds:
            return
        if self._embedder is not None:
            probe: Awaitable[object] = asyncio.to_thread(self._embedder.encode, "gpux")
        else:
            assert self._runtime is not None
            runtime = self._runtime
            probe = asyncio.to_thread(lambda: runtime.benchmark(None, 1, warmup_runs=0))
        try:
            await asyncio.wait_for(probe, _probe_seconds)
        except TimeoutError:
            raise DeadlineExceeded(f"the model did not answer within {_probe_seconds:g} s") from None
        self._proven = time.monotonic()

    async def __call__(self, request: Request) -> Response:
        """HTTP: POST /v1/embeddings as OpenAI's; POST /predict with the inputs by name; GET /verdict."""
        from starlette.responses import JSONResponse

        try:
            return JSONResponse(await self._answer(request))
        except Error as error:
            body = {"error": {"code": error.code, "message": str(error)}}
            return JSONResponse(body, _statuses.get(error.code, 500))

    async def _answer(self, request: Request) -> Any:
        path, method = request.url.path.rstrip("/"), request.method
        if path.endswith("/verdict") and method == "GET":
            return {"verdict": self.verdict()}
        wanted = "/v1/embeddings" if self._task == "embed" else "/predict"
        if not path.endswith(wanted) or method != "POST":
            raise NotFound(f"there is no {method} {path or '/'}: POST {wanted}, GET /verdict")
        try:
            body = await request.json()
        except ValueError as error:
            raise InvalidInput(f"the request is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise InvalidInput("the request is not a JSON object")
        if self._task == "run":
            results = await self.run(body)
            return {name: _to_json(value) for name, value in results.items()}
        texts = body.get("input")
        if not isinstance(texts, str | list) or texts == []:
            raise InvalidInput("the request has no 'input': a text, or a list of texts")
        dimensions = body.get("dimensions")
        vectors = await self.embed([texts] if isinstance(texts, str) else texts, dimensions=dimensions)
        data = [
            {"object": "embedding", "index": row, "embedding": vector.tolist()} for row, vector in enumerate(vectors)
        ]
        return {"object": "list", "data": data, "model": body.get("model", "")}


def _to_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.astype(np.float64).tolist() if value.dtype.kind == "V" else value.tolist()
    if isinstance(value, dict):
        return {str(key): _to_json(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_to_json(one) for one in value]
    return value


def _count(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise Usage(f"{name} is {value!r}, and not a whole number from {least}")
    return value


def deployment(  # noqa: D417
    model: str | os.PathLike[str] | Package,
    *,
    name: str = "gpux",
    task: Task | None = None,
    provider: str = "auto",
    strict: Strict = False,
    options: Options | None = None,
    timeout: float | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    min_replicas: int = 1,
    max_replicas: int = 4,
    target_ongoing_requests: int = 2,
    max_ongoing_requests: int = 8,
    max_queued_requests: int = -1,
) -> serve.Application:
    """A model as an application of Ray Serve.

        handle = serve.run(gpux.ray.deployment("minilm"), route_prefix="/minilm")
        vectors = handle.embed.remote(["a cat"]).result()

    Over HTTP, it answers POST /v1/embeddings (`input`, `dimensions`) or POST /predict (the inputs by name). The number
    of replicas follows the number of requests that are queued or running. The package stays in Ray's object store until
    release(), also after the driver has ended.

    Args:
        model: as for gpux.ray.pack().
        name: of the deployment.
        task: "embed": the replicas have `embed()`; "run": `run()`. None: "embed" for models with a tokenizer.
        provider, strict, options, timeout: as for gpux.Embedder or gpux.Runtime.
        num_cpus, num_gpus: of a replica, as for embed().
        min_replicas, max_replicas: their number.
        target_ongoing_requests: per replica; more start where it is exceeded on average.
        max_ongoing_requests: per replica; further requests wait in the queue.
        max_queued_requests: of all; further requests are refused. -1: no limit.

    Raises:
        as embed() for the model and the cluster.
    """
    _count("min_replicas", min_replicas, 0)
    _count("max_replicas", max_replicas, max(1, min_replicas))
    _count("target_ongoing_requests", target_ongoing_requests, 1)
    _count("max_ongoing_requests", max_ongoing_requests, 1)
    _count("max_queued_requests", max_queued_requests, -1)
    if task not in (None, "embed", "run"):
        raise Usage(f"task is {task!r}, and not 'embed' or 'run'")
    package = pack(model)
    if task is None:
        task = "embed" if "tokenizer.json" in package.files else "run"
    resources = resources_of(provider, num_cpus, num_gpus)
    _keep(package)
    loading: dict[str, Any] = {"provider": provider, "strict": strict, "options": options, "timeout": timeout}
    if task == "run":
        loading["threads"] = resources.threads
    elif not resources.gpus:
        loading["workers"] = resources.threads
    made = serve.deployment(
        _Replica,
        name=name,
        ray_actor_options=resources.ray_arguments,
        max_ongoing_requests=max_ongoing_requests,
        max_queued_requests=max_queued_requests,
        health_check_timeout_s=3 * _probe_seconds,
        autoscaling_config={
            "min_replicas": min_replicas,
            "max_replicas": max_replicas,
            "target_ongoing_requests": target_ongoing_requests,
        },
    )
    return made.bind(package.digest, package.files, task, loading)


__all__ = ["Task", "deployment", "release"]
