"""Other libraries' embedding classes, with the libraries themselves."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import REPOSITORY

import gpux

TEXTS = ["the fox jumps over the lazy dog", "a dog", "Stocks fell on Monday."]


@pytest.fixture(scope="session")
def minilm(home: Path) -> str:
    """The name of all-MiniLM-L6-v2 in the store."""
    folder = REPOSITORY / ".deps" / "all-MiniLM-L6-v2"
    if not folder.exists():
        pytest.skip("no .deps/all-MiniLM-L6-v2: scripts/setup brings it")
    gpux.Store().import_folder(folder, "minilm")
    return "minilm"


@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [
        ("gpux.integrations.langchain", "langchain_core", "gpux[langchain]"),
        ("gpux.integrations.llama_index", "llama_index", "gpux[llama-index]"),
        ("gpux.integrations.chromadb", "chromadb", "gpux[chromadb]"),
        ("gpux.ray", "ray", "gpux[ray]"),
    ],
)
def test_without_the_library_the_extra_is_named(module: str, library: str, extra: str) -> None:
    code = f"import sys; sys.modules[{library!r}] = None; import {module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError")
    assert extra in last


def test_nothing_is_imported_unasked() -> None:
    code = (
        "import sys, gpux, gpux.integrations, gpux.integrations.sentence_transformers;"
        "print([name for name in ('ray', 'torch', 'chromadb', 'sentence_transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_langchain(encoder: Path) -> None:
    pytest.importorskip("langchain_core", reason="needs langchain-core: scripts/setup --integrations")
    from langchain_core.vectorstores import InMemoryVectorStore

    from gpux.integrations.langchain import GpuxEmbeddings

    embeddings = GpuxEmbeddings(encoder)
    embedder = embeddings.embedder
    assert embeddings.embed_documents(TEXTS) == embedder.encode_document(TEXTS).tolist()
    assert embeddings.embed_query(TEXTS[0]) == embedder.encode(TEXTS[0], prompt_name="query").tolist()
    assert asyncio.run(embeddings.aembed_query(TEXTS[0])) == embeddings.embed_query(TEXTS[0])
    assert asyncio.run(embeddings.aembed_documents(TEXTS)) == embeddings.embed_documents(TEXTS)
    assert len(GpuxEmbeddings(embedder, dimensions=3).embed_query("a dog")) == 3
    store = InMemoryVectorStore.from_texts(TEXTS, GpuxEmbeddings(embedder))
    vectors = embedder.encode_document(TEXTS)
    nearest = TEXTS[int(embedder.similarity(embedder.encode_query("a dog"), vectors).argmax())]
    assert store.similarity_search("a dog", k=1)[0].page_content == nearest
    with pytest.raises(gpux.NotFound):
        GpuxEmbeddings("no-such-model")


@pytest.mark.slow
def test_llama_index(encoder: Path) -> None:
    pytest.importorskip("llama_index.core", reason="needs llama-index-core: scripts/setup --integrations")
    from llama_index.core import VectorStoreIndex
    from llama_index.core.schema import TextNode

    from gpux.integrations.llama_index import GpuxEmbedding

    embedder = gpux.Embedder(encoder)
    embedding = GpuxEmbedding(embedder)
    assert embedding.get_text_embedding_batch(TEXTS) == embedder.encode_document(TEXTS).tolist()
    assert embedding.get_query_embedding(TEXTS[0]) == embedder.encode_query(TEXTS[0]).tolist()
    assert asyncio.run(embedding.aget_text_embedding(TEXTS[0])) == embedder.encode_document(TEXTS[0]).tolist()
    index = VectorStoreIndex([TextNode(text=text) for text in TEXTS], embed_model=embedding)
    found = index.as_retriever(similarity_top_k=1).retrieve("a dog")
    nearest = TEXTS[int(embedder.similarity(embedder.encode_query("a dog"), embedder.encode_document(TEXTS)).argmax())]
    assert found[0].node.get_content() == nearest


@pytest.mark.slow
def test_chromadb(encoder: Path, tmp_path: Path) -> None:
    chromadb = pytest.importorskip("chromadb", reason="needs chromadb: scripts/setup --integrations")
    from gpux.integrations.chromadb import GpuxEmbeddingFunction

    settings = chromadb.config.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(str(tmp_path / "data"), settings)
    function: Any = GpuxEmbeddingFunction(encoder, max_tokens=16)
    assert function.default_space() == "cosine"
    collection = client.create_collection("texts", embedding_function=function)
    collection.add(ids=["0", "1", "2"], documents=TEXTS)
    embedder = gpux.Embedder(encoder)
    stored = collection.get(include=["embeddings"])["embeddings"]
    expected = embedder.encode_document(TEXTS, max_tokens=16)
    # Where it compares by the angle, Chroma keeps directions and lengths, and multiplies them again.
    np.testing.assert_allclose(np.asarray(stored, np.float32), expected, rtol=1e-6)
    query = embedder.encode_query("a dog", max_tokens=16)
    nearest = int(embedder.similarity(query, expected).argmax())
    assert collection.query(query_texts=["a dog"], n_results=1)["ids"] == [[str(nearest)]]
    # Opened without naming the function: Chroma makes it from what the collection keeps.
    opened = client.get_collection("texts")
    assert opened.query(query_texts=["a dog"], n_results=1)["ids"] == [[str(nearest)]]


def pairs(language: str) -> tuple[list[str], list[str], list[float]]:
    folder = os.environ.get("GPUX_STSB") or str(REPOSITORY.parent / "shared" / "data" / "stsb")
    file = Path(folder) / f"{language}-dev.csv"
    if not file.exists():
        pytest.skip(f"no {language}-dev.csv of the STS benchmark in {folder}: set GPUX_STSB")
    with file.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.reader(stream) if row]
    return [row[0] for row in rows], [row[1] for row in rows], [float(row[2]) for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize(("language", "spearman"), [("en", 0.8672), ("de", 0.7030)])
def test_sentence_transformers_own_evaluator(minilm: str, tmp_path: Path, language: str, spearman: float) -> None:
    """The figures are those of bench/embed/quality, which the program's vectors have."""
    pytest.importorskip("sentence_transformers", reason="needs sentence-transformers: scripts/setup --integrations")
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    from gpux.integrations.sentence_transformers import SentenceTransformer

    first, second, scores = pairs(language)
    evaluator = EmbeddingSimilarityEvaluator(first, second, scores, name="dev", write_csv=True)
    model: Any = SentenceTransformer(minilm)
    metrics = evaluator(model, output_path=str(tmp_path))
    assert round(metrics["dev_spearman_cosine"], 4) == spearman
    assert model.model_card_data.evaluations[0][1]["dev_spearman_cosine"] == metrics["dev_spearman_cosine"]


