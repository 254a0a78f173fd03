"""A server for the time of a with statement: for notebooks and tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from gpux._closing import Closing
from gpux._options import OptionValue, text_of
from gpux._program import program
from gpux.errors import DeadlineExceeded, Usage
from gpux.machine import error_of
from gpux.runtime import path_of

Models: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping[str, str | os.PathLike[str]]"
"""A path or a name in the store, several of them, or a dict of them by the name to serve under."""


def _arguments(models: Models) -> list[str]:
    if isinstance(models, Mapping):
        return [f"{name}={path_of(model)}" for name, model in models.items()]
    if isinstance(models, str | os.PathLike):
        return [path_of(models)]
    return [path_of(model) for model in models]


def _flags(flags: Mapping[str, OptionValue | None]) -> list[str]:
    arguments: list[str] = []
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(flag)
        elif value is not None and value is not False:
            arguments.append(f"{flag}={text_of(value)}")
    return arguments


class Server(Closing):
    """A running `gpux serve`, which gpux.serve() starts.

    It is stopped by close(), at the end of a with statement, or with this process. Its attributes may be read from
    several threads at once.
    """

    def __init__(
        self,
        models: Models,
        *,
        provider: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        grpc: bool = False,
        timeout: float = 600,
        flags: Mapping[str, OptionValue | None] | None = None,
    ) -> None:
        if isinstance(port, bool) or not 0 <= port < 65536:
            raise Usage(f"port is {port!r}, and not a number from 0 to 65535")
        command = [program(), "serve", *_arguments(models), "--json", f"--host={host}", f"--port={port}"]
        command += ["--grpc-port=0"] if grpc else ["--no-grpc"]
        command += [f"--provider={provider}"] if provider else []
        command += _flags(flags or {})
        # A pipe that nobody reads would block the server when its log has filled it.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, start_new_session=True
        )
        try:
            self._report = self._wait_until_ready(timeout)
        except BaseException:
            self.close()
            raise

    def _wait_until_ready(self, timeout: float) -> dict[str, Any]:
        lines: list[bytes] = []
        output = self._process.stdout
        if output is None:
            raise AssertionError
        reader = threading.Thread(target=lambda: lines.append(output.readline()), daemon=True)
        reader.start()
        reader.join(timeout)
        if reader.is_alive():
            raise DeadlineExceeded(f"the server does not listen after {timeout} s")
        if lines and lines[0].strip():
            return cast("dict[str, Any]", json.loads(lines[0]))
        raise error_of(self._process.wait(), self.log())

    @property
    def address(self) -> str:
        """Such as "http://127.0.0.1:41234"."""
        return cast("str", self._report["address"])

    @property
    def port(self) -> int:
        """Port of the HTTP server."""
        return cast("int", self._report["port"])

    @property
    def grpc_port(self) -> int | None:
        """Port of the gRPC server; None: without gRPC."""
        return cast("int | None", self._report["grpc_port"])

    @property
    def pid(self) -> int:
        """Id of the server's process."""
        return self._process.pid

    @property
    def models(self) -> list[dict[str, Any]]:
        """Name, version and verdict of each model that is served, as they were at the start."""
        return cast("list[dict[str, Any]]", self._report["models"])

    @property
    def is_running(self) -> bool:
        """Whether the process exists."""
        return self._process.poll() is None

    def log(self) -> str:
        """What the server has written to standard error until now. Not after close()."""
        # pread() leaves the position alone, at which the server writes.
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace")

    def close(self, timeout: float = 30) -> None:
        """Shut the server down: it answers the requests that it has.

        Args:
            timeout: after this many seconds it is killed.
        """
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()

    def __del__(self) -> None:
        process: subprocess.Popen[bytes] | None = getattr(self, "_process", None)
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()

    def __repr__(self) -> str:
        return f"Server({self.address if self.is_running else 'closed'})"


def serve(
    models: Models,
    *,
    provider: str | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    grpc: bool = False,
    timeout: float = 600,
    **flags: OptionValue | None,
) -> Server:
    """Start `gpux serve` and wait until it answers.

        with gpux.serve("digits") as server:
            requests.post(server.address + "/predict", json=…)

    Args:
        models: a path or a name in the store, a list of them, or a dict of them by the name to serve under.
        provider: as for gpux.Runtime.
        host: address to listen on.
        port: 0: a free one.
        grpc: also listen for gRPC, on a free port.
        timeout: for the start, in seconds.
        flags: further flags of `gpux serve`: max_queue_delay="5ms" is --max-queue-delay=5ms, and True is a flag
            without a value.

    Raises:
        gpux.NotFound (a model, or the program), gpux.InvalidModel, gpux.Usage, gpux.Network (the port is in use),
        gpux.DeadlineExceeded (no answer within `timeout`).
    """
    return Server(models, provider=provider, host=host, port=port, grpc=grpc, timeout=timeout, flags=flags)


__all__ = ["Models", "Server", "serve"]
