"""The arguments that load a model, as the extension reads them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast, get_args

from gpux._program import name_program
from gpux.errors import Usage

Strict: TypeAlias = bool | Literal["provider", "nodes"]
"""Whether a fallback is an error.

False: gpux falls back, and the verdict reports it. True or "provider": the first requested provider must run at least
one node. "nodes": also, no node may run outside the requested providers.
"""
Isolation: TypeAlias = Literal["thread", "process"]
"""Where a model runs: in this process, or in a worker process, whose crash is an error of its runs alone.

A worker is the program that comes with the package; one that ends is replaced.
"""
Sandbox: TypeAlias = Literal["off", "on", "strict"]
"""Whether the worker process may use only the model's files and the devices.

"on": as far as the kernel supports it. "strict": an error where it does not support all of it. Both imply isolation
"process", where it is "on" for models that were pulled.
"""
OptionValue: TypeAlias = str | int | float | bool | os.PathLike[str]
"""A value as gpux.yml has it; True and False are "true" and "false"."""
Options: TypeAlias = Mapping[str, OptionValue | Mapping[str, OptionValue]]
"""Less common settings of a model.

"precision" ("fp32", "int8", …), "device" (an index), "inter_threads", "optimization", "cache_directory", "config" (a
gpux.yml); "session" and "provider_libraries" with a dict each; the name of a provider with a dict of its options.
"""

_isolations = get_args(Isolation)
_sandboxes = get_args(Sandbox)
_single = {
    "config": str,
    "device": int,
    "precision": str,
    "inter_threads": int,
    "optimization": str,
    "cache_directory": str,
}


def text_of(value: OptionValue) -> str:
    """A value as gpux.yml and the command line spell it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**32:
        raise Usage(f"{name} is {value!r}, and not a whole number from 0")
    return value


def milliseconds(name: str, seconds: object) -> int | None:
    """A timeout in seconds, rounded up to milliseconds."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 1e9:
        raise Usage(f"{name} is {seconds!r}, and not a number of seconds above 0")
    return max(1, -int(-seconds * 1000 // 1))


def _pairs(key: str, value: object) -> list[tuple[str, str]]:
    if not isinstance(value, Mapping):
        raise Usage(f"options[{key!r}] is {value!r}, and not a dict")
    return [(str(name), text_of(one)) for name, one in cast("Mapping[object, OptionValue]", value).items()]


def _strict(strict: object) -> str:
    if strict is True:
        return "provider"
    if strict is False:
        return "off"
    if strict in ("provider", "nodes"):
        return str(strict)
    raise Usage(f"strict is {strict!r}, and not True, False, 'provider' or 'nodes'")


def model_options(
    provider: str | None = None,
    *,
    strict: Strict = False,
    threads: int | None = None,
    memory_limit: int | str | None = None,
    isolation: Isolation | None = None,
    sandbox: Sandbox | None = None,
    timeout: float | None = None,
    options: Options | None = None,
) -> dict[str, Any]:
    """The settings of a model. What is not given here is decided by GPUX_* variables, the package and gpux.yml."""
    settings: dict[str, Any] = {"provider_from": "provider="}
    if provider is not None and not isinstance(provider, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Usage(f"provider is {provider!r}, and not the name of a provider such as 'cpu', or 'auto'")
    if provider:
        settings["provider"] = provider
    if strict is not False:
        settings["strict"] = _strict(strict)
    if threads is not None:
        settings["intra_threads"] = _count("threads", threads)
    if memory_limit is not None:
        if isinstance(memory_limit, int) and memory_limit < 0:
            raise Usage(f"memory_limit is {memory_limit}, and not a number of bytes")
        settings["memory"] = str(memory_limit)
    for name, where, accepted in (("isolation", isolation, _isolations), ("sandbox", sandbox, _sandboxes)):
        if where is None:
            continue
        if where not in accepted:
            raise Usage(f"{name} is {where!r}, and not {', '.join(accepted)}")
        settings[name] = where
    if isolation is not None or sandbox is not None:
        name_program()
    timeout_ms = milliseconds("timeout", timeout)
    if timeout_ms is not None:
        settings["timeout_ms"] = timeout_ms
    if options is None:
        return settings
    if not isinstance(options, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Usage(f"options is {options!r}, and not a dict")
    provider_options: list[tuple[str, list[tuple[str, str]]]] = []
    for key, value in options.items():
        if key in _single:
            settings[key] = _count(key, value) if _single[key] is int else text_of(value)  # type: ignore[arg-type]
        elif key in ("session", "provider_libraries"):
            settings[key] = _pairs(key, value)
        elif isinstance(value, Mapping) and re.fullmatch(r"[A-Za-z][\w.-]*", key):
            provider_options.append((key, _pairs(key, value)))
        else:
            known = ", ".join([*_single, "session", "provider_libraries"])
            raise Usage(f"options has no key {key!r}: {known}, or a provider and a dict of its options")
    if provider_options:
        settings["provider_options"] = provider_options
    return settings
