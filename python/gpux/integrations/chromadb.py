"""An embedding function for Chroma. Needs the extra: gpux[chromadb]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from chromadb.api.types import EmbeddingFunction
    from chromadb.utils.embedding_functions import register_embedding_function
except ImportError as error:
    raise ImportError(
        "gpux.integrations.chromadb needs chromadb: install gpux with its extra, gpux[chromadb]"
    ) from error

from gpux.embedder import Embedder
from gpux.errors import Usage
from gpux.runtime import path_of

if TYPE_CHECKING:
    import os

    import numpy as np
    from numpy.typing import NDArray

_encoding_names = ("normalize", "dimensions", "max_tokens")


@register_embedding_function
class GpuxEmbeddingFunction(EmbeddingFunction[list[str]]):
    """Chroma's EmbeddingFunction by a gpux.Embedder.

    A collection keeps the model's name and the arguments, and makes the function again when it is opened. Queries get
    the model's prompt for queries, if it has one.

    Args:
        model: a model as for gpux.Embedder.
        arguments: of gpux.Embedder (provider, precision, …) and of its encode() (normalize, dimensions, max_tokens),
            of types that JSON has.

    Raises:
        gpux.Error, as gpux.Embedder does.
    """

    def __init__(self, model: str | os.PathLike[str], **arguments: Any) -> None:
        self._model = path_of(model)
        self._arguments = arguments
        self._encoding = {key: value for key, value in arguments.items() if key in _encoding_names}
        self._embedder = Embedder(
            model, **{key: value for key, value in arguments.items() if key not in _encoding_names}
        )

    def __call__(self, input: list[str]) -> list[NDArray[np.float32]]:  # noqa: A002
        """One embedding per document: float32 of [dimensions]."""
        return list(self._embedder.encode_document(input, **self._encoding))

    def embed_query(self, input: list[str]) -> list[NDArray[np.float32]]:  # noqa: A002
        """One embedding per query: float32 of [dimensions]."""
        return list(self._embedder.encode_query(input, **self._encoding))

    @staticmethod
    def name() -> str:
        """The name under which Chroma stores it."""
        return "gpux"

    def get_config(self) -> dict[str, Any]:
        """What Chroma keeps with a collection."""
        return {"model": self._model, "arguments": self._arguments}

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> GpuxEmbeddingFunction:
        """The function of a collection that is opened again."""
        return GpuxEmbeddingFunction(config["model"], **config.get("arguments", {}))

    def validate_config_update(self, old_config: dict[str, Any], new_config: dict[str, Any]) -> None:
        """Refuse another model for vectors that exist."""
        if old_config.get("model") != new_config.get("model"):
            raise Usage("the vectors of a collection are of one model: make another collection")

    @staticmethod
    def validate_config(config: dict[str, Any]) -> None:
        """Refuse what get_config() does not write."""
        if not isinstance(config.get("model"), str) or not isinstance(config.get("arguments", {}), dict):
            raise Usage(f"{config!r} is not a configuration of this embedding function")

    def default_space(self) -> str:  # type: ignore[override]
        """As the model says, "ip" or "l2"; else "cosine"."""
        return {"dot": "ip", "euclidean": "l2"}.get(self._embedder.similarity_fn_name, "cosine")

    def supported_spaces(self) -> list[str]:  # type: ignore[override]
        """All of Chroma's."""
        return ["cosine", "l2", "ip"]


__all__ = ["GpuxEmbeddingFunction"]