def test_the_class_of_sentence_transformers_names(encoder: Path, tmp_path: Path) -> None:
    from gpux.integrations.sentence_transformers import SentenceTransformer

    embedder = gpux.Embedder(encoder)
    model = SentenceTransformer(embedder)
    vectors = model.encode(TEXTS, batch_size=2, show_progress_bar=False, convert_to_numpy=True)
    assert vectors.tobytes() == embedder.encode(TEXTS).tobytes()
    assert model.encode(TEXTS, precision=None).tobytes() == vectors.tobytes()
    assert model.encode_query(TEXTS).tobytes() == embedder.encode(TEXTS, prompt_name="query").tobytes()
    assert model.encode_document(TEXTS).tobytes() == vectors.tobytes()
    assert model.get_sentence_embedding_dimension() == embedder.dimension
    with model.truncate_sentence_embeddings(3):
        assert model.encode(TEXTS).tobytes() == np.ascontiguousarray(vectors[:, :3]).tobytes()
        assert model.get_sentence_embedding_dimension() == 3
    np.testing.assert_allclose(np.linalg.norm(model.encode(TEXTS, normalize_embeddings=True), axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(model.similarity_pairwise(vectors, vectors), np.ones(3), rtol=1e-6)
    dot = SentenceTransformer(embedder, similarity_fn_name="dot")
    np.testing.assert_allclose(dot.similarity(vectors, vectors), vectors @ vectors.T, rtol=1e-6)
    for name, order in (("euclidean", 2), ("manhattan", 1)):
        near = SentenceTransformer(embedder, similarity_fn_name=name)  # type: ignore[arg-type]
        distances = np.linalg.norm(vectors[:, None] - vectors[None], ord=order, axis=-1)
        np.testing.assert_allclose(near.similarity(vectors, vectors), -distances, rtol=1e-5)
        pairs_of_rows = near.similarity_pairwise(vectors, vectors[::-1])
        np.testing.assert_allclose(pairs_of_rows, -np.diag(distances[:, ::-1]), rtol=1e-5)
    assert model.similarity_fn_name == "cosine"
    folder = tmp_path / "encoder"
    shutil.copytree(encoder, folder)
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"similarity_fn_name": "dot"}))
    assert SentenceTransformer(folder).similarity_fn_name == "dot", "as its folder says"
    with pytest.raises(gpux.Usage, match="similarity_fn_name"):
        SentenceTransformer(embedder, similarity_fn_name="angle")  # type: ignore[arg-type]
    with pytest.raises(gpux.Usage, match="token_embeddings"):
        model.encode(TEXTS, output_value="token_embeddings")
