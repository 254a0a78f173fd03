"""Models by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpux import _gpux
from gpux._options import Options, Strict, model_options
from gpux.runtime import path_of

if TYPE_CHECKING:
    import builtins
    import os


class Store:
    """The models of this user, as `gpux images` lists them.

    Several processes may use it at once, and so may threads. Its calls do not hold the GIL.

    Args:
        home: the folder; None: GPUX_HOME, or `~/.gpux`.

    Raises:
        gpux.Storage, gpux.Permission, from all calls.
    """

    def __init__(self, home: str | os.PathLike[str] | None = None) -> None:
        self._store = _gpux.ModelStore() if home is None else _gpux.ModelStore(path_of(home))

    def list(self) -> builtins.list[_gpux.StoredPackage]:
        """All names in alphabetical order."""
        return self._store.list()

    def find(self, model: str) -> _gpux.StoredPackage | None:
        """Look a model up.

        Args:
            model: NAME[:TAG], or the first 4 or more digits of an id.

        Returns:
            The package, or None where there is none.

        Raises:
            gpux.Usage for what is no name, or an id of several packages.
        """
        return self._store.find(model)

    def build(
        self,
        model: str | os.PathLike[str],
        name: str,
        *,
        provider: str = "auto",
        strict: Strict = False,
        options: Options | None = None,
    ) -> _gpux.StoredPackage:
        """Store a model with its gpux.yml, as `gpux build` does. It is loaded once, which proves that it runs.

        Args:
            model: the path of an ONNX file, a gpux.yml or a folder.
            name: NAME[:TAG]. A package that has the name loses it.
            provider: as for gpux.Runtime.
            strict: as for gpux.Runtime.
            options: as for gpux.Runtime.

        Raises:
            Those of gpux.Runtime; gpux.Usage for what is no name.
        """
        settings = model_options(None if provider == "auto" else provider, strict=strict, options=options)
        return self._store.build(path_of(model), name, settings)

    def import_folder(
        self,
        folder: str | os.PathLike[str],
        name: str,
        *,
        provider: str = "auto",
        strict: Strict = False,
        options: Options | None = None,
    ) -> _gpux.StoredPackage:
        """Store a folder of Hugging Face's layout, as `gpux import` does.

        Weights in safetensors are converted to an ONNX file. The model is loaded once.

        Args:
            folder: with config.json, tokenizer.json, and an ONNX file or model.safetensors.
            name: NAME[:TAG]. A package that has the name loses it.
            provider: as for gpux.Runtime.
            strict: as for gpux.Runtime.
            options: as for gpux.Runtime.

        Raises:
            Those of gpux.Runtime; gpux.InvalidModel for an architecture that gpux cannot convert; gpux.Usage for what
            is no name.
        """
        settings = model_options(None if provider == "auto" else provider, strict=strict, options=options)
        return self._store.import_folder(path_of(folder), name, settings)

    def tag(self, model: str, name: str) -> _gpux.StoredPackage:
        """Give a model another name.

        Args:
            model: NAME[:TAG], or an id.
            name: the new NAME[:TAG].

        Raises:
            gpux.NotFound, gpux.Usage for what is no name.
        """
        return self._store.tag(model, name)

    def remove(self, name: str) -> None:
        """Remove the name, and the package with its last name.

        Raises:
            gpux.NotFound.
        """
        self._store.remove(name)

    def prune(self) -> int:
        """Remove what no name refers to.

        Returns:
            The number of bytes that are free now.
        """
        return self._store.prune()

    def verify(self, model: str) -> builtins.list[str]:
        """Compare all files of a package with their digests.

        Returns:
            What is wrong, file by file; empty: nothing.

        Raises:
            gpux.NotFound.
        """
        return self._store.verify(model)


__all__ = ["Store"]
