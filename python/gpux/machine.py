"""What this machine has: providers, and what is missing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from gpux import _gpux
from gpux.errors import DeadlineExceeded, Error, Usage, by_exit_code

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping


def _libraries(libraries: Mapping[str, str | os.PathLike[str]] | None) -> list[tuple[str, str | os.PathLike[str]]]:
    return list(libraries.items()) if libraries else []


def providers(libraries: Mapping[str, str | os.PathLike[str]] | None = None) -> list[_gpux.ProviderReport]:
    """All known execution providers in the default order, and whether this machine can use them.

    Args:
        libraries: plugin providers in addition to those found on the machine: name and path.

    Raises:
        gpux.ProviderUnavailable if no ONNX Runtime can be used.
    """
    return _gpux.providers(_libraries(libraries))


def select_providers(request: str = "auto", libraries: Mapping[str, str | os.PathLike[str]] | None = None) -> list[str]:
    """The ids of the providers that a request would use on this machine, in order.

    Args:
        request: as `provider` of gpux.Runtime.
        libraries: as for providers().

    Raises:
        gpux.Usage if the request names an unknown provider.
    """
    return _gpux.select_providers(request, _libraries(libraries))


def runtime_library() -> _gpux.RuntimeLibrary:
    """The ONNX Runtime library that this process uses.

    Raises:
        gpux.ProviderUnavailable if none can be used.
    """
    return _gpux.runtime_library()


def error_of(exit_code: int, standard_error: str) -> Error:
    """The exception for a program that failed."""
    lines = [line for line in standard_error.splitlines() if line.strip()]
    message = lines[-1].removeprefix("gpux: ") if lines else f"the program gpux ended with exit code {exit_code}"
    return by_exit_code.get(exit_code, by_exit_code[1])(message)


def doctor(timeout: float = 120) -> dict[str, Any]:
    """Examine the machine, as `gpux doctor --json` does.

    It runs as a program of its own, so that a driver that crashes does not end this process.

    Args:
        timeout: in seconds.

    Returns:
        "works" (whether models run here), "problems" (a list), "machine", "onnxruntime", "checks" and "providers".

    Raises:
        gpux.DeadlineExceeded, gpux.NotFound (the program is not installed).
    """
    import subprocess

    from gpux._program import program

    if timeout <= 0:
        raise Usage(f"timeout is {timeout}, and not a number of seconds above 0")
    try:
        result = subprocess.run(
            [program(), "doctor", "--json"], capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as expired:
        raise DeadlineExceeded(f"gpux doctor gave no answer within {timeout} s") from expired
    try:
        # It exits with an error where something is missing, and reports it all the same.
        return cast("dict[str, Any]", json.loads(result.stdout))
    except json.JSONDecodeError:
        raise error_of(result.returncode, result.stderr) from None


__all__ = ["doctor", "providers", "runtime_library", "select_providers"]
