"""Models for the tests: those of the repository, and a store of their own."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import gpux

REPOSITORY = Path(__file__).resolve().parents[2]
MODELS = REPOSITORY / "tests" / "models"


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that no other test uses."""
    folder = tmp_path_factory.mktemp("home")
    os.environ["GPUX_HOME"] = str(folder)
    for name in ("GPUX_PROVIDER", "GPUX_STRICT", "GPUX_THREADS", "GPUX_TIMEOUT"):
        os.environ.pop(name, None)
    return folder


@pytest.fixture(scope="session")
def digits() -> Path:
    return REPOSITORY / "examples" / "digits"


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small text encoder in the layout of sentence-transformers, with two prompts."""
    folder = tmp_path_factory.mktemp("encoder")
    (folder / "1_Pooling").mkdir()
    (folder / "onnx").mkdir()
    types = ["Transformer", "Pooling"]
    paths = ["", "1_Pooling"]
    (folder / "modules.json").write_text(
        json.dumps(
            [
                {"type": f"sentence_transformers.models.{kind}", "path": path}
                for kind, path in zip(types, paths, strict=True)
            ]
        )
    )
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 32, "do_lower_case": False}))
    prompts = {"query": "the question: ", "document": ""}
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": prompts, "default_prompt_name": None})
    )
    shutil.copy(REPOSITORY / "tests" / "text" / "data" / "wordpiece.json", folder / "tokenizer.json")
    shutil.copy(REPOSITORY / "tests" / "embedding" / "encoder.onnx", folder / "onnx" / "model.onnx")
    return folder


def task_folder(name: str, parent: Path) -> Path:
    """A folder as people get them, with safetensors, of a small model that does the task."""
    folder = parent / name
    shutil.copytree(REPOSITORY / "tests" / "pipeline" / "data" / name, folder)
    shutil.copy(REPOSITORY / "tests" / "text" / "data" / "wordpiece.json", folder / "tokenizer.json")
    return folder


@pytest.fixture(scope="session")
def classifier(home: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a stored text classifier."""
    gpux.Store().import_folder(task_folder("classify-bert", tmp_path_factory.mktemp("classifier")), "classifier")
    return "classifier"
