"""The program that comes with the package."""

from __future__ import annotations

import contextlib
import os
import shutil
import sysconfig
from pathlib import Path

from gpux.errors import NotFound


def program() -> str:
    """The path of the program: that of the environment in which the package is installed, else of PATH."""
    # The package is in PREFIX/lib/python3.12/site-packages/gpux, and the program in PREFIX/bin.
    prefixes = list(Path(__file__).absolute().parents)[1:5]
    candidates = [prefix / "bin" / "gpux" for prefix in prefixes]
    candidates.append(Path(sysconfig.get_path("scripts")) / "gpux")
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    found = shutil.which("gpux")
    if found is None:
        raise NotFound(f"the program gpux is neither {candidates[-1]} nor in PATH: install the wheel again")
    return found


def name_program() -> None:
    """Name the program for worker processes of the library, unless the environment or its own folder does."""
    if "GPUX_PROGRAM" in os.environ:
        return
    with contextlib.suppress(NotFound):
        os.environ["GPUX_PROGRAM"] = program()
