"""The names of GPUX's Python package: each works, or raises an error that names its replacement."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from conftest import MODELS

import gpux
from gpux import core

X = np.array([[1, 2, 3]], np.float32)

WORKING = {
    "gpux": ["GPUXRuntime", "ExecutionProvider", "ModelInfo"],
    "gpux.core": ["GPUXRuntime", "ExecutionProvider", "ProviderManager", "ModelInspector", "ModelInfo"],
    "gpux.core.runtime": ["GPUXRuntime"],
    "gpux.core.providers": ["ProviderManager", "ExecutionProvider"],
    "gpux.core.models": ["ModelInspector", "ModelInfo"],
}
EXCEPTIONS = ["RegistryError", "ModelNotFoundError", "ConversionError", "AuthenticationError", "NetworkError"]
# The name, one of its documented calls, and a word of the replacement.
REPLACED = {
    "GPUXConfigParser": ("parse_file", "gpux.Runtime"),
    "GPUXConfig": ("model_validate", "gpux.Runtime"),
    "ModelConfig": ("model_validate", "gpux.Runtime"),
    "InputConfig": ("model_validate", "info.inputs"),
    "OutputConfig": ("model_validate", "info.outputs"),
    "RuntimeConfig": ("model_validate", "gpux.Runtime"),
    "GPUConfig": ("model_validate", "gpux.Runtime"),
    "ServingConfig": ("model_validate", "gpux.serve"),
    "PreprocessingConfig": ("model_validate", "gpux.Runtime"),
    "ModelDiscovery": ("find_model_config", "gpux.Store"),
    "ModelManager": ("pull_model", "import_folder"),
    "HuggingFaceManager": ("pull_model", "import_folder"),
    "RegistryConfig": ("model_validate", "import_folder"),
    "ModelMetadata": ("model_validate", "gpux.Store"),
    "ONNXConverter": ("convert", "import_folder"),
    "PyTorchConverter": ("convert", "import_folder"),
    "TensorFlowConverter": ("convert", "tf2onnx"),
    "ModelOptimizer": ("optimize", "gpux.Runtime"),
    "ConfigGenerator": ("generate_config", "import_folder"),
}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in WORKING.items() for name in names])
def test_a_name_is_where_it_was(module: str, name: str) -> None:
    assert getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_an_exception_can_be_caught(name: str) -> None:
    assert issubclass(getattr(core, name), gpux.Error)


@pytest.mark.parametrize("name", REPLACED)
def test_an_error_names_the_replacement(name: str) -> None:
    call, replacement = REPLACED[name]
    for use in (lambda: getattr(core, name)(), lambda: getattr(getattr(core, name), call)("x")):
        with pytest.raises(gpux.Usage) as raised:
            use()
        assert name in str(raised.value)
        assert replacement in str(raised.value)

    with pytest.raises(gpux.Usage, match=replacement):
        type("Own", (getattr(core, name),), {})()


def test_every_exported_name_is_tested() -> None:
    tested = {name for module, names in WORKING.items() if module == "gpux.core" for name in names}
    assert set(core.__all__) == tested | set(EXCEPTIONS) | set(REPLACED)
    from gpux.config import parser

    assert parser.GPUXConfigParser is core.GPUXConfigParser


def test_the_runtime(digits: Path) -> None:
    with gpux.GPUXRuntime(model_path=MODELS / "add.onnx", provider="auto", gpu_memory="2GB", batch_size=1) as runtime:
        assert runtime.infer({"x": X})["y"].tolist() == [[2, 4, 6]]
        assert runtime.infer(X)["y"].tolist() == [[2, 4, 6]]
        assert len(runtime.batch_infer([{"x": X}, {"x": X}])) == 2
        figures = runtime.benchmark({"x": X}, num_runs=5, warmup_runs=1)
        assert len(figures) == 8
        assert all(isinstance(figure, float) for figure in figures.values())
        info = runtime.get_model_info()
        assert info is not None
        assert info.name == "add"
        assert runtime.get_provider_info()["name"] == "CPUExecutionProvider"
        assert "CPUExecutionProvider" in runtime.get_available_providers()
        runtime.load_model(MODELS / "divide.onnx", provider="cpu")
        runtime.cleanup()
        with pytest.raises(RuntimeError, match="load_model"):
            runtime.infer({"x": X})
        with pytest.raises(FileNotFoundError):
            runtime.load_model("missing.onnx")
    with pytest.raises(gpux.Usage, match="GPUX_PROFILE"):
        gpux.GPUXRuntime(enable_profiling=True)


def test_the_provider_manager() -> None:
    manager = core.ProviderManager()
    assert manager.get_best_provider("cpu") is core.ExecutionProvider.CPU
    assert isinstance(manager.get_best_provider(), core.ExecutionProvider)
    assert "CPUExecutionProvider" in manager.get_available_providers()
    assert manager.get_provider_config(core.ExecutionProvider.CPU) == {}
    for provider in core.ExecutionProvider:
        info = manager.get_provider_info(provider)
        assert info["name"]
        assert info["available"] or info["reason"]
    with pytest.raises(gpux.Usage):
        manager.get_best_provider("score")


def test_the_inspector(tmp_path: Path) -> None:
    inspector = core.ModelInspector()
    assert not inspector.validate_input({"x": X})
    info = inspector.inspect(MODELS / "add.onnx")
    assert (info.name, info.format) == ("add", "onnx")
    assert info.size_mb == info.size_bytes / 2**20
    assert info.metadata["author"]
    assert [entry["name"] for entry in info.inputs] == ["x"]
    assert inspector.validate_input({"x": X})
    assert not inspector.validate_input({"y": X})
    info.save(tmp_path / "info.json")
    assert core.ModelInfo.load(tmp_path / "info.json").to_dict() == info.to_dict()
