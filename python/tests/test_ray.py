"""Ray Data and Ray Serve on clusters of this machine."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from conftest import MODELS, REPOSITORY

import gpux

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ray = pytest.importorskip("ray", reason="needs Ray: scripts/setup --test installs it")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.slow

WORDS = ["the", "fox", "jumps", "over", "lazy", "dog", "stocks", "fell", "on", "Monday", "rain", "market", "train"]


def some_texts(count: int) -> list[str]:
    choose = np.random.default_rng(0)
    return [" ".join(choose.choice(WORDS, choose.integers(3, 20))) for _ in range(count)]


@pytest.fixture(scope="module")
def cluster(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Three nodes, each with a cache of packages of its own."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(gpux.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    cluster = Cluster()
    caches = tmp_path_factory.mktemp("caches")
    cluster.caches = []
    for number in range(3):
        cache = caches / str(number)
        cluster.caches.append(cache)
        cluster.add_node(
            num_cpus=2,
            object_store_memory=2**30,
            env_vars={"GPUX_RAY_CACHE": str(cache)},
            resources={f"node{number}": 1},
        )
    os.environ["GPUX_RAY_CACHE"] = str(caches / "driver")
    ray.init(cluster.address, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    del os.environ["GPUX_RAY_CACHE"]


def parquet(folder: Path, texts: list[str], files: int = 4) -> Path:
    folder.mkdir()
    for number in range(files):
        rows = range(number, len(texts), files)
        table = pa.table({"id": pa.array(list(rows), pa.int64()), "text": [texts[row] for row in rows]})
        pq.write_table(table, folder / f"{number}.parquet")
    return folder


def read_back(folder: Path) -> tuple[list[int], np.ndarray]:
    table = pq.read_table(folder)
    vectors = np.asarray(table.column("embedding").combine_chunks().flatten()).reshape(table.num_rows, -1)
    ids = table.column("id").to_pylist()
    order = np.argsort(ids, kind="stable")
    return [ids[row] for row in order], vectors[order]


def test_parquet_to_parquet_with_the_bits_of_one_machine(cluster: Any, encoder: Path, tmp_path: Path) -> None:
    texts = some_texts(2000)
    source = parquet(tmp_path / "in", texts)
    expected = gpux.Embedder(encoder).encode(texts)
    package = gpux.ray.pack(encoder)
    for workers in (1, 3):
        dataset = gpux.ray.embed(
            ray.data.read_parquet(str(source)), package, "text", concurrency=workers, batch_bytes=8000
        )
        out = tmp_path / f"out-{workers}"
        dataset.write_parquet(str(out))
        ids, vectors = read_back(out)
        assert ids == list(range(2000))
        assert vectors.tobytes() == expected.tobytes()


def test_a_package_reaches_each_node_once(cluster: Any, encoder: Path) -> None:
    package = gpux.ray.pack(encoder)

    @ray.remote(num_cpus=1)
    def arrive(package: gpux.ray.Package) -> tuple[str, int]:
        from gpux.ray.packages import install

        installed = install(package)
        return str(installed.home), (installed.home / "installed.json").stat().st_ino

    for number in range(3):
        found = ray.get([arrive.options(resources={f"node{number}": 0.1}).remote(package) for _ in range(4)])
        assert len(set(found)) == 1
        assert found[0][0] == str(cluster.caches[number] / package.digest)


def test_several_users_of_a_package(
    cluster: Any, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpux.ray.packages import install

    monkeypatch.setenv("GPUX_RAY_CACHE", str(tmp_path))
    package = gpux.ray.pack(encoder)
    first, second = install(package), install(package)
    first.close()
    monkeypatch.setenv("GPUX_RAY_CACHE_BYTES", "1")
    install(gpux.ray.pack(REPOSITORY / "examples" / "digits")).close()
    assert second.home.exists()
    second.close()


def test_a_damaged_copy_is_replaced(
    cluster: Any, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpux.ray.packages import NAME, install

    monkeypatch.setenv("GPUX_RAY_CACHE", str(tmp_path))
    package = gpux.ray.pack(encoder)
    installed = install(package)
    installed.close()
    for blob in package.blobs:
        file = installed.home / "blobs" / "sha256" / blob.digest
        assert file.stat().st_size == blob.size
        file.chmod(0o600)
        file.write_bytes(b"x" * blob.size)
    again = install(package)
    assert gpux.Store(again.home).verify(NAME) == []
    again.close()


def test_what_arrives_damaged_is_refused(
    cluster: Any, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    from gpux.ray.packages import install

    monkeypatch.setenv("GPUX_RAY_CACHE", str(tmp_path))
    package = gpux.ray.pack(encoder)
    last = package.blobs[-1]
    wrong = dataclasses.replace(last, chunks=(ray.put(np.zeros(last.size, np.uint8)),))
    with pytest.raises(gpux.Storage, match=last.digest):
        install(dataclasses.replace(package, blobs=(*package.blobs[:-1], wrong)))
    install(package).close()


def test_the_cache_is_bounded(
    cluster: Any, encoder: Path, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpux.ray.packages import install

    monkeypatch.setenv("GPUX_RAY_CACHE", str(tmp_path))
    first, second = gpux.ray.pack(encoder), gpux.ray.pack(digits)
    monkeypatch.setenv("GPUX_RAY_CACHE_BYTES", "1")
    held = install(first)
    other = install(second)
    assert held.home.exists()
    assert other.home.exists()
    held.close()
    other.close()
    install(second).close()
    assert not held.home.exists()
    assert other.home.exists()
    monkeypatch.setenv("GPUX_RAY_CACHE_BYTES", "much")
    with pytest.raises(gpux.Usage, match="GPUX_RAY_CACHE_BYTES"):
        install(first)


def killed_in_the_middle(out: Path, kill: Callable[[], None], rows: int) -> threading.Thread:
    """Calls `kill` once some of the output is written."""

    def watch() -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if len(list(out.glob("*.parquet"))) >= 2:
                kill()
                return
            time.sleep(0.02)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def worker_processes() -> list[int]:
    """Processes that hold a model, on any node of this machine."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if command.startswith(b"ray::") and b"TextWorker" in command:
            found.append(int(folder.name))
    return found


