"""An embedding model for LlamaIndex. Needs the extra: gpux[llama-index]."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

try:
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.embeddings import BaseEmbedding
except ImportError as error:
    raise ImportError(
        "gpux.integrations.llama_index needs llama-index-core: install gpux with its extra, gpux[llama-index]"
    ) from error

from gpux.embedder import Embedder

if TYPE_CHECKING:
    import os


class GpuxEmbedding(BaseEmbedding):
    """LlamaIndex's BaseEmbedding by a gpux.Embedder.

    Texts and queries get the model's prompts for them, if it has any.

    Args:
        model: a model as for gpux.Embedder, or an embedder.
        normalize, dimensions, max_tokens: as for gpux.Embedder.encode().
        embed_batch_size: texts per call of LlamaIndex's; it changes no embedding.
        arguments: further arguments of gpux.Embedder: provider, precision, …

    Raises:
        gpux.Error, as gpux.Embedder does.
    """

    _embedder: Embedder = PrivateAttr()
    _encoding: dict[str, Any] = PrivateAttr()

    def __init__(
        self,
        model: str | os.PathLike[str] | Embedder,
        *,
        normalize: bool | None = None,
        dimensions: int | None = None,
        max_tokens: int | None = None,
        embed_batch_size: int = 512,
        **arguments: Any,
    ) -> None:
        name = "gpux" if isinstance(model, Embedder) else str(model)
        super().__init__(model_name=name, embed_batch_size=embed_batch_size)
        self._embedder = model if isinstance(model, Embedder) else Embedder(model, **arguments)
        self._encoding = {"normalize": normalize, "dimensions": dimensions, "max_tokens": max_tokens}

    @classmethod
    def class_name(cls) -> str:
        """The name under which LlamaIndex stores it."""
        return "GpuxEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._embedder.encode_query(query, **self._encoding).tolist()  # type: ignore[no-any-return]

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._embedder.encode_document(text, **self._encoding).tolist()  # type: ignore[no-any-return]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._embedder.encode_document(texts, **self._encoding).tolist()  # type: ignore[no-any-return]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)


__all__ = ["GpuxEmbedding"]
