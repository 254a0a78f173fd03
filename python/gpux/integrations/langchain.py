"""Embeddings for LangChain. Needs the extra: gpux[langchain]."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

try:
    from langchain_core.embeddings import Embeddings
except ImportError as error:
    raise ImportError(
        "gpux.integrations.langchain needs langchain-core: install gpux with its extra, gpux[langchain]"
    ) from error

from gpux.embedder import Embedder

if TYPE_CHECKING:
    import os


class GpuxEmbeddings(Embeddings):
    """LangChain's Embeddings by a gpux.Embedder.

    Documents and queries get the model's prompts for them, if it has any. May be used from several threads at once.

    Args:
        model: a model as for gpux.Embedder, or an embedder.
        normalize, dimensions, max_tokens: as for gpux.Embedder.encode().
        arguments: further arguments of gpux.Embedder: provider, precision, …

    Raises:
        gpux.Error, as gpux.Embedder does.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Embedder,
        *,
        normalize: bool | None = None,
        dimensions: int | None = None,
        max_tokens: int | None = None,
        **arguments: Any,
    ) -> None:
        self.embedder = model if isinstance(model, Embedder) else Embedder(model, **arguments)
        self._encoding = {"normalize": normalize, "dimensions": dimensions, "max_tokens": max_tokens}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One embedding per text, in order: lists of [dimensions] numbers."""
        return self.embedder.encode_document(texts, **self._encoding).tolist()  # type: ignore[no-any-return]

    def embed_query(self, text: str) -> list[float]:
        """The embedding of a query: [dimensions] numbers."""
        return self.embedder.encode_query(text, **self._encoding).tolist()  # type: ignore[no-any-return]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """embed_documents() without blocking the event loop."""
        return await asyncio.to_thread(self.embed_documents, texts)

    async def aembed_query(self, text: str) -> list[float]:
        """embed_query() without blocking the event loop."""
        return await asyncio.to_thread(self.embed_query, text)


__all__ = ["GpuxEmbeddings"]