@pytest.mark.parametrize("fault", ["worker", "node"])
def test_no_row_is_lost_and_none_comes_twice(cluster: Any, encoder: Path, tmp_path: Path, fault: str) -> None:
    texts = some_texts(20_000)
    source = parquet(tmp_path / "in", texts)
    expected = gpux.Embedder(encoder).encode(texts)
    out = tmp_path / "out"
    done: list[str] = []
    added = None
    if fault == "node":
        added = cluster.add_node(
            num_cpus=2, object_store_memory=2**30, env_vars={"GPUX_RAY_CACHE": str(tmp_path / "cache")}
        )
        cluster.wait_for_nodes()

    def kill() -> None:
        if added is not None:
            cluster.remove_node(added, allow_graceful=False)
            done.append("node")
        else:
            process = worker_processes()[0]
            os.kill(process, signal.SIGKILL)
            done.append("worker")

    dataset = gpux.ray.embed(ray.data.read_parquet(str(source)), encoder, "text", concurrency=4, batch_bytes=4000)
    thread = killed_in_the_middle(out, kill, len(texts))
    dataset.write_parquet(str(out))
    thread.join()
    assert done == [fault]
    ids, vectors = read_back(out)
    assert ids == list(range(len(texts)))
    assert vectors.tobytes() == expected.tobytes()


def test_any_model_runs_on_rows(cluster: Any, digits: Path) -> None:
    images = np.random.default_rng(0).integers(0, 255, (50, 1, 28, 28)).astype(np.float32)
    runtime = gpux.Runtime(digits)
    name = runtime.info.inputs[0].name
    shape = [size if isinstance(size, int) and size > 0 else 1 for size in runtime.info.inputs[0].shape or []]
    images = (
        images.reshape(50, *shape[1:])
        if images[0].size == np.prod(shape[1:])
        else np.zeros((50, *shape[1:]), np.float32)
    )
    dataset = ray.data.from_items([{"id": row, "pixels": images[row]} for row in range(50)], override_num_blocks=5)
    output = runtime.info.outputs[0].name
    ran = gpux.ray.run(dataset, digits, inputs={name: "pixels"}, outputs={output: "scores"}, concurrency=2)
    rows = sorted(ran.take_all(), key=lambda row: row["id"])
    assert [row["id"] for row in rows] == list(range(50))
    for row in rows:
        assert row["scores"].tobytes() == runtime.run({name: images[row["id"]][np.newaxis]})[output][0].tobytes()


