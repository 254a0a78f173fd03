"""Embeddings of texts."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import REPOSITORY

import gpux
from gpux import embedder as module
from gpux._program import program

TEXTS = [
    "the fox jumps over the lazy dog",
    "a dog",
    "Stocks fell on Monday.",
    "the fox jumps over the lazy dog",
    "fox " * 50,
]


def program_embeds(model: Path | str, texts: list[str], folder: Path, *flags: str) -> np.ndarray:
    lines = folder / "texts.txt"
    lines.write_text("".join(text + "\n" for text in texts))
    vectors = folder / "vectors.npy"
    subprocess.run([program(), "embed", "-m", str(model), f"@{lines}", "-o", str(vectors), *flags], check=True)
    return np.load(vectors)


def test_the_same_bits_as_the_program(encoder: Path, tmp_path: Path) -> None:
    with gpux.Embedder(encoder) as embedder:
        vectors = embedder.encode(TEXTS)
        assert vectors.dtype == np.float32
        assert vectors.shape == (len(TEXTS), embedder.dimension)
        assert vectors.tobytes() == program_embeds(encoder, TEXTS, tmp_path).tobytes()
        for text, vector in zip(TEXTS, vectors, strict=True):
            assert embedder.encode(text).tobytes() == vector.tobytes()


def test_options_do_what_they_do_in_the_program(encoder: Path, tmp_path: Path) -> None:
    embedder = gpux.Embedder(encoder)
    cut = embedder.encode(TEXTS, dimensions=3)
    assert cut.shape == (len(TEXTS), 3)
    assert cut.tobytes() == program_embeds(encoder, TEXTS, tmp_path, "--dimensions", "3").tobytes()
    np.testing.assert_allclose(np.linalg.norm(cut, axis=1), 1, rtol=1e-6)
    short = embedder.encode(TEXTS, max_tokens=4, normalize=True)
    expected = program_embeds(encoder, TEXTS, tmp_path, "--max-tokens", "4", "--normalize")
    assert short.tobytes() == expected.tobytes()
    prompted = embedder.encode(TEXTS, prompt="the question: ")
    assert prompted.tobytes() == embedder.encode(TEXTS, prompt_name="query").tobytes()
    assert prompted.tobytes() != embedder.encode(TEXTS).tobytes()


def test_queries_and_documents(encoder: Path) -> None:
    embedder = gpux.Embedder(encoder)
    assert embedder.prompts == {"query": "the question: ", "document": ""}
    assert embedder.encode_query(TEXTS).tobytes() == embedder.encode(TEXTS, prompt_name="query").tobytes()
    assert embedder.encode_document(TEXTS).tobytes() == embedder.encode(TEXTS).tobytes()
    assert embedder.encode_query(TEXTS, prompt="").tobytes() == embedder.encode(TEXTS).tobytes()


def test_iterators_are_read_in_chunks(encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_texts_per_chunk", 3)
    embedder = gpux.Embedder(encoder)
    expected = embedder.encode(TEXTS)
    assert embedder.encode(iter(TEXTS)).tobytes() == expected.tobytes()
    taken: list[str] = []

    def texts() -> itertools.chain[str]:
        for text in itertools.cycle(TEXTS):
            taken.append(text)
            yield text

    rows = list(itertools.islice(embedder.encode_stream(texts()), 7))
    assert [row.tobytes() for row in rows] == [row.tobytes() for row in itertools.islice(itertools.cycle(expected), 7)]
    assert len(taken) == 9
    monkeypatch.setattr(module, "_characters_per_chunk", 40)
    assert embedder.encode(iter(TEXTS)).tobytes() == expected.tobytes()


def test_no_texts(encoder: Path) -> None:
    embedder = gpux.Embedder(encoder)
    for texts in ([], iter(())):
        assert embedder.encode(texts).shape == (0, embedder.dimension)
    assert embedder.encode([], dimensions=2).shape == (0, 2)


def test_workers_and_batching_change_no_bits(encoder: Path) -> None:
    texts = [f"{text} {number}" for number in range(40) for text in TEXTS]
    expected = gpux.Embedder(encoder, workers=1).encode(texts)
    assert gpux.Embedder(encoder, workers=3).encode(texts).tobytes() == expected.tobytes()
    throughput = gpux.Embedder(encoder, batching="throughput").encode(texts)
    np.testing.assert_allclose(throughput, expected, atol=1e-5)


def test_similarity() -> None:
    a = np.array([[1, 0], [1, 1]], np.float32)
    np.testing.assert_allclose(gpux.Embedder.similarity(a, [0, 2]), [[0], [np.sqrt(0.5)]], atol=1e-6)
    assert gpux.Embedder.similarity([[0, 0]], a).tolist() == [[0, 0]]
    with pytest.raises(gpux.InvalidInput, match="2 and 3"):
        gpux.Embedder.similarity(a, [[1, 2, 3]])


def test_progress_is_shown(encoder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpux.Embedder(encoder).encode(TEXTS, show_progress_bar=True)
    assert "5 of 5 texts" in capsys.readouterr().err
    gpux.Embedder(encoder).encode(TEXTS)
    assert capsys.readouterr().err == ""


def test_the_text_that_fails_is_named(encoder: Path) -> None:
    with pytest.raises(gpux.InvalidInput, match="a text is a int"):
        gpux.Embedder(encoder).encode(["a", 1])  # type: ignore[list-item]


def test_an_embedder_after_a_fault_works(encoder: Path) -> None:
    embedder = gpux.Embedder(encoder)

    def texts() -> itertools.chain[str]:
        yield "a"
        raise KeyError("the reader's own")

    with pytest.raises(KeyError):
        embedder.encode(texts())
    assert embedder.encode("a").shape == (embedder.dimension,)


@pytest.mark.slow
def test_all_minilm_has_the_bits_of_the_program(tmp_path: Path) -> None:
    folder = REPOSITORY / ".deps" / "all-MiniLM-L6-v2"
    if not folder.exists():
        pytest.skip("no .deps/all-MiniLM-L6-v2: scripts/setup brings it")
    gpux.Store().import_folder(folder, "minilm")
    embedder = gpux.Embedder("minilm")
    vectors = embedder.encode(TEXTS)
    assert vectors.tobytes() == program_embeds("minilm", TEXTS, tmp_path).tobytes()
    scores = embedder.similarity(
        embedder.encode("a cat on a mat"), embedder.encode(["A feline rests on a rug.", TEXTS[2]])
    )
    assert scores[0, 0] > 0.5 > scores[0, 1]
    assert [hit.index for hit in gpux.search(embedder, "a cat on a mat", [TEXTS[2], "A feline rests on a rug."])] == [
        1,
        0,
    ]
