"""Models from the Hugging Face hub and from addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpux import _gpux
from gpux.runtime import path_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable


def pull(
    reference: str,
    name: str | None = None,
    *,
    file: str | None = None,
    precision: str | None = None,
    sha256: str | None = None,
    connections: int = 8,
    home: str | os.PathLike[str] | None = None,
    progress: Callable[[str, int, int], object] | None = None,
) -> _gpux.StoredPackage:
    """Download a model and store it, ready to run, as `gpux pull` does.

    Weights in safetensors are converted to an ONNX file. The model is loaded once. An interrupted call is resumed
    by the next one. The token is that of HF_TOKEN, or of the file that `hf auth login` writes.

    Args:
        reference: `hf.co/ORG/NAME` or `ORG/NAME`, with `@REVISION` if it is not the default branch; or
            `https://HOST/PATH.onnx`.
        name: NAME[:TAG] in the store; None: the reference in lower case.
        file: the ONNX file of the repository that is the model; None: the one that is found.
        precision: the ONNX file of the repository with these weights: "fp32", "fp16", "int8".
        sha256: the digest that a file from an address must have.
        connections: downloads at the same time.
        home: the folder of the store; None: GPUX_HOME, or `~/.gpux`.
        progress: called some times per second with the file, and the bytes that are done and of all files, from one
            thread at a time. What it raises ends the call.

    Raises:
        gpux.Permission where the repository is gated or the token is wrong; gpux.NotFound where the model is missing,
        or GPUX_OFFLINE or HF_HUB_OFFLINE forbids downloads; gpux.Network, also for a rate limit and damaged data;
        gpux.Storage; gpux.InvalidModel and gpux.InvalidConfig where it is no model that gpux runs; gpux.Usage.
    """
    return _gpux.pull(
        reference,
        name or "",
        file or "",
        precision or "",
        sha256 or "",
        connections,
        "" if home is None else path_of(home),
        progress,
    )


__all__ = ["pull"]