def mistakes(encoder: Path) -> dict[str, tuple[type[Exception], str, Callable[[], Any]]]:
    from_items = ray.data.from_items
    texts = from_items([{"text": "a dog"}, {"text": "a fox"}])

    def embeds(dataset: Any, model: Any = encoder, column: str = "text", **arguments: Any) -> Callable[[], Any]:
        return lambda: gpux.ray.embed(dataset, model, column, **arguments).take_all()

    offsets = pa.py_buffer(np.array([0, 4, 6], np.int32))
    invalid = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(b"fine\xff\xfe"))
    return {
        "unknown column": (gpux.InvalidInput, "no column 'title': text", embeds(texts, column="title")),
        "no rows": (
            gpux.InvalidInput,
            "no rows",
            embeds(ray.data.from_arrow(pa.table({"text": pa.array([], pa.string())}))),
        ),
        "no model": (gpux.NotFound, "no-such-model", embeds(texts, "no-such-model")),
        "numbers": (gpux.InvalidInput, "int64", embeds(from_items([{"text": 1}]))),
        "a null": (gpux.InvalidInput, "null", embeds(from_items([{"text": "a"}, {"text": None}]))),
        "not UTF-8": (gpux.InvalidInput, "UTF-8", embeds(ray.data.from_arrow(pa.table({"text": invalid})))),
        "a column that exists": (gpux.Usage, "already", embeds(texts, output="text")),
        "no dataset": (gpux.Usage, "ray.data.Dataset", embeds(["a"])),
        "no GPU": (gpux.ProviderUnavailable, "GPU", embeds(texts, provider="cuda")),
        "no provider in a worker": (
            gpux.ProviderUnavailable,
            "cuda",
            embeds(texts, provider="cuda", num_gpus=0, strict=True),
        ),
        "unknown provider": (gpux.Usage, "cdua", embeds(texts, provider="cdua")),
        "too many dimensions": (gpux.Usage, "dimensions", embeds(texts, dimensions=100_000)),
        "no workers": (gpux.Usage, "concurrency", embeds(texts, concurrency=0)),
        "no bytes": (gpux.Usage, "batch_bytes", embeds(texts, batch_bytes=0)),
        "no such processors": (gpux.Usage, "num_cpus", embeds(texts, num_cpus=1000)),
        "no column for an input": (
            gpux.InvalidInput,
            "no column",
            lambda: gpux.ray.run(texts, REPOSITORY / "examples" / "digits").take_all(),
        ),
        "no such output": (
            gpux.InvalidInput,
            "no output 'y2'",
            lambda: gpux.ray.run(texts, REPOSITORY / "examples" / "digits", outputs={"y2": "y"}).take_all(),
        ),
        "a model that cannot run": (gpux.Error, "", embeds(texts, MODELS / "unknown_operator.onnx")),
        "replicas": (gpux.Usage, "max_replicas", lambda: gpux.ray.deployment(encoder, max_replicas=0)),
        "task": (gpux.Usage, "task", lambda: gpux.ray.deployment(encoder, task="chat")),  # type: ignore[arg-type]
    }


def test_mistakes(cluster: Any, encoder: Path) -> None:
    failures = []
    for name, (kind, message, call) in mistakes(encoder).items():
        try:
            call()
            failures.append(f"{name}: nothing was raised")
        except kind as error:
            if message not in str(error):
                failures.append(f"{name}: {error}")
        except Exception as error:
            failures.append(f"{name}: {type(error)} {str(error)[-600:]}")
    assert not failures, "\n".join(failures)


