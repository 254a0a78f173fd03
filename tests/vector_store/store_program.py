"""What the tests of vector stores share: the program, and a small encoder for it. Standard library only."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
from typing import Any


def write_encoder(folder: pathlib.Path, source: pathlib.Path, model: str = "encoder.onnx", **settings: object) -> None:
    """The small encoder of tests/embedding, as sentence-transformers lays one out."""
    kind = "sentence_transformers.models."
    (folder / "onnx").mkdir(parents=True)
    (folder / "1_Pooling").mkdir()
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    (folder / "modules.json").write_text(json.dumps([{"type": kind + name, "path": path} for path, name in modules]))
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode": "mean"}')
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 32}')
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    shutil.copy(source / "tests/text/data/wordpiece.json", folder / "tokenizer.json")
    shutil.copy(source / "tests/embedding" / model, folder / "onnx/model.onnx")


class Program:
    """gpux in a home of its own."""

    def __init__(self, gpux: pathlib.Path, folder: pathlib.Path) -> None:
        self.gpux, self.folder = gpux, folder
        self.environment = {**os.environ, "GPUX_HOME": str(folder / "home")}
        for name in ("PGPASSWORD", "PGUSER", "PGHOST", "QDRANT_API_KEY"):
            self.environment.pop(name, None)

    def run(self, *arguments: str, standard_input: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.gpux, *arguments], check=False, input=standard_input, capture_output=True, text=True,
                              cwd=self.folder, env=self.environment, timeout=300)  # fmt: skip

    def succeed(self, *arguments: str, standard_input: str = "") -> str:
        result = self.run(*arguments, standard_input=standard_input)
        assert result.returncode == 0, (arguments, result.returncode, result.stderr)
        return result.stdout

    def fail(self, *arguments: str, code: int) -> str:
        """The one line that it fails with."""
        result = self.run(*arguments)
        assert result.returncode == code, (arguments, result.returncode, result.stderr)
        lines = [line for line in result.stderr.splitlines() if line.startswith("gpux: ")]
        errors = [line for line in result.stderr.splitlines() if "error" in line] or lines
        assert errors, result.stderr
        return errors[-1]

    def search(self, *arguments: str) -> list[dict[str, Any]]:
        return json.loads(self.succeed("search", "--json", "-m", "encoder", *arguments))["results"]
