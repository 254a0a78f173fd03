"""The names of GPUX, the Python program whose commands and gpux.yml this project continues.

Each works as documented there, or raises an error that names its replacement.
"""

from gpux.core.models import ModelInfo, ModelInspector
from gpux.core.providers import ExecutionProvider, ProviderManager
from gpux.core.replaced import (
    AuthenticationError,
    ConfigGenerator,
    ConversionError,
    GPUConfig,
    GPUXConfig,
    GPUXConfigParser,
    HuggingFaceManager,
    InputConfig,
    ModelConfig,
    ModelDiscovery,
    ModelManager,
    ModelMetadata,
    ModelNotFoundError,
    ModelOptimizer,
    NetworkError,
    ONNXConverter,
    OutputConfig,
    PreprocessingConfig,
    PyTorchConverter,
    RegistryConfig,
    RegistryError,
    RuntimeConfig,
    ServingConfig,
    TensorFlowConverter,
)
from gpux.core.runtime import GPUXRuntime

__all__ = [
    "AuthenticationError",
    "ConfigGenerator",
    "ConversionError",
    "ExecutionProvider",
    "GPUConfig",
    "GPUXConfig",
    "GPUXConfigParser",
    "GPUXRuntime",
    "HuggingFaceManager",
    "InputConfig",
    "ModelConfig",
    "ModelDiscovery",
    "ModelInfo",
    "ModelInspector",
    "ModelManager",
    "ModelMetadata",
    "ModelNotFoundError",
    "ModelOptimizer",
    "NetworkError",
    "ONNXConverter",
    "OutputConfig",
    "PreprocessingConfig",
    "ProviderManager",
    "PyTorchConverter",
    "RegistryConfig",
    "RegistryError",
    "RuntimeConfig",
    "ServingConfig",
    "TensorFlowConverter",
]
