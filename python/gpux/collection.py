"""Texts with their vectors in a database or a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from gpux import _gpux
from gpux._closing import Closing
from gpux.embedder import Embedder, embedding_options, prompt_for
from gpux.errors import InvalidInput, Usage
from gpux.pipeline import Pipeline
from gpux.runtime import require_unicode

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# Texts that are taken from an iterator at a time.
_texts_per_chunk = 4000
# Behind the last payload: no payload is it.
_end: Any = object()


class Collection(Closing):
    """Texts with their vectors in PostgreSQL (pgvector), in Qdrant or in one file.

    What `gpux embed --to` stores is found here, and the other way round. A collection has the vectors of one model;
    those of another are refused by name. May be used from several threads; calls run one after the other and do not
    hold the GIL. Ctrl-C ends them. As a context manager, the collection is closed at the end.

    Args:
        url: `postgres://USER@HOST/DATABASE?collection=NAME`, `qdrant://HOST:6333/COLLECTION` or `file:PATH`. Nothing is
            connected to, and nothing made, before the first call.

    Raises:
        gpux.Usage. All calls but close() raise gpux.Network (no server, or it went away), gpux.Permission (password,
        rights), gpux.Storage (disk full, another process writes the file), gpux.NotFound (libpq, the database,
        pgvector), gpux.InvalidInput (a table or a file that gpux has not made), and gpux.Usage after close().
    """

    def __init__(self, url: str) -> None:
        self._collection = _gpux.OpenCollection(url)

    @property
    def facts(self) -> _gpux.CollectionFacts | None:
        """What all vectors have in common; None while the collection does not exist."""
        return self._collection.facts()

    def count(self) -> int:
        """The number of texts; 0 while the collection does not exist."""
        return self._collection.count()

    def upsert(
        self,
        embedder: Embedder,
        texts: Iterable[str],
        payloads: Iterable[Mapping[str, Any]] | None = None,
        *,
        hybrid: bool = False,
        prompt: str | None = None,
        prompt_name: str | None = None,
        normalize: bool | None = None,
        dimensions: int | None = None,
        max_tokens: int | None = None,
        update_index: bool = True,
    ) -> int:
        """Embed texts and store them; the first call makes the collection.

        Texts are stored 1,000 at a time, each batch as a whole, so that the same call may be repeated. Any number of
        them is stored in bounded memory.

        Args:
            embedder: the model of all vectors of the collection.
            texts: an iterable of str.
            payloads: for each text a mapping that is stored with it as JSON. Its member "id", unless it is None or
                empty, names the text's point; else the text does. A point of the same name is replaced.
            hybrid: store the model's sparse vectors, too, as BGE-M3 makes them.
            prompt: the text to put before each; by default the model's prompt for documents, if it has one.
            prompt_name: one of the embedder's prompts instead.
            normalize: to length 1; None: where truncated to `dimensions`, else as the model says.
            dimensions: the first of each vector; None: as the model says, else all.
            max_tokens: longer texts are truncated; None: as many as the model takes.
            update_index: make the approximate index at the end, where there is none and it is worth it. False:
                update_index() is called later, after many small calls.

        Returns:
            The number of texts.

        Raises:
            gpux.InvalidInput (vectors of another model, dimension, distance or prompt than those there; a payload that
            is not JSON; another number of payloads than of texts), gpux.Usage (options that the model cannot meet).
        """
        if isinstance(texts, str):
            raise Usage("upsert() takes an iterable of texts, and not one")
        _require_type("embedder", embedder, Embedder)
        prompts = prompt_for(embedder, prompt, prompt_name, "document", "passage", "corpus")
        options = embedding_options(*prompts, normalize, dimensions, max_tokens)
        count = 0
        # One chunk at least: no texts make an empty collection.
        for chunk in _chunks(texts, payloads):
            count += self._collection.upsert(embedder._embedder, chunk, options, hybrid)  # pyright: ignore[reportPrivateUsage]
        if update_index:
            self._collection.update_index()
        return count

    def update_index(self) -> None:
        """Make the approximate index, where there is none and it is worth it.

        Raises:
            gpux.NotFound where the collection does not exist.
        """
        self._collection.update_index()

    def search(
        self,
        embedder: Embedder,
        query: str,
        count: int = 10,
        *,
        where: Mapping[str, str | int | float | bool | None] | None = None,
        exact: bool = False,
        hybrid: bool = False,
        reranker: Pipeline | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
        normalize: bool | None = None,
        dimensions: int | None = None,
        max_tokens: int | None = None,
    ) -> list[_gpux.CollectionHit]:
        """The texts nearest to a query, nearest first.

        Args:
            embedder: the model that made the vectors.
            query: a text.
            count: the maximum of hits.
            where: only texts whose payload has all of these values. Keys are paths: {"kind": "shoe", "meta.size": 3}.
                Of a list in a payload, one element is enough.
            exact: compare every vector instead of using the approximate index.
            hybrid: search the sparse vectors, too, and fuse both lists by reciprocal ranks.
            reranker: a cross-encoder (task text-ranking) that ranks what was found; scores are its own.
            prompt: the text to put before the query; by default the model's prompt for queries, if it has one.
            prompt_name: one of the embedder's prompts instead.
            normalize: as for upsert().
            dimensions: as for upsert().
            max_tokens: as for upsert().

        Raises:
            gpux.NotFound (the collection does not exist), gpux.InvalidInput (another model made its vectors),
            gpux.Usage (a hybrid search in a collection of dense vectors; a reranker that ranks no texts).
        """
        _require_type("embedder", embedder, Embedder)
        if reranker is not None:
            _require_type("reranker", reranker, Pipeline)
        _require_text(query)
        prompts = prompt_for(embedder, prompt, prompt_name, "query")
        embedding = embedding_options(*prompts, normalize, dimensions, max_tokens)
        options = _gpux.CollectionSearchOptions(_count(count), _conditions(where), exact, hybrid, embedding)
        ranker = None if reranker is None else reranker._pipeline  # pyright: ignore[reportPrivateUsage]
        return self._collection.search(embedder._embedder, query, options, ranker)  # pyright: ignore[reportPrivateUsage]

    def search_vector(
        self,
        vector: ArrayLike,
        count: int = 10,
        *,
        where: Mapping[str, str | int | float | bool | None] | None = None,
        exact: bool = False,
    ) -> list[_gpux.CollectionHit]:
        """The texts nearest to a vector, which is compared as it is.

        Args:
            vector: numbers of [dimension].
            count: the maximum of hits.
            where: as for search().
            exact: as for search().

        Raises:
            gpux.NotFound (the collection does not exist); gpux.InvalidInput where the vector has another dimension, is
            all zeros ("cosine") or not finite.
        """
        try:
            elements = np.ascontiguousarray(vector, np.float32)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"a vector is an array of numbers: {error}") from error
        options = _gpux.CollectionSearchOptions(_count(count), _conditions(where), exact, False, None)
        return self._collection.search_vector(elements, options)

    def close(self) -> None:
        """Close the connection or the file. Calls in flight end first; later ones raise gpux.Usage."""
        self._collection.close()


def _chunks(texts: Iterable[str], payloads: Iterable[Mapping[str, Any]] | None) -> Iterator[list[tuple[str, str]]]:
    pairs = _pairs(texts, payloads)
    yield list(islice(pairs, _texts_per_chunk))
    while chunk := list(islice(pairs, _texts_per_chunk)):
        yield chunk


def _pairs(texts: Iterable[str], payloads: Iterable[Mapping[str, Any]] | None) -> Iterator[tuple[str, str]]:
    given: Iterator[Mapping[str, Any]] = repeat({}) if payloads is None else iter(payloads)
    for text in texts:
        _require_text(text)
        payload = next(given, _end)
        if payload is _end:
            raise InvalidInput("there are fewer payloads than texts")
        yield text, _json(payload)
    if payloads is not None and next(given, _end) is not _end:
        raise InvalidInput("there are more payloads than texts")


def _require_type(name: str, value: object, wanted: type) -> None:
    if not isinstance(value, wanted):
        raise Usage(f"{name} is a {type(value).__name__}, and not a gpux.{wanted.__name__}")


def _require_text(text: object) -> None:
    if not isinstance(text, str):
        raise InvalidInput(f"a text is a {type(text).__name__}, and not a str")
    require_unicode(text)


def _json(payload: Mapping[str, Any]) -> str:
    if not isinstance(payload, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"a payload is a {type(payload).__name__}, and not a mapping")
    try:
        written = json.dumps(dict(payload), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"a payload is a mapping of JSON values: {error}") from error
    require_unicode(written)
    return written


def _conditions(where: Mapping[str, str | int | float | bool | None] | None) -> list[str]:
    if where is not None and not isinstance(where, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Usage(f"where is a {type(where).__name__}, and not a mapping")
    conditions: list[str] = []
    for key, value in (where or {}).items():
        if not isinstance(key, str) or "=" in key:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Usage(f"where: the key {key!r} is not a str without '='")
        if isinstance(value, Mapping | list | tuple):
            raise Usage(f"where: {key} is a {type(value).__name__}, and not a str, a number, a bool or None")
        conditions.append(f"{key}={_json({'': value})[5:-1]}")
    return conditions


def _count(count: int) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Usage(f"count is {count!r}, and not a whole number from 1")
    return count


__all__ = ["Collection"]
