"""Embeddings of texts."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from gpux import _gpux
from gpux._closing import Closing
from gpux._options import Isolation, Options, Sandbox, Strict, model_options
from gpux.errors import InvalidInput, Usage
from gpux.image_embedder import Image, ImageEmbedder
from gpux.runtime import path_of, require_unicode

if TYPE_CHECKING:
    import os

    from numpy.typing import ArrayLike, NDArray

Batching: TypeAlias = Literal["exact", "throughput"]
"""Which texts may share a run.

"exact": only where each embedding is bit-identical to that of the text alone. "throughput": wherever it is faster; the
last digits may depend on the other texts.
"""

SimilarityName: TypeAlias = Literal["cosine", "dot", "euclidean", "manhattan"]
"""How embeddings are compared, as sentence-transformers names it."""

# Texts that are taken from an iterator at a time: enough to keep all processors busy.
_texts_per_chunk = 8192
_characters_per_chunk = 32_000_000


def _chunks(iterator: Iterator[str]) -> Iterator[list[str]]:
    """The texts in lists of bounded size."""
    while chunk := list(islice(iterator, 1)):
        characters = _length(chunk[0])
        for text in islice(iterator, _texts_per_chunk - 1):
            chunk.append(text)
            characters += _length(text)
            if characters >= _characters_per_chunk:
                break
        yield chunk


def _length(text: object) -> int:
    if not isinstance(text, str):
        raise InvalidInput(f"a text is a {type(text).__name__}, and not a str")
    require_unicode(text)
    return len(text)


class _Progress:
    """A line on standard error that is written over until the end."""

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._before = 0
        self._done = 0

    def show(self, done: int) -> None:
        self._done = self._before + done
        of = f" of {self._total}" if self._total is not None else ""
        print(f"\rgpux: {self._done}{of} texts", end="", file=sys.stderr, flush=True)

    def end_chunk(self) -> None:
        self._before = self._done

    def end(self) -> None:
        print(file=sys.stderr)


class Embedder(Closing):
    """Makes embeddings of texts, bit-identical to those of `gpux embed`.

    May be used from several threads at once; encoding does not hold the GIL. Ctrl-C ends it. As a context manager, the
    embedder is closed at the end.

    Args:
        model: a folder with tokenizer.json and model.onnx, or a name in the store. `gpux.Store().import_folder()` makes
            one of a folder with safetensors.
        provider: as for gpux.Runtime.
        precision: "fp32", "int8", …; None: the provider's default.
        batching: which texts may share a run. "exact": only where each embedding is bit-identical to that of the text
            alone. "throughput": wherever it is faster; the last digits may depend on the other texts. None:
            "throughput" on a GPU or NPU, else "exact".
        workers: threads; 0: as many as keep the processors busy.
        strict, threads, memory_limit, isolation, sandbox, timeout, options: as for gpux.Runtime.

    Raises:
        Those of gpux.Runtime; gpux.InvalidModel where the model has no tokenizer. All calls but close() raise
        gpux.Usage after close().
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        provider: str = "auto",
        *,
        precision: str | None = None,
        batching: Batching | None = None,
        workers: int = 0,
        strict: Strict = False,
        threads: int | None = None,
        memory_limit: int | str | None = None,
        isolation: Isolation | None = None,
        sandbox: Sandbox | None = None,
        timeout: float | None = None,
        options: Options | None = None,
    ) -> None:
        settings = model_options(
            None if provider == "auto" else provider,
            strict=strict,
            threads=threads,
            memory_limit=memory_limit,
            isolation=isolation,
            sandbox=sandbox,
            timeout=timeout,
            options=options,
        )
        if precision is not None:
            settings["precision"] = precision
        if isinstance(workers, bool) or not 0 <= workers < 2**16:
            raise Usage(f"workers is {workers!r}, and not a number of threads")
        self._embedder = _gpux.LoadedEmbedder(path_of(model), settings, batching, workers)
        self._images: ImageEmbedder | None = None
        self._images_lock = threading.Lock()
        self._open_images = partial(
            ImageEmbedder,
            model,
            provider,
            precision=precision,
            workers=workers,
            strict=strict,
            threads=threads,
            memory_limit=memory_limit,
            isolation=isolation,
            sandbox=sandbox,
            timeout=timeout,
            options=options,
        )

    @property
    def dimension(self) -> int:
        """Elements of an embedding unless `dimensions` says another number."""
        return self._embedder.dimension

    @property
    def prompts(self) -> dict[str, str]:
        """The model's prompts: name and text."""
        return dict(self._embedder.prompts)

    @property
    def similarity_fn_name(self) -> SimilarityName:
        """How the model's embeddings are compared, as gpux.search() does; "cosine" unless its folder says otherwise."""
        return cast("SimilarityName", self._embedder.similarity)

    @property
    def digest(self) -> str:
        """SHA-256 of the ONNX file that runs: embeddings of different models cannot be compared."""
        return self._embedder.digest

    @property
    def verdict(self) -> _gpux.Verdict:
        """Which provider runs the model, and why."""
        return self._embedder.verdict

    def encode(
        self,
        texts: str | Iterable[str],
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        normalize: bool | None = None,
        dimensions: int | None = None,
        max_tokens: int | None = None,
        show_progress_bar: bool = False,
    ) -> NDArray[np.float32]:
        """Embed one text, or any number of them.

        Args:
            texts: a str, or an iterable of str. Of an iterator, a bounded number of texts is in memory at a time.
            prompt: text before each text; None: the model's default.
            prompt_name: one of `prompts` instead.
            normalize: to length 1; None: where truncated to `dimensions`, else as the model says.
            dimensions: the first of each embedding; None: as the model says, else all.
            max_tokens: longer texts are truncated; None: as many as the model takes.
            show_progress_bar: on standard error.

        Returns:
            float32 of [dimensions] for a str, else of [number of texts, dimensions].

        Raises:
            gpux.InvalidInput (no token, not a str), gpux.Usage (options that the model cannot meet),
            gpux.DeadlineExceeded, gpux.ResourceExhausted.
        """
        options = embedding_options(prompt, prompt_name, normalize, dimensions, max_tokens)
        if isinstance(texts, str):
            require_unicode(texts)
            return self._embedder.encode_one(texts, options)
        parts = list(self._encoded(texts, options, show_progress_bar))
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return self._embedder.encode([], options, None)
        return np.concatenate(parts)

    def encode_stream(
        self,
        texts: Iterable[str],
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        normalize: bool | None = None,
        dimensions: int | None = None,
        max_tokens: int | None = None,
        show_progress_bar: bool = False,
    ) -> Iterator[NDArray[np.float32]]:
        """Embed any number of texts in bounded memory.

        Arguments and errors are those of encode(). An error is raised when the iterator reaches the texts that cause
        it.

        Returns:
            An iterator of embeddings, float32 of [dimensions], in the order of the texts.
        """
        if isinstance(texts, str):
            raise Usage("encode_stream() takes an iterable of texts: encode() takes one text")
        options = embedding_options(prompt, prompt_name, normalize, dimensions, max_tokens)
        return (row for rows in self._encoded(texts, options, show_progress_bar) for row in rows)

    def encode_query(self, texts: str | Iterable[str], **arguments: Any) -> NDArray[np.float32]:
        """encode() with the model's prompt for queries, if it has one and no other is given.

        Args:
            texts: as for encode().
            arguments: those of encode().
        """
        return self.encode(texts, **_with_prompt(self, arguments, "query"))

    def encode_document(self, texts: str | Iterable[str], **arguments: Any) -> NDArray[np.float32]:
        """encode() with the model's prompt for documents, if it has one and no other is given.

        Args:
            texts: as for encode().
            arguments: those of encode().
        """
        return self.encode(texts, **_with_prompt(self, arguments, "document", "passage", "corpus"))

    def encode_images(
        self, images: Iterable[Image], *, normalize: bool | None = None, dimensions: int | None = None
    ) -> NDArray[np.float32]:
        """Embed images with the image tower of a model of texts and images (CLIP, SigLIP).

        The tower is loaded by the first call. gpux.ImageEmbedder is for models of images alone.

        Args:
            images: an iterable of paths, bytes of files, uint8 arrays of [height, width, 3], or images of Pillow.
            normalize: to length 1; None: where truncated to `dimensions`, else as the model says.
            dimensions: the first of each embedding; None: as the model says, else all.

        Returns:
            float32 of [number of images, dimensions], in the space of the texts.

        Raises:
            Those of gpux.ImageEmbedder and its encode().
        """
        with self._images_lock:
            _ = self._embedder.dimension  # gpux.Usage after close()
            if self._images is None:
                self._images = self._open_images()
            embedder = self._images
        return embedder.encode(images, normalize=normalize, dimensions=dimensions)

    @staticmethod
    def similarity(first: ArrayLike, second: ArrayLike) -> NDArray[np.float32]:
        """Cosine similarities of each row of one matrix with each row of another, -1 to 1.

        Args:
            first: numbers of [rows, dimensions], or of [dimensions], which counts as one row.
            second: numbers of the same dimensions.

        Returns:
            float32 of [rows of `first`, rows of `second`]. A row of zeros has the similarity 0.

        Raises:
            gpux.InvalidInput where the dimensions differ.
        """
        rows = [np.atleast_2d(np.asarray(one, np.float32)) for one in (first, second)]
        if rows[0].shape[1] != rows[1].shape[1]:
            raise InvalidInput(f"the vectors have {rows[0].shape[1]} and {rows[1].shape[1]} dimensions")
        lengths = [np.maximum(np.linalg.norm(one, axis=1, keepdims=True), np.finfo(np.float32).tiny) for one in rows]
        scores: NDArray[np.float32] = (rows[0] / lengths[0]) @ (rows[1] / lengths[1]).T
        return scores

    def close(self) -> None:
        """Release the model. Calls in flight end first; later ones raise gpux.Usage."""
        self._embedder.close()
        with self._images_lock:
            if self._images is not None:
                self._images.close()

    def _encoded(
        self, texts: Iterable[str], options: _gpux.EmbeddingOptions, show_progress: bool
    ) -> Iterator[NDArray[np.float32]]:
        try:
            chunks = _chunks(iter(texts))
        except TypeError as error:
            raise InvalidInput(
                f"the texts are a {type(texts).__name__}, and not a str or an iterable of str"
            ) from error
        progress = _Progress(len(texts) if isinstance(texts, Sequence) else None) if show_progress else None
        try:
            for chunk in chunks:
                report: Callable[[int], object] | None = progress.show if progress else None
                yield self._embedder.encode(chunk, options, report)
                if progress:
                    progress.end_chunk()
        finally:
            if progress:
                progress.end()


def _with_prompt(embedder: Embedder, arguments: dict[str, Any], *names: str) -> dict[str, Any]:
    _, prompt_name = prompt_for(embedder, arguments.get("prompt"), arguments.get("prompt_name"), *names)
    return arguments if prompt_name is None else {**arguments, "prompt_name": prompt_name}


def prompt_for(
    embedder: Embedder, prompt: str | None, prompt_name: str | None, *names: str
) -> tuple[str | None, str | None]:
    """What is given, else the first of the names that the model has a prompt of."""
    if prompt is None and prompt_name is None:
        known = embedder.prompts
        return None, next((name for name in names if known.get(name)), None)
    return prompt, prompt_name


def embedding_options(
    prompt: str | None, prompt_name: str | None, normalize: bool | None, dimensions: int | None, max_tokens: int | None
) -> _gpux.EmbeddingOptions:
    """How texts become embeddings, as the library takes it."""
    for name, number in (("dimensions", dimensions), ("max_tokens", max_tokens)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Usage(f"{name} is {number!r}, and not a whole number from 1")
    return _gpux.EmbeddingOptions(prompt, prompt_name or "", max_tokens or 0, dimensions or 0, normalize)


__all__ = ["Batching", "Embedder", "SimilarityName"]
