"""Images by labels of the caller's choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpux import _gpux
from gpux._closing import Closing
from gpux._options import Isolation, Options, Sandbox, Strict, model_options
from gpux.errors import InvalidInput
from gpux.image_embedder import Image, as_images
from gpux.runtime import path_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable


class ZeroShotImageClassifier(Closing):
    """Classifies images by labels of the caller's choice, as `gpux run --labels`.

    May be used from several threads at once; a run does not hold the GIL. As a context manager, the classifier is
    closed at the end.

    Args:
        model: a folder or a name in the store, of a model of texts and images (CLIP, SigLIP).
        labels: at least one, none twice.
        provider: as for gpux.Runtime.
        label_template: the text of a label, which replaces {}; None: the model's.
        strict, threads, memory_limit, isolation, sandbox, timeout, options: as for gpux.Runtime.

    Raises:
        Those of gpux.ImageEmbedder; gpux.InvalidInput (labels or template), gpux.InvalidConfig (gpux.yml does not say
        how scores are made). All calls but close() raise gpux.Usage after close().
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        labels: Iterable[str],
        provider: str = "auto",
        *,
        label_template: str | None = None,
        strict: Strict = False,
        threads: int | None = None,
        memory_limit: int | str | None = None,
        isolation: Isolation | None = None,
        sandbox: Sandbox | None = None,
        timeout: float | None = None,
        options: Options | None = None,
    ) -> None:
        if isinstance(labels, str):
            raise InvalidInput("the labels are one str: pass a list")
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
        self._classifier = _gpux.LoadedImageClassifier(path_of(model), list(labels), label_template or "", settings, 0)

    @property
    def verdict(self) -> _gpux.Verdict:
        """Which provider runs the image tower, and why."""
        return self._classifier.verdict

    def classify(self, images: Iterable[Image]) -> list[list[_gpux.LabelScore]]:
        """Score images by the labels.

        Args:
            images: as for gpux.ImageEmbedder.encode().

        Returns:
            For each image all labels with their scores, best first. The scores sum up to 1 where the model is trained
            so (CLIP); otherwise each label is judged for itself (SigLIP).

        Raises:
            Those of gpux.ImageEmbedder.encode().
        """
        return self._classifier.classify(as_images(images))

    def close(self) -> None:
        """Release the model. Calls in flight end first; later ones raise gpux.Usage."""
        self._classifier.close()


__all__ = ["ZeroShotImageClassifier"]
