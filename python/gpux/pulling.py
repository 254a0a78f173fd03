"""Models from hubs, registries, addresses and archives, and to registries and archives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpux import _gpux
from gpux.runtime import path_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence


def pull(
    reference: str,
    name: str | None = None,
    *,
    file: str | None = None,
    precision: str | None = None,
    sha256: str | None = None,
    connections: int = 8,
    verify_key: str | os.PathLike[str] | None = None,
    home: str | os.PathLike[str] | None = None,
    progress: Callable[[str, int, int], object] | None = None,
) -> _gpux.StoredPackage:
    """Download a model and store it, ready to run, as `gpux pull` does.

    Weights in safetensors are converted to an ONNX file. The model is loaded once. An interrupted call is resumed
    by the next one. The token is that of HF_TOKEN, or of the file that `hf auth login` writes.

    Args:
        reference: `hf.co/ORG/NAME` or `ORG/NAME`, with `@REVISION` if it is not the default branch; or
            `https://HOST/PATH.onnx`; or `REGISTRY/REPOSITORY[:TAG][@sha256:DIGEST]`.
        name: NAME[:TAG] in the store; None: the reference in lower case.
        file: the ONNX file of the repository that is the model; None: the one that is found.
        precision: the ONNX file of the repository with these weights: "fp32", "fp16", "int8".
        sha256: the digest that a file from an address must have.
        connections: downloads at the same time.
        verify_key: the file of a public key (PEM, P-256) that must have signed a package of a registry, as cosign does.
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
        "" if verify_key is None else path_of(verify_key),
        progress,
    )


def push(
    name: str,
    *,
    sign_key: str | os.PathLike[str] | None = None,
    home: str | os.PathLike[str] | None = None,
    progress: Callable[[str, int, int], object] | None = None,
) -> _gpux.PushedModel:
    """Upload a stored model to a registry, as `gpux push` does. `Store.tag()` gives a model the name of its place.

    The credentials are those of Docker's config.json, which `gpux login` writes.

    Args:
        name: `REGISTRY/REPOSITORY[:TAG]`, a name of a stored model.
        sign_key: the file of a private key (PEM, P-256, not encrypted) to sign it with, as cosign does.
        home: the folder of the store; None: GPUX_HOME, or `~/.gpux`.
        progress: as for gpux.pull, without the file's name.

    Raises:
        gpux.NotFound where no model has this name, or the registry has no such repository; gpux.Permission for a login
        that is missing or wrong; gpux.Network; gpux.Storage; gpux.InvalidInput for the key; gpux.Usage.
    """
    return _gpux.push(
        name,
        "" if sign_key is None else path_of(sign_key),
        "" if home is None else path_of(home),
        progress,
    )


def save_packages(
    models: Sequence[str], file: str | os.PathLike[str], *, home: str | os.PathLike[str] | None = None
) -> list[_gpux.StoredPackage]:
    """Write stored models into a tar archive, as `gpux save` does: an OCI image layout, which skopeo reads.

    Args:
        models: NAME[:TAG] or ids.
        file: the archive, which is replaced as a whole or not at all.
        home: the folder of the store; None: GPUX_HOME, or `~/.gpux`.

    Raises:
        gpux.NotFound, gpux.Storage, gpux.Permission.
    """
    return _gpux.save_packages(list(models), path_of(file), "" if home is None else path_of(home))


def load_packages(
    file: str | os.PathLike[str], *, names: Sequence[str] = (), home: str | os.PathLike[str] | None = None
) -> list[_gpux.StoredPackage]:
    """Store the models of a tar archive, as `gpux load` does. Nothing is stored from a damaged archive.

    Args:
        file: an archive of gpux.save_packages(), or of skopeo (oci-archive).
        names: NAME[:TAG] in place of the name in the archive, which must have one model.
        home: the folder of the store; None: GPUX_HOME, or `~/.gpux`.

    Raises:
        gpux.InvalidInput for an archive that is damaged or none; gpux.InvalidModel for what is no package that gpux
        can use; gpux.NotFound, gpux.Storage, gpux.Permission, gpux.Usage.
    """
    return _gpux.load_packages(path_of(file), list(names), "" if home is None else path_of(home))


__all__ = ["load_packages", "pull", "push", "save_packages"]
