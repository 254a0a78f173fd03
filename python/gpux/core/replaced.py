"""Names of GPUX that have a replacement: using one raises gpux.Usage, which says what to use."""

from __future__ import annotations

from typing import Any, NoReturn

from gpux.errors import Error, InvalidModel, NotFound, Permission, Usage
from gpux.errors import Network as NetworkError


class _Replaced(type):
    """The type of a class that cannot be used: neither called nor asked for an attribute."""

    replacement: str

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], replacement: str = "") -> _Replaced:
        made = super().__new__(cls, name, bases, namespace)
        # A class that derives from one is told the same.
        made.replacement = replacement or next((base.replacement for base in bases if isinstance(base, _Replaced)), "")
        return made

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], replacement: str = "") -> None:
        del replacement
        super().__init__(name, bases, namespace)

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        raise Usage(f"{cls.__name__} is not part of this gpux: {cls.replacement}")

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise Usage(f"{cls.__name__}.{name} is not part of this gpux: {cls.replacement}")


_configuration = "gpux reads gpux.yml itself: gpux.Runtime(folder), or gpux.Runtime(model, options={'config': file})"
_registry = "gpux downloads no models: fetch the folder, then gpux.Store().import_folder(folder, name)"
_conversion = "gpux.Store().import_folder(folder, name) makes an ONNX file of a Hugging Face folder with safetensors"


class GPUXConfigParser(metaclass=_Replaced, replacement=_configuration):
    """Replaced by `gpux.Runtime(folder)`."""


class GPUXConfig(metaclass=_Replaced, replacement=_configuration):
    """Replaced by `gpux.Runtime(folder)`."""


class ModelConfig(metaclass=_Replaced, replacement=_configuration):
    """Replaced by `gpux.Runtime(folder)`."""


class InputConfig(metaclass=_Replaced, replacement="gpux.Runtime(model).info.inputs describes the inputs"):
    """Replaced by `gpux.Runtime(model).info.inputs`."""


class OutputConfig(metaclass=_Replaced, replacement="gpux.Runtime(model).info.outputs describes the outputs"):
    """Replaced by `gpux.Runtime(model).info.outputs`."""


class RuntimeConfig(metaclass=_Replaced, replacement="pass the arguments of gpux.Runtime, or set them in gpux.yml"):
    """Replaced by the arguments of gpux.Runtime."""


class GPUConfig(metaclass=_Replaced, replacement="gpux.Runtime(model, provider=…, memory_limit=…)"):
    """Replaced by the arguments of gpux.Runtime."""


class ServingConfig(metaclass=_Replaced, replacement="gpux.serve(model, port=…, workers=…)"):
    """Replaced by the arguments of gpux.serve()."""


class PreprocessingConfig(metaclass=_Replaced, replacement=_configuration):
    """Replaced by `gpux.Runtime(folder)`."""


class ModelDiscovery(metaclass=_Replaced, replacement="gpux.Store().find(name) and gpux.Store().list()"):
    """Replaced by gpux.Store."""


class ModelManager(metaclass=_Replaced, replacement=_registry):
    """Replaced by `gpux.Store().import_folder()`."""


class HuggingFaceManager(metaclass=_Replaced, replacement=_registry):
    """Replaced by `gpux.Store().import_folder()`."""


class RegistryConfig(metaclass=_Replaced, replacement=_registry):
    """Replaced by `gpux.Store().import_folder()`."""


class ModelMetadata(metaclass=_Replaced, replacement="gpux.Store().find(name) describes a stored model"):
    """Replaced by `gpux.Store().find()`."""


class ONNXConverter(metaclass=_Replaced, replacement=_conversion):
    """Replaced by `gpux.Store().import_folder()`."""


class PyTorchConverter(metaclass=_Replaced, replacement=_conversion):
    """Replaced by `gpux.Store().import_folder()`."""


class TensorFlowConverter(
    metaclass=_Replaced, replacement="convert the model with tf2onnx, then gpux.Runtime('model.onnx')"
):
    """Replaced by tf2onnx."""


class ModelOptimizer(
    metaclass=_Replaced,
    replacement="ONNX Runtime optimizes a model when gpux.Runtime loads it: options={'optimization': …}",
):
    """Replaced by gpux.Runtime."""


class ConfigGenerator(metaclass=_Replaced, replacement="gpux.Store().import_folder(folder, name) writes gpux.yml"):
    """Replaced by `gpux.Store().import_folder()`."""


# The exceptions of the registry: what gpux raises instead, so that `except ModelNotFoundError` still works.
RegistryError = Error
ModelNotFoundError = NotFound
AuthenticationError = Permission


ConversionError = InvalidModel

__all__ = [
    "AuthenticationError",
    "ConfigGenerator",
    "ConversionError",
    "GPUConfig",
    "GPUXConfig",
    "GPUXConfigParser",
    "HuggingFaceManager",
    "InputConfig",
    "ModelConfig",
    "ModelDiscovery",
    "ModelManager",
    "ModelMetadata",
    "ModelNotFoundError",
    "ModelOptimizer",
    "NetworkError",
    "ONNXConverter",
    "OutputConfig",
    "PreprocessingConfig",
    "PyTorchConverter",
    "RegistryConfig",
    "RegistryError",
    "RuntimeConfig",
    "ServingConfig",
    "TensorFlowConverter",
]
