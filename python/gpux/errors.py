"""The exceptions of gpux, one for each code that the C++ library and the program use."""

from __future__ import annotations

from typing import ClassVar


class Error(RuntimeError):
    """The base of all exceptions of gpux, and a RuntimeError. The message is one line.

    Some are also one of Python's own exceptions, so that `except FileNotFoundError` catches gpux.NotFound.

    `code` is the name in JSON and documents ("invalid_input"), `exit_code` that of the program.
    """

    code: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = 1


class Internal(Error):
    """A bug in gpux: report it."""


class Usage(Error, ValueError):
    """The call is wrong: correct it."""

    code = "usage"
    exit_code = 2


class InvalidConfig(Error, ValueError):
    """gpux.yml is wrong: edit it."""

    code = "invalid_config"
    exit_code = 3


class InvalidModel(Error, ValueError):
    """The model file cannot be used: get another."""

    code = "invalid_model"
    exit_code = 4


class ProviderUnavailable(Error):
    """A required provider cannot run here, or failed: install it or request another."""

    code = "provider_unavailable"
    exit_code = 5


class InvalidInput(Error, ValueError):
    """The data does not fit the model, or a node fails on it: correct the data."""

    code = "invalid_input"
    exit_code = 6


class NotFound(Error, FileNotFoundError):
    """No such model, name or file."""

    code = "not_found"
    exit_code = 7


class ResourceExhausted(Error, MemoryError):
    """Memory or a queue is full: try later or with less."""

    code = "resource_exhausted"
    exit_code = 8


class DeadlineExceeded(Error, TimeoutError):
    """The deadline passed."""

    code = "deadline_exceeded"
    exit_code = 9


class Network(Error, ConnectionError):
    """A port is in use, or a running server does not answer: free it or try later."""

    code = "network"
    exit_code = 10


class Permission(Error, PermissionError):
    """Not allowed."""

    code = "permission"
    exit_code = 11


class Storage(Error, OSError):
    """The disk is full, read-only or unreadable."""

    code = "storage"
    exit_code = 13


class Interrupted(Error):
    """Stopped by a signal whose handler raises no exception of its own, or by cancelling the task."""

    code = "interrupted"
    exit_code = 130


by_exit_code: dict[int, type[Error]] = {
    error.exit_code: error
    for error in (
        Internal,
        Usage,
        InvalidConfig,
        InvalidModel,
        ProviderUnavailable,
        InvalidInput,
        NotFound,
        ResourceExhausted,
        DeadlineExceeded,
        Network,
        Permission,
        Storage,
        Interrupted,
    )
}
