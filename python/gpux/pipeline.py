"""Models that read texts and judge them."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from gpux import _gpux
from gpux._closing import Closing
from gpux._options import Isolation, Options, Sandbox, Strict, model_options
from gpux.errors import InvalidInput
from gpux.runtime import path_of, require_unicode

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable


class Pipeline(Closing):
    """A model that reads texts and judges them: its task is what config.json or gpux.yml says.

    Each text has a run of its own, so that its answer does not depend on the others. Calls for another task than the
    model's raise gpux.Usage. May be used from several threads at once; a run does not hold the GIL. As a context
    manager, the pipeline is closed at the end.

    Args:
        model: a folder, or a name in the store, with a tokenizer.
        provider, strict, threads, memory_limit, isolation, sandbox, timeout, options: as for gpux.Runtime.

    Raises:
        Those of gpux.Runtime; gpux.InvalidModel where the model reads no texts. All calls but close() raise gpux.Usage
        after close().
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        provider: str = "auto",
        *,
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
        self._pipeline = _gpux.LoadedPipeline(path_of(model), settings)

    @property
    def task(self) -> str:
        """One of "text-classification", "text-ranking", "token-classification", "question-answering", "none"."""
        return self._pipeline.task

    @property
    def verdict(self) -> _gpux.Verdict:
        """Which provider runs the model, and why."""
        return self._pipeline.verdict

    # A str is an iterable of str, too; the first overload takes it.
    @overload
    def classify(self, texts: str) -> list[_gpux.LabelScore]: ...  # type: ignore[overload-overlap] # pyright: ignore[reportOverlappingOverload]

    @overload
    def classify(self, texts: Iterable[str]) -> list[list[_gpux.LabelScore]]: ...

    def classify(self, texts: str | Iterable[str]) -> list[_gpux.LabelScore] | list[list[_gpux.LabelScore]]:
        """text-classification: the scores of all labels.

        Args:
            texts: a str, or an iterable of str.

        Returns:
            All labels with their scores, best first; of several texts a list for each, in the order of the texts.

        Raises:
            gpux.InvalidInput, gpux.Usage (another task), gpux.DeadlineExceeded, gpux.ResourceExhausted.
        """
        if isinstance(texts, str):
            return self._pipeline.classify([_text(texts)])[0]
        return self._pipeline.classify(_texts(texts))

    @overload
    def zero_shot(  # type: ignore[overload-overlap]
        self,
        texts: str,  # pyright: ignore[reportOverlappingOverload]
        labels: Iterable[str],
        *,
        hypothesis_template: str = ...,
        multi_label: bool = ...,
    ) -> list[_gpux.LabelScore]: ...

    @overload
    def zero_shot(
        self, texts: Iterable[str], labels: Iterable[str], *, hypothesis_template: str = ..., multi_label: bool = ...
    ) -> list[list[_gpux.LabelScore]]: ...

    def zero_shot(
        self,
        texts: str | Iterable[str],
        labels: Iterable[str],
        *,
        hypothesis_template: str = "This example is {}.",
        multi_label: bool = False,
    ) -> list[_gpux.LabelScore] | list[list[_gpux.LabelScore]]:
        """text-classification with labels of the caller's choice.

        The model is one of natural language inference: it has a label "entailment", and judges whether a text entails
        the hypothesis of each label.

        Args:
            texts: a str, or an iterable of str.
            labels: at least one, none twice.
            hypothesis_template: the hypothesis of a label, which replaces {}.
            multi_label: whether each label is judged for itself. Otherwise the scores of all labels sum up to 1.

        Returns:
            All labels with their scores, best first; of several texts a list for each, in the order of the texts.

        Raises:
            Those of classify(); gpux.Usage where the model has no label "entailment".
        """
        options = (_texts(labels), _text(hypothesis_template), multi_label)
        if isinstance(texts, str):
            return self._pipeline.zero_shot([_text(texts)], *options)[0]
        return self._pipeline.zero_shot(_texts(texts), *options)

    def rank(self, query: str, texts: Iterable[str]) -> list[_gpux.RankedText]:
        """text-ranking: how well each text fits a query.

        Args:
            query: a text.
            texts: an iterable of str.

        Returns:
            All texts, best first.

        Raises:
            Those of classify().
        """
        return self._pipeline.rank(_text(query), _texts(texts))

    def find_entities(self, text: str) -> list[_gpux.TextEntity]:
        """token-classification: names, places, dates and the like.

        Returns:
            The entities in the order of the text.

        Raises:
            Those of classify().
        """
        return self._pipeline.find_entities(_text(text))

    def answer(self, question: str, context: str) -> _gpux.TextAnswer:
        """question-answering: the part of the context that answers the question.

        A context that is too long for one run is split into overlapping windows. The best answer of all is returned.

        Raises:
            Those of classify().
        """
        return self._pipeline.answer(_text(question), _text(context))

    def close(self) -> None:
        """Release the model. Calls in flight end first; later ones raise gpux.Usage."""
        self._pipeline.close()


def _text(text: object) -> str:
    if not isinstance(text, str):
        raise InvalidInput(f"a text is a {type(text).__name__}, and not a str")
    require_unicode(text)
    return text


def _texts(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str):
        raise InvalidInput("the texts are one str: pass a list")
    return [_text(text) for text in texts]


__all__ = ["Pipeline"]