def post(address: str, body: Any) -> tuple[int, Any]:
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_serve_answers_by_handle_and_http(cluster: Any, encoder: Path, digits: Path) -> None:
    from ray import serve

    texts = some_texts(8)
    expected = gpux.Embedder(encoder).encode(texts)
    serve.start(http_options={"host": "127.0.0.1", "port": 18000})
    try:
        handle = serve.run(gpux.ray.deployment(encoder, max_replicas=2), name="texts", route_prefix="/texts")
        assert handle.embed.remote(texts).result().tobytes() == expected.tobytes()
        address = "http://127.0.0.1:18000"
        status, answer = post(f"{address}/texts/v1/embeddings", {"input": texts, "model": "m"})
        assert status == 200
        vectors = np.array([row["embedding"] for row in answer["data"]], np.float32)
        assert vectors.tobytes() == expected.tobytes()
        status, answer = post(f"{address}/texts/v1/embeddings", {"input": [1]})
        assert (status, answer["error"]["code"]) == (400, "invalid_input")
        assert post(f"{address}/texts/nowhere", {})[0] == 404
        assert "cpu" in handle.verdict.remote().result()
        with pytest.raises(gpux.Usage, match="task='run'"):
            handle.run.remote({}).result()

        runtime = gpux.Runtime(digits)
        name = runtime.info.inputs[0].name
        shape = [size if isinstance(size, int) and size > 0 else 1 for size in runtime.info.inputs[0].shape or []]
        image = np.random.default_rng(0).random(shape, np.float32)
        tensors = serve.run(gpux.ray.deployment(digits, name="digits"), name="digits", route_prefix="/digits")
        output, value = next(iter(runtime.run({name: image}).items()))
        assert tensors.run.remote({name: image}).result()[output].tobytes() == value.tobytes()
        status, answer = post(f"{address}/digits/predict", {name: image.tolist()})
        assert status == 200
        np.testing.assert_array_equal(np.array(answer[output], np.float32), value)
        assert post(f"{address}/digits/predict", {"wrong": 1})[0] == 400
        assert gpux.ray.release(encoder)
        assert not gpux.ray.release(encoder)
        assert handle.embed.remote(texts).result().tobytes() == expected.tobytes()
    finally:
        serve.shutdown()


def test_replicas_follow_the_queue(cluster: Any, encoder: Path) -> None:
    from ray import serve

    try:
        application = gpux.ray.deployment(encoder, max_replicas=2, target_ongoing_requests=1, max_ongoing_requests=2)
        handle = serve.run(application, name="queue", route_prefix=None)
        texts = some_texts(3000)
        deadline = time.monotonic() + 90
        replicas = 0
        while replicas < 2 and time.monotonic() < deadline:
            for answer in [handle.embed.remote(texts) for _ in range(8)]:
                assert len(answer.result()) == len(texts)
            deployments = serve.status().applications["queue"].deployments
            replicas = deployments["gpux"].replica_states.get("RUNNING", 0)
        assert replicas == 2
    finally:
        serve.shutdown()
        gpux.ray.release(encoder)


def test_an_unhealthy_replica_says_so(
    cluster: Any, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    from gpux.ray import serving

    monkeypatch.setenv("GPUX_RAY_CACHE", str(tmp_path))
    monkeypatch.setenv("GPUX_HOME", os.environ["GPUX_HOME"])
    package = gpux.ray.pack(encoder)
    serving._keep(package)
    replica = serving._Replica(package.digest, package.files, "embed", {})
    monkeypatch.setattr(serving, "_probe_seconds", 0.0)
    with pytest.raises(gpux.DeadlineExceeded):
        asyncio.run(replica.check_health())
    monkeypatch.setattr(serving, "_probe_seconds", 60.0)
    replica._proven -= 100
    asyncio.run(replica.check_health())
    assert replica._embedder is not None
    replica._embedder.close()
    replica._proven -= 100
    with pytest.raises(gpux.Usage, match="closed"):
        asyncio.run(replica.check_health())
    gpux.ray.release(package)
