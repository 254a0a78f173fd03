"""A class that sentence-transformers' evaluators, losses' miners and other tools can use in place of its own.

Importing it does not import sentence-transformers, nor torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from gpux.embedder import Embedder, SimilarityName
from gpux.errors import Usage

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

Precision = Literal["float32", "int8", "uint8", "binary", "ubinary"]
"""sentence-transformers' names of element types. gpux makes float32."""


class _ModelCardData:
    """Where evaluators leave their results."""

    def __init__(self) -> None:
        self.evaluations: list[tuple[Any, dict[str, float], int, int]] = []

    def set_evaluation_metrics(self, evaluator: Any, metrics: dict[str, float], epoch: int = 0, step: int = 0) -> None:
        self.evaluations.append((evaluator, dict(metrics), epoch, step))


class SentenceTransformer:
    """The part of sentence_transformers.SentenceTransformer that makes embeddings, by a gpux.Embedder.

    encode() returns numpy arrays, or torch tensors with `convert_to_tensor`. `batch_size` and `device` are accepted and
    change nothing: the embedder decides which texts share a run, and its provider where.

    Args:
        model_name_or_path: a model as for gpux.Embedder, or an embedder.
        truncate_dim: the first elements of each embedding; None: as the model says, else all.
        similarity_fn_name: "cosine", "dot", or "euclidean" and "manhattan", which are negative distances; None: as the
            model says, else "cosine".
        arguments: further arguments of gpux.Embedder: provider, precision, …

    Raises:
        gpux.Error, as gpux.Embedder does.
    """

    def __init__(
        self,
        model_name_or_path: str | os.PathLike[str] | Embedder,
        *,
        truncate_dim: int | None = None,
        similarity_fn_name: SimilarityName | None = None,
        **arguments: Any,
    ) -> None:
        if similarity_fn_name is not None and similarity_fn_name not in get_args(SimilarityName):
            raise Usage(
                f"similarity_fn_name is {similarity_fn_name!r}; accepted: {', '.join(get_args(SimilarityName))}"
            )
        self.embedder = (
            model_name_or_path
            if isinstance(model_name_or_path, Embedder)
            else Embedder(model_name_or_path, **arguments)
        )
        self.truncate_dim = truncate_dim
        self.similarity_fn_name: SimilarityName = similarity_fn_name or self.embedder.similarity_fn_name
        self.model_card_data = _ModelCardData()

    @property
    def prompts(self) -> dict[str, str]:
        """The model's prompts: name and text."""
        return self.embedder.prompts

    def encode(
        self,
        sentences: str | Sequence[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,  # noqa: ARG002
        show_progress_bar: bool | None = None,
        output_value: str | None = "sentence_embedding",
        precision: Precision | None = "float32",
        convert_to_numpy: bool = True,  # noqa: ARG002
        convert_to_tensor: bool = False,
        device: object = None,  # noqa: ARG002
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
    ) -> Any:
        """Embed texts: float32 of [dimensions] for a str, else of [number of texts, dimensions].

        Args:
            sentences: a str, or a list of str.
            prompt_name: one of `prompts`.
            prompt: text before each text instead.
            batch_size: has no effect.
            show_progress_bar: on standard error.
            output_value: "sentence_embedding".
            precision: "float32", or None, which means the same.
            convert_to_numpy: has no effect: `convert_to_tensor` decides.
            convert_to_tensor: return a torch tensor.
            device: has no effect.
            normalize_embeddings: to length 1; False: as the model says.
            truncate_dim: the first elements of each embedding; None: that of the constructor.

        Raises:
            gpux.InvalidInput (no str), gpux.Usage (token embeddings and quantized embeddings, which gpux does not make
            here).
        """
        if output_value != "sentence_embedding" or precision not in ("float32", None):
            raise Usage(
                f"output_value {output_value!r} with precision {precision!r} is not supported: float32 embeddings are"
            )
        return self._finished(
            self.embedder.encode(
                sentences,
                **self._arguments(prompt, prompt_name, show_progress_bar, normalize_embeddings, truncate_dim),
            ),
            convert_to_tensor,
        )

    def encode_query(self, sentences: str | Sequence[str], prompt_name: str | None = None, **arguments: Any) -> Any:
        """encode() with the model's prompt for queries, if it has one and no other is given."""
        return self.encode(sentences, prompt_name or self._prompt_of(arguments, "query"), **arguments)

    def encode_document(self, sentences: str | Sequence[str], prompt_name: str | None = None, **arguments: Any) -> Any:
        """encode() with the model's prompt for documents, if it has one and no other is given."""
        return self.encode(
            sentences, prompt_name or self._prompt_of(arguments, "document", "passage", "corpus"), **arguments
        )

    @property
    def similarity(self) -> Callable[[Any, Any], Any]:
        """A function: the similarities of all pairs of rows of two matrices. Torch tensors give a torch tensor."""

        def of(first: Any, second: Any) -> Any:
            rows = [np.atleast_2d(np.asarray(one, np.float32)) for one in (first, second)]
            if self.similarity_fn_name == "cosine":
                return self._like(first, Embedder.similarity(*rows))
            if self.similarity_fn_name == "dot":
                return self._like(first, rows[0] @ rows[1].T)
            return self._like(first, np.stack([self._nearness(row, rows[1]) for row in rows[0]]))

        return of

    @property
    def similarity_pairwise(self) -> Callable[[Any, Any], Any]:
        """A function: the similarity of each row with that of the same index. Torch tensors give a torch tensor."""

        def of(first: Any, second: Any) -> Any:
            left, right = (np.atleast_2d(np.asarray(one, np.float32)) for one in (first, second))
            if self.similarity_fn_name in ("euclidean", "manhattan"):
                return self._like(first, self._nearness(left, right))
            scores = (left * right).sum(1)
            if self.similarity_fn_name == "cosine":
                scores /= np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
            return self._like(first, scores)

        return of

    def get_sentence_embedding_dimension(self) -> int:
        """Elements of an embedding."""
        return self.truncate_dim or self.embedder.dimension

    get_embedding_dimension = get_sentence_embedding_dimension

    def truncate_sentence_embeddings(self, truncate_dim: int | None) -> Any:
        """A context in which embeddings have this many elements; evaluators use it."""
        import contextlib

        @contextlib.contextmanager
        def truncated() -> Any:
            before, self.truncate_dim = self.truncate_dim, truncate_dim
            try:
                yield
            finally:
                self.truncate_dim = before

        return truncated()

    def _arguments(
        self,
        prompt: str | None,
        prompt_name: str | None,
        progress: bool | None,
        normalize: bool,
        dimensions: int | None,
    ) -> dict[str, Any]:
        kept = dimensions if dimensions is not None else self.truncate_dim
        return {
            "prompt": prompt,
            "prompt_name": prompt_name,
            "show_progress_bar": bool(progress),
            # sentence-transformers truncates without normalizing again, unless it is told to.
            "normalize": True if normalize else None if kept is None else False,
            "dimensions": kept,
        }

    def _prompt_of(self, arguments: dict[str, Any], *names: str) -> str | None:
        if arguments.get("prompt") is None:
            for name in names:
                if self.prompts.get(name):
                    return name
        return None

    def _nearness(self, left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
        """The negative distances of rows."""
        order = 1 if self.similarity_fn_name == "manhattan" else 2
        distances: NDArray[np.float32] = np.linalg.norm(left - right, ord=order, axis=-1)
        return -distances

    @staticmethod
    def _finished(vectors: NDArray[np.float32], as_tensor: bool) -> Any:
        if not as_tensor:
            return vectors
        import torch

        return torch.from_numpy(vectors)

    @staticmethod
    def _like(model: Any, scores: NDArray[np.float32]) -> Any:
        if type(model).__module__.partition(".")[0] != "torch":
            return scores
        import torch

        return torch.from_numpy(scores)


__all__ = ["SentenceTransformer"]
