#!/usr/bin/env python3
"""A server that answers as the Hugging Face hub does, with the standard library alone.

usage: hub_server.py FOLDER [--port N]

FOLDER/ORG/NAME/… are the files of the repositories, and FOLDER/ORG/NAME@REVISION/… those of another revision, with
'/' as %2F. It prints "hub http://127.0.0.1:PORT" and serves until its standard
input ends. Files of 1 kB or more are "large files": requests for them are redirected to another host (localhost instead of
127.0.0.1), as the hub redirects to its storage. Faults are set by POST /-/faults with a JSON object:

  cut      close a transfer after so many bytes of the body, each time with the next of this list of numbers
  status   answer requests for files with these statuses, one after the other
  api      the same for /api
  slow     seconds before each 64 kB
  wrong    change a byte of each large file
  size     the hub lists files with so many bytes more than they have
  no_ranges  answers with whole files only
  no_digests  lists no digests of files
  id       the id of every repository
  retry_after  the value of the header Retry-After with a status of 429 or 503
  no_digests  the hub lists names and sizes alone
  head_status  what HEAD of a file at an address is answered with
  weak_etag  files at addresses have this weak ETag
  files    a GET of a file at an address gives the next of this list of files beside it

GET /-/requests is the list of the requests so far: method, host, path, range, authorization.
"""

import argparse
import hashlib
import http.server
import json
import pathlib
import random
import socket
import ssl
import sys
import threading
import time
import urllib.parse

LARGE = 1000
TOKEN = "hf_good"


