"""Where the library finds ONNX Runtime."""

from __future__ import annotations

import os
from importlib.machinery import PathFinder
from pathlib import Path


def name_packages() -> None:
    """Name the folder of the `onnxruntime` that Python would import, for the library and for programs it starts.

    The package is not imported: the library opens its shared library, and needs nothing else of it.
    """
    if "GPUX_PYTHON_PACKAGES" in os.environ:
        return
    folders: list[str] = []
    for name in ("onnxruntime", "onnxruntime_ep_webgpu"):
        package = PathFinder.find_spec(name)
        for place in (package.submodule_search_locations or []) if package else []:
            folder = str(Path(place).resolve().parent)
            if folder not in folders:
                folders.append(folder)
    if folders:
        os.environ["GPUX_PYTHON_PACKAGES"] = os.pathsep.join(folders)
