"""The vectors nearest to a query."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from gpux import _gpux
from gpux.embedder import Embedder, SimilarityName
from gpux.errors import InvalidInput, Usage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray


def _vector(vector: ArrayLike) -> NDArray[np.float32]:
    try:
        return np.ascontiguousarray(vector, np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"a vector is an array of numbers: {error}") from error


class SearchIndex:
    """Vectors that are searched exactly: each is compared with the query.

    May be used from several threads at once: an add() waits for searches, which do not hold the GIL.
    """

    def __init__(self) -> None:
        self._index = _gpux.VectorIndex()

    @classmethod
    def open(cls, place: str | os.PathLike[str]) -> SearchIndex:
        """Open what `gpux embed` wrote.

        Args:
            place: FILE.npy, FILE.jsonl, FILE.vec or a folder of .vec. The vectors of an .npy file stay on the disk
                until they are read.

        Raises:
            gpux.NotFound, gpux.Storage, gpux.InvalidInput, gpux.Usage (another name).
        """
        index = cls()
        index._index = _gpux.VectorIndex.open(os.fspath(place))
        return index

    def add(self, vector: ArrayLike, text: str = "", id: str = "") -> None:  # noqa: A002
        """Add a copy of a vector.

        Args:
            vector: numbers of [dimension]. They are stored as float32.
            text: returned with the vector.
            id: returned with the vector.

        Raises:
            gpux.InvalidInput where its dimension differs from that of the vectors before.
        """
        self._index.add(_vector(vector), text, id)

    def search(
        self, query: ArrayLike, count: int = 10, *, threads: int = 0, similarity: SimilarityName = "cosine"
    ) -> list[_gpux.SearchHit]:
        """The nearest vectors, nearest first; of equal scores the lower index first.

        Args:
            query: numbers of [dimension].
            count: the maximum of hits.
            threads: 0: the processors of this process.
            similarity: "cosine", "dot", or "euclidean" and "manhattan", whose scores are negative distances.

        Raises:
            gpux.InvalidInput where the query has another dimension, is all zeros ("cosine") or not finite; gpux.Usage
            where count is below 1, or of another similarity.
        """
        if count < 1 or threads < 0:
            raise Usage(f"count is {count} and threads is {threads}: count is from 1, threads from 0")
        return self._index.search(_vector(query), count, threads, similarity)

    @property
    def dimension(self) -> int:
        """Elements of a vector; 0 while there are none."""
        return self._index.dimension

    def __len__(self) -> int:
        """The number of vectors."""
        return self._index.size


def search(
    model: Embedder | str | os.PathLike[str],
    query: str,
    texts: Iterable[str] | str | os.PathLike[str] | SearchIndex,
    count: int = 10,
) -> list[_gpux.SearchHit]:
    """The texts most similar to a query by the model's `similarity_fn_name`, nearest first.

    Args:
        model: a gpux.Embedder, or a folder or a name in the store, which is loaded for this call.
        query: a text; the model's prompt for queries is used.
        texts: texts, which are embedded by this call; an index; or the path of vectors that `gpux embed` wrote with the
            same model, as for gpux.SearchIndex.open().
        count: the maximum of hits.

    Raises:
        Those of gpux.Embedder, gpux.Embedder.encode(), gpux.SearchIndex.open() and gpux.SearchIndex.search().
    """
    if not isinstance(model, Embedder):
        with Embedder(model) as embedder:
            return search(embedder, query, texts, count)
    if isinstance(texts, SearchIndex):
        index = texts
    elif isinstance(texts, str | os.PathLike):
        index = SearchIndex.open(texts)
    else:
        listed = list(texts)
        index = SearchIndex()
        for text, vector in zip(listed, model.encode_document(listed), strict=True):
            index.add(vector, text)
    return index.search(model.encode_query(query), count, similarity=model.similarity_fn_name)


__all__ = ["SearchIndex", "search"]