def git_blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def safetensors(size: int, name: str = "notes") -> bytes:
    """A file with one tensor of so many random bytes."""
    header = json.dumps({name: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + random.randbytes(size)


class Hub:
    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self.faults: dict = {}
        self.requests: list = []
        self.renamed = {"old-org/old-name": "org/tiny"}
        self.gated = {"org/gated"}
        self.private = {"org/private"}

    def commit_of(self, repository: str) -> str:
        """Also of "ORG/NAME@REVISION"."""
        return hashlib.sha1(repository.encode()).hexdigest()

    def content_at(self, repository: str, revision: str) -> str:
        """The folder with the files of a revision, or of a commit; empty where there is none."""
        if revision in ("", "main", "v1.0", "refs/pr/1", self.commit_of(repository)):
            return repository
        for folder in self.folder.glob(f"{repository}@*"):
            name = folder.relative_to(self.folder).as_posix()
            if revision in (urllib.parse.unquote(name.partition("@")[2]), self.commit_of(name)):
                return name
        return ""

    def take(self, kind: str):
        with self.lock:
            left = self.faults.get(kind)
            return left.pop(0) if left else None

    def files_of(self, repository: str) -> list:
        root = self.folder / repository
        return sorted(path for path in root.rglob("*") if path.is_file())

    def repository_exists(self, repository: str) -> bool:
        parts = repository.split("/")
        return len(parts) == 2 and ".." not in parts and (self.folder / repository).is_dir()


def task_of(repository: pathlib.Path) -> str:
    """`pipeline_tag` of the model card, which the hub guesses where there is none."""
    card = repository / "README.md"
    for line in card.read_text().splitlines() if card.exists() else []:
        if line.startswith("pipeline_tag: "):
            return line.removeprefix("pipeline_tag: ")
    return "sentence-similarity"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *arguments: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/-/faults":
            with self.hub.lock:
                self.hub.faults = json.loads(body)
                self.hub.requests = []
            return self.answer(200, b"{}")
        return self.answer(404, b"")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(url.path)
        if path == "/-/requests":
            return self.answer(200, json.dumps(self.hub.requests).encode())
        with self.hub.lock:
            self.hub.requests.append(
                {
                    "method": self.command,
                    "host": self.headers.get("Host", ""),
                    "path": self.path,
                    "range": self.headers.get("Range", ""),
                    "authorization": self.headers.get("Authorization", ""),
                }
            )
        if path.startswith("/-/storage/"):
            return self.storage(path.removeprefix("/-/storage/"))
        if path == "/api/models":
            return self.search(urllib.parse.parse_qs(url.query))
        if path.startswith("/api/models/"):
            return self.model_info(path.removeprefix("/api/models/"), urllib.parse.parse_qs(url.query))
        return self.resolve(path.lstrip("/"))

    def answer(self, status: int, body: bytes, headers: dict | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def failure(self, status: int, code: str, message: str) -> None:
        headers = {"X-Error-Message": message}
        if code:
            headers["X-Error-Code"] = code
        if status in (429, 503) and "retry_after" in self.hub.faults:
            headers["Retry-After"] = str(self.hub.faults["retry_after"])
        self.answer(status, json.dumps({"error": message}).encode(), headers)

    def token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def is_refused(self, repository: str, is_file: bool) -> bool:
        """Answers where the repository or the token does not give access."""
        if self.token() not in ("", TOKEN):
            self.failure(401, "", "Invalid credentials in Authorization header")
            return True
        is_hidden = repository in self.hub.private and self.token() != TOKEN
        if is_hidden or not self.hub.repository_exists(repository):
            self.failure(401, "RepoNotFound", "Repository not found")
            return True
        if is_file and repository in self.hub.gated and self.token() != TOKEN:
            self.failure(401, "GatedRepo", "Access to this model is restricted. You must be authenticated to access it.")
            return True
        return False

    def search(self, query: dict) -> None:
        words = query.get("search", [""])[0].lower()
        found = []
        for folder in sorted(self.hub.folder.glob("*/*")):
            name = f"{folder.parent.name}/{folder.name}"
            if words in name.lower() and "@" not in name:
                found.append(
                    {
                        "id": name,
                        "downloads": 12,
                        "likes": 3,
                        "pipeline_tag": "sentence-similarity",
                        "lastModified": "2026-01-31T12:00:00.000Z",
                        "tags": ["onnx", "license:mit"],
                        "private": False,
                    }
                )
        self.answer(200, json.dumps(found[: int(query.get("limit", ["20"])[0])]).encode())

    def tree(self, repository: str) -> None:
        if self.is_refused(repository, is_file=False):
            return None
        entries = []
        root = self.hub.folder / repository
        for file in self.hub.files_of(repository):
            content = file.read_bytes()
            entry: dict = {
                "type": "file",
                "oid": git_blob_id(content),
                "size": len(content),
                "path": file.relative_to(root).as_posix(),
            }
            if len(content) >= LARGE:
                entry["lfs"] = {
                    "oid": hashlib.sha256(content).hexdigest(),
                    "size": len(content),
                    "pointerSize": 134,
                }
            entries.append(entry)
        return self.answer(200, json.dumps(entries).encode())

    def model_info(self, path: str, query: dict) -> None:
        if status := self.hub.take("api"):
            return self.failure(status, "", "fault")
        if "/tree/" in path:
            return self.tree(path.partition("/tree/")[0])
        repository, _, revision = path.partition("/revision/")
        if repository in self.hub.renamed:
            new = self.hub.renamed[repository] + (f"/revision/{revision}" if revision else "")
            return self.answer(307, b"", {"Location": f"/api/models/{new}?{urllib.parse.urlencode(query, True)}"})
        if self.is_refused(repository, is_file=False):
            return None
        source = self.hub.content_at(repository, revision)
        if not source:
            return self.failure(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        commit = self.hub.commit_of(source)
        siblings = []
        root = self.hub.folder / source
        for file in self.hub.files_of(source):
            content = file.read_bytes()
            entry: dict = {"rfilename": file.relative_to(root).as_posix()}
            if "blobs" in query:
                entry["size"] = len(content) + self.hub.faults.get("size", 0)
            if "blobs" in query and not self.hub.faults.get("no_digests"):
                if self.hub.faults.get("no_digests"):
                    siblings.append(entry)
                    continue
                entry["blobId"] = git_blob_id(content)
                if len(content) >= LARGE:
                    entry["lfs"] = {
                        "sha256": hashlib.sha256(content).hexdigest(),
                        "size": entry["size"],
                        "pointerSize": 134,
                    }
            siblings.append(entry)
        info = {
            "_id": "0",
            "id": self.hub.faults.get("id", repository),
            "modelId": repository,
            "author": repository.split("/")[0],
            "sha": commit,
            "lastModified": "2026-01-31T12:00:00.000Z",
            "createdAt": "2026-01-31T12:00:00.000Z",
            "private": repository in self.hub.private,
            "gated": "auto" if repository in self.hub.gated else False,
            "disabled": False,
            "pipeline_tag": task_of(root),
            "library_name": "sentence-transformers",
            "downloads": 12,
            "likes": 3,
            "tags": ["onnx", "license:mit"],
            "siblings": siblings,
            "spaces": [],
        }
        return self.answer(200, json.dumps(info).encode())

    def resolve(self, path: str) -> None:
        repository, _, rest = path.partition("/resolve/")
        if not rest:
            return self.plain(path)
        revision, _, name = rest.partition("/")
        if status := self.hub.take("status"):
            return self.failure(status, "", "fault")
        if self.is_refused(repository, is_file=True):
            return None
        source = self.hub.content_at(repository, revision)
        if not source:
            return self.failure(404, "RevisionNotFound", "Invalid rev id")
        commit = self.hub.commit_of(source)
        file = self.hub.folder / source / name
        if ".." in name.split("/") or not file.is_file():
            return self.failure(404, "EntryNotFound", "Entry not found")
        content = file.read_bytes()
        if len(content) < LARGE:
            headers = {"X-Repo-Commit": commit, "ETag": f'"{git_blob_id(content)}"', "Accept-Ranges": "bytes"}
            return self.content(content, headers)
        digest = hashlib.sha256(content).hexdigest()
        port = self.server.server_address[1]
        return self.answer(
            302,
            b"",
            {
                "X-Repo-Commit": commit,
                "X-Linked-Size": str(len(content)),
                "X-Linked-ETag": f'"{digest}"',
                "Location": f"{self.server.scheme}://localhost:{port}/-/storage/{urllib.parse.quote(source)}/{urllib.parse.quote(name)}?signature=secret",
            },
        )

    def storage(self, path: str) -> None:
        """The other host: it answers whoever has the address, and refuses a token as storage services do."""
        if self.headers.get("Authorization"):
            return self.answer(400, b"only one authentication mechanism is allowed")
        content = (self.hub.folder / path).read_bytes()
        if self.hub.faults.get("wrong"):
            content = content[:-1] + bytes([content[-1] ^ 1])
        return self.content(content, {"ETag": f'"{hashlib.md5(content).hexdigest()}"', "Accept-Ranges": "bytes"})

    def plain(self, path: str) -> None:
        """A file at an address: FOLDER/files/…"""
        file = self.hub.folder / path
        if not path.startswith("files/") or ".." in path.split("/") or not file.is_file():
            return self.answer(404, b"not found")
        if self.command == "HEAD" and "head_status" in self.hub.faults:
            return self.answer(self.hub.faults["head_status"], b"")
        if self.command == "GET" and (other := self.hub.take("files")):
            file = file.with_name(other)
        content = file.read_bytes()
        etag = f'"{hashlib.md5(content).hexdigest()}"'
        if "weak_etag" in self.hub.faults:
            etag = f'W/"{self.hub.faults["weak_etag"]}"'
        return self.content(content, {"ETag": etag, "Accept-Ranges": "bytes"})

    def content(self, content: bytes, headers: dict) -> None:
        status = 200
        total = len(content)
        value = self.headers.get("Range", "")
        if value and not self.hub.faults.get("no_ranges"):
            first, _, last = value.removeprefix("bytes=").partition("-")
            begin = int(first)
            end = min(int(last) + 1 if last else total, total)
            if begin >= total:
                return self.answer(416, b"", {"Content-Range": f"bytes */{total}"})
            content = content[begin:end]
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{total}"
            status = 206
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return None
        cut = self.hub.take("cut") if total >= LARGE else None
        if cut is not None and cut < len(content):
            self.wfile.write(content[:cut])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return None
        step = 65536
        for at in range(0, len(content), step):
            if delay := self.hub.faults.get("slow"):
                time.sleep(delay)
            self.wfile.write(content[at : at + step])
        return None


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    scheme = "http"

    def handle_error(self, *arguments: object) -> None:
        pass  # a client that was killed


def start(folder: pathlib.Path, port: int = 0, tls: ssl.SSLContext | None = None) -> Server:
    handler = type("HubHandler", (Handler,), {"hub": Hub(folder)})
    server = Server(("127.0.0.1", port), handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        server.scheme = "https"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    running = start(arguments.folder, arguments.port)
    print(f"hub http://127.0.0.1:{running.server_address[1]}", flush=True)
    sys.stdin.read()
