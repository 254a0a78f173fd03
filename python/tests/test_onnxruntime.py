"""gpux and the Python package onnxruntime in one process."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import MODELS

pytest.importorskip("onnxruntime")

RUN_GPUX = f"""
import numpy as np, gpux
y = gpux.Runtime({str(MODELS / "add.onnx")!r}).run(np.zeros((1, 3), np.float32))["y"]
assert y.tolist() == [[1, 2, 3]]
"""
RUN_ONNXRUNTIME = f"""
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession({str(MODELS / "add.onnx")!r}, providers=["CPUExecutionProvider"])
assert session.run(None, {{"x": np.zeros((1, 3), np.float32)}})[0].tolist() == [[1, 2, 3]]
"""
REPORT = """
import importlib.util, pathlib
mapped = {line.split()[-1] for line in open("/proc/self/maps") if "libonnxruntime.so" in line}
package = pathlib.Path(importlib.util.find_spec("onnxruntime").submodule_search_locations[0]).resolve()
import gpux
print(len(mapped), all(pathlib.Path(file).is_relative_to(package) for file in mapped), gpux.runtime_library().origin)
"""


@pytest.mark.parametrize(
    "code", [RUN_GPUX, RUN_ONNXRUNTIME + RUN_GPUX, RUN_GPUX + RUN_ONNXRUNTIME, RUN_GPUX + RUN_ONNXRUNTIME + RUN_GPUX]
)
def test_one_copy_of_the_library_of_the_installed_package(code: str) -> None:
    result = subprocess.run([sys.executable, "-c", code + REPORT], capture_output=True, text=True, check=False)
    assert result.stderr == ""
    assert result.stdout == "1 True Python package\n"
