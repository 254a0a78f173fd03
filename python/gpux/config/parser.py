"""GPUX's parser of gpux.yml. gpux reads the file itself."""

from gpux.core.replaced import (
    GPUConfig,
    GPUXConfig,
    GPUXConfigParser,
    InputConfig,
    ModelConfig,
    OutputConfig,
    PreprocessingConfig,
    RuntimeConfig,
    ServingConfig,
)

__all__ = [
    "GPUConfig",
    "GPUXConfig",
    "GPUXConfigParser",
    "InputConfig",
    "ModelConfig",
    "OutputConfig",
    "PreprocessingConfig",
    "RuntimeConfig",
    "ServingConfig",
]
