"""GPUX's description of a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpux.runtime import inspect

if TYPE_CHECKING:
    import os


class ModelInfo:
    """What an ONNX file contains, as GPUX describes it.

    Attributes:
        name: the file's name without its suffix.
        version: "1.0.0".
        format: "onnx".
        path: of the file.
        size_bytes: of the file, without weights in other files.
        inputs: dicts with "name", "type", "shape" and "required".
        outputs: as `inputs`.
        metadata: the file's own: names and values.
    """

    def __init__(
        self,
        name: str,
        version: str,
        format: str,  # noqa: A002
        path: Path,
        size_bytes: int,
        inputs: list[dict[str, Any]],
        outputs: list[dict[str, Any]],
        metadata: dict[str, Any],
    ) -> None:
        self.name = name
        self.version = version
        self.format = format
        self.path = path
        self.size_bytes = size_bytes
        self.inputs = inputs
        self.outputs = outputs
        self.metadata = metadata

    @property
    def size_mb(self) -> float:
        """In units of 1,048,576 bytes."""
        return self.size_bytes / 2**20

    def to_dict(self) -> dict[str, Any]:
        """A dict that JSON can hold."""
        return {
            "name": self.name,
            "version": self.version,
            "format": self.format,
            "path": str(self.path),
            "size_bytes": self.size_bytes,
            "size_mb": self.size_mb,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "metadata": self.metadata,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ModelInfo:
        """The reverse of to_dict()."""
        known = {key: value for key, value in data.items() if key not in ("size_mb", "path")}
        return cls(path=Path(data["path"]), **known)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ModelInfo:
        """Read what save() wrote."""
        return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))


class ModelInspector:
    """Reads ONNX files. `gpux.inspect()` gives more."""

    def __init__(self) -> None:
        self._inspected: ModelInfo | None = None

    def inspect(self, path: str | os.PathLike[str]) -> ModelInfo:
        """The content of the file, read without a session.

        Raises:
            gpux.NotFound, gpux.InvalidModel.
        """
        content = inspect(path)
        self._inspected = ModelInfo(
            name=content["name"],
            version=content["version"],
            format=content["format"],
            path=Path(path),
            size_bytes=content["size_bytes"],
            inputs=content["inputs"],
            outputs=content["outputs"],
            metadata=dict(content.get("metadata") or {}),
        )
        return self._inspected

    def validate_input(self, inputs: dict[str, Any]) -> bool:
        """Whether the inputs have the names of those of the model that was inspected last."""
        if self._inspected is None:
            return False
        names = {entry["name"] for entry in self._inspected.inputs}
        required = {entry["name"] for entry in self._inspected.inputs if entry.get("required", True)}
        return required <= set(inputs) <= names


__all__ = ["ModelInfo", "ModelInspector"]
