"""Search."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

import gpux
from gpux._program import program


def test_the_nearest_vectors() -> None:
    index = gpux.SearchIndex()
    assert len(index) == 0
    for number, vector in enumerate(np.eye(4, dtype=np.float32)):
        index.add(vector, text=f"text {number}", id=str(number))
    assert (len(index), index.dimension) == (4, 4)
    hits = index.search([0, 1, 0.5, 0], count=2)
    assert [(hit.index, hit.text, hit.id) for hit in hits] == [(1, "text 1", "1"), (2, "text 2", "2")]
    assert hits[0].score == pytest.approx(1 / np.sqrt(1.25))
    with pytest.raises(gpux.InvalidInput):
        index.add([1, 2])
    with pytest.raises(gpux.InvalidInput):
        index.search([0, 0, 0, 0])


def test_texts_by_similarity(encoder: Path, tmp_path: Path) -> None:
    texts = ["the fox jumps", "a dog", "the lazy dog"]
    with gpux.Embedder(encoder) as embedder:
        hits = gpux.search(embedder, "a dog", texts, count=2)
        assert len(hits) == 2
        assert [hit.text for hit in gpux.search(encoder, "a dog", texts, count=2)] == [hit.text for hit in hits]
        file = tmp_path / "vectors.npy"
        subprocess.run([program(), "embed", "-m", str(encoder), *texts, "-o", str(file)], check=True)
        assert [hit.index for hit in gpux.search(embedder, "a dog", file, count=2)] == [hit.index for hit in hits]
        index = gpux.SearchIndex.open(file)
        assert [hit.index for hit in gpux.search(embedder, "a dog", index, 2)] == [hit.index for hit in hits]
    with pytest.raises(gpux.NotFound):
        gpux.SearchIndex.open(tmp_path / "missing.npy")


def test_other_similarities(encoder: Path, tmp_path: Path) -> None:
    index = gpux.SearchIndex()
    for vector in ([1, 0], [8, 8], [2, 0]):
        index.add(vector)
    assert [hit.index for hit in index.search([2, 0], similarity="dot")] == [1, 2, 0]
    assert [hit.score for hit in index.search([2, 0], similarity="manhattan")] == [0, -1, -14]
    with pytest.raises(gpux.Usage, match="cosine, dot, euclidean, manhattan"):
        index.search([2, 0], similarity="angle")  # type: ignore[arg-type]

    folder = tmp_path / "encoder"
    shutil.copytree(encoder, folder)
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"similarity_fn_name": "euclidean"}))
    with gpux.Embedder(encoder) as plain, gpux.Embedder(folder) as embedder:
        assert (plain.similarity_fn_name, embedder.similarity_fn_name) == ("cosine", "euclidean")
        hits = gpux.search(embedder, "a dog", ["the fox jumps", "a dog"])
    assert (hits[0].text, hits[0].score) == ("a dog", 0)
    assert hits[1].score < 0


def test_vectors_are_added_during_searches() -> None:
    index = gpux.SearchIndex()
    vectors = np.random.default_rng(0).normal(size=(2000, 32)).astype(np.float32)
    index.add(vectors[0])
    failed: list[BaseException] = []

    def search() -> None:
        try:
            for _ in range(50):
                assert index.search(vectors[0], 1)[0].index == 0
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for vector in vectors[1:]:
        index.add(vector)
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(index) == 2000
