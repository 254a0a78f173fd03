"""Run ONNX models on the hardware of a machine, and see which execution provider ran them and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpux._environment import name_packages as _name_packages

# Before anything opens ONNX Runtime.
_name_packages()

from gpux import _gpux, errors  # noqa: E402
from gpux._gpux import (  # noqa: E402
    BenchmarkResult,
    ChatCompletion,
    ChatDelta,
    CollectionFacts,
    CollectionHit,
    Completion,
    Device,
    GenerationMemory,
    LabelScore,
    PlacedNode,
    ProviderAttempt,
    ProviderReport,
    PushedModel,
    RankedText,
    RunSharing,
    RuntimeLibrary,
    SearchHit,
    SignatureEntry,
    StoredPackage,
    TextAnswer,
    TextEntity,
    TokenLogProbability,
    TokenScore,
    ToolCall,
    Verdict,
)
from gpux.collection import Collection  # noqa: E402
from gpux.embedder import Embedder  # noqa: E402
from gpux.errors import (  # noqa: E402
    DeadlineExceeded,
    Error,
    Internal,
    Interrupted,
    InvalidConfig,
    InvalidInput,
    InvalidModel,
    Network,
    NotFound,
    Permission,
    ProviderUnavailable,
    ResourceExhausted,
    Storage,
    Usage,
)
from gpux.generator import ChatStream, GenerationSettings, Generator, TextStream  # noqa: E402
from gpux.image_embedder import ImageEmbedder  # noqa: E402
from gpux.machine import doctor, providers, runtime_library, select_providers  # noqa: E402
from gpux.pipeline import Pipeline  # noqa: E402
from gpux.pulling import load_packages, pull, push, save_packages  # noqa: E402
from gpux.runtime import ModelInfo, Runtime, inspect  # noqa: E402
from gpux.store import Store  # noqa: E402
from gpux.vectors import SearchIndex, search  # noqa: E402
from gpux.zero_shot_images import ZeroShotImageClassifier  # noqa: E402

if TYPE_CHECKING:
    from gpux.core import ExecutionProvider, GPUXRuntime
    from gpux.server import Server, serve

_gpux.register_errors(errors.by_exit_code)

__version__ = "0.1.0"

# Loaded when they are used: what they import would double the time that `import gpux` takes.
_lazy = {
    "ExecutionProvider": "gpux.core",
    "GPUXRuntime": "gpux.core",
    "Server": "gpux.server",
    "serve": "gpux.server",
}


def __getattr__(name: str) -> Any:
    if name in _lazy:
        import importlib

        return getattr(importlib.import_module(_lazy[name]), name)
    if name in ("core", "config", "ray", "integrations"):
        import importlib

        return importlib.import_module(f"gpux.{name}")
    raise AttributeError(f"module 'gpux' has no attribute {name!r}")


__all__ = [
    "BenchmarkResult",
    "ChatCompletion",
    "ChatDelta",
    "ChatStream",
    "Collection",
    "CollectionFacts",
    "CollectionHit",
    "Completion",
    "DeadlineExceeded",
    "Device",
    "Embedder",
    "Error",
    "ExecutionProvider",
    "GPUXRuntime",
    "GenerationMemory",
    "GenerationSettings",
    "Generator",
    "ImageEmbedder",
    "Internal",
    "Interrupted",
    "InvalidConfig",
    "InvalidInput",
    "InvalidModel",
    "LabelScore",
    "ModelInfo",
    "Network",
    "NotFound",
    "Permission",
    "Pipeline",
    "PlacedNode",
    "ProviderAttempt",
    "ProviderReport",
    "ProviderUnavailable",
    "PushedModel",
    "RankedText",
    "ResourceExhausted",
    "RunSharing",
    "Runtime",
    "RuntimeLibrary",
    "SearchHit",
    "SearchIndex",
    "Server",
    "SignatureEntry",
    "Storage",
    "Store",
    "StoredPackage",
    "TextAnswer",
    "TextEntity",
    "TextStream",
    "TokenLogProbability",
    "TokenScore",
    "ToolCall",
    "Usage",
    "Verdict",
    "ZeroShotImageClassifier",
    "doctor",
    "inspect",
    "load_packages",
    "providers",
    "pull",
    "push",
    "runtime_library",
    "save_packages",
    "search",
    "select_providers",
    "serve",
]
