"""Embeddings of images."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from gpux import _gpux
from gpux._closing import Closing
from gpux._options import Isolation, Options, Sandbox, Strict, model_options
from gpux.errors import InvalidInput, Usage
from gpux.runtime import path_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

Image: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | NDArray[np.uint8] | Any"
"""An image: a path, the bytes of a JPEG, PNG or WebP file, an array, or an image of Pillow.

An array is uint8 of [height, width, 3], red, green, blue. An image of Pillow is converted to RGB as it is: its EXIF
orientation is not applied, as that of a file is.
"""


def _is_pillow(image: object) -> bool:
    return any(kind.__module__ == "PIL.Image" for kind in type(image).__mro__)


def _as_image(image: Any) -> object:
    """What the extension takes: a str is a path, bytes are a file, and an array has pixels."""
    if isinstance(image, str | os.PathLike):
        return path_of(cast("str | os.PathLike[str]", image))
    if isinstance(image, bytes | bytearray | memoryview):
        return bytes(cast("bytes", image))
    if isinstance(image, np.ndarray):
        return np.ascontiguousarray(cast("NDArray[np.uint8]", image))
    if _is_pillow(image):
        pixels: NDArray[np.uint8] = np.asarray(image.convert("RGB"), np.uint8)
        return np.ascontiguousarray(pixels)
    raise InvalidInput(
        f"an image is a {type(image).__name__}; accepted: a path, bytes, a uint8 array of [height, width, 3], an image "
        "of Pillow"
    )


def as_images(images: Iterable[Image]) -> list[object]:
    """What the extension takes of several images."""
    if isinstance(images, str | os.PathLike | bytes | bytearray | memoryview | np.ndarray) or _is_pillow(images):
        raise Usage("the images are one image: give a list")
    return [_as_image(image) for image in images]


class ImageEmbedder(Closing):
    """Makes embeddings of images, bit-identical to those of `gpux embed`.

    May be used from several threads at once; encoding does not hold the GIL. As a context manager, the embedder is
    closed at the end. With a model of texts and images, gpux.Embedder makes embeddings of texts in the same space.

    Args:
        model: a folder or a name in the store, whose gpux.yml says how images become the input.
            `gpux.Store().import_folder()` makes one of a folder of CLIP, SigLIP, ViT or DINOv2.
        provider: as for gpux.Runtime.
        precision: "fp32", …; None: the provider's default.
        workers: threads; 0: as many as keep the processors busy.
        strict, threads, memory_limit, isolation, sandbox, timeout, options: as for gpux.Runtime.

    Raises:
        Those of gpux.Runtime; gpux.Usage where the model takes no images. All calls but close() raise gpux.Usage after
        close().
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        provider: str = "auto",
        *,
        precision: str | None = None,
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
        self._embedder = _gpux.LoadedImageEmbedder(path_of(model), settings, workers)

    @property
    def dimension(self) -> int:
        """Elements of an embedding unless `dimensions` says another number."""
        return self._embedder.dimension

    @property
    def digest(self) -> str:
        """SHA-256 of the ONNX file that runs, or of the digests of both towers."""
        return self._embedder.digest

    @property
    def verdict(self) -> _gpux.Verdict:
        """Which provider runs the model, and why."""
        return self._embedder.verdict

    def encode(
        self, images: Iterable[Image], *, normalize: bool | None = None, dimensions: int | None = None
    ) -> NDArray[np.float32]:
        """Embed any number of images.

        Args:
            images: an iterable of paths, bytes of files, uint8 arrays of [height, width, 3], or images of Pillow.
            normalize: to length 1; None: where truncated to `dimensions`, else as the model says.
            dimensions: the first of each embedding; None: as the model says, else all.

        Returns:
            float32 of [number of images, dimensions].

        Raises:
            gpux.InvalidInput (no image, or one that gpux does not read), gpux.NotFound, gpux.Usage (options that the
            model cannot meet), gpux.DeadlineExceeded, gpux.ResourceExhausted.
        """
        taken = as_images(images)
        whole = isinstance(dimensions, int) and not isinstance(dimensions, bool)
        if dimensions is not None and (not whole or dimensions < 1):
            raise Usage(f"dimensions is {dimensions!r}, and not a whole number from 1")
        return self._embedder.encode(taken, dimensions or 0, normalize)

    def close(self) -> None:
        """Release the model. Calls in flight end first; later ones raise gpux.Usage."""
        self._embedder.close()


__all__ = ["Image", "ImageEmbedder"]
