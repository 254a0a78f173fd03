#!/usr/bin/env python3
"""A registry (OCI distribution 1.1) that misbehaves on command, for tests. Standard library only.

usage: registry_server.py FOLDER    prints its port, and serves until standard input is closed

What it does wrong is in FOLDER/faults.json, read at every request:
  auth            "basic" or "bearer": needs gpux:secret
  token_seconds   how long a token is valid (default 300)
  promised_seconds  the token server says that a token is valid for so long
  cut_after       blobs are cut after so many bytes of each answer
  cuts            so many answers are cut, then none
  slow_seconds    between pieces of a blob of 16 KiB
  wrong_bytes     blobs have one wrong byte
  wrong_manifest  manifests have another byte
  longer          blobs have more bytes than their manifest says
  no_ranges       ranges are ignored
  fail            {"status": 503, "times": 2, "retry_after": 1, "path": "blobs"}; the times of each status are counted
                  from the first
  manifest        manifests are these bytes
  referrers       the referrers API is supported
  upload_cut      an upload request is cut after so many bytes, which are kept
  forget_uploads  uploads that were cut are forgotten
  mount_status    what is answered to an upload that would mount a blob of another repository
FOLDER/requests.jsonl records what was asked; FOLDER/data has manifests and blobs.
"""

import base64
import hashlib
import json
import re
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER = Path(sys.argv[1])
DATA = FOLDER / "data"
LOCK = threading.Lock()
UPLOADS = {}
TOKENS = {}
COUNTS = {}
PIECE = 16384
CREDENTIAL = "Basic " + base64.b64encode(b"gpux:secret").decode()


def faults():
    try:
        return json.loads((FOLDER / "faults.json").read_text())
    except FileNotFoundError:
        return {}


def count(name):
    with LOCK:
        COUNTS[name] = COUNTS.get(name, 0) + 1
        return COUNTS[name]


def digest_of(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *ignored):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        if status != 204 and "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code, **headers):
        self.answer(status, json.dumps({"errors": [{"code": code, "message": code.lower()}]}).encode(),
                    Content_Type="application/json", **headers)

    def cut(self):
        self.wfile.flush()
        self.close_connection = True
        self.connection.close()

    def has_access(self, wrong):
        kind = wrong.get("auth")
        given = self.headers.get("Authorization", "")
        if kind == "basic" and given != CREDENTIAL:
            self.refuse(401, "UNAUTHORIZED", WWW_Authenticate='Basic realm="test"')
            return False
        if kind == "bearer":
            with LOCK:
                valid = TOKENS.get(given.removeprefix("Bearer "), 0) > time.time()
            if not valid:
                realm = f"http://{self.headers['Host']}/token"
                self.refuse(401, "UNAUTHORIZED", WWW_Authenticate=f'Bearer realm="{realm}",service="test"')
                return False
        return True

    def token(self, wrong, query):
        if self.command == "POST":
            # OAuth 2: an identity token in place of a user name and a password.
            form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            if form.get("grant_type") != ["refresh_token"] or form.get("refresh_token") != ["identity"]:
                return self.refuse(401, "UNAUTHORIZED")
        elif self.headers.get("Authorization") != CREDENTIAL:
            return self.refuse(401, "UNAUTHORIZED")
        token = f"token-{count('tokens')}"
        seconds = wrong.get("token_seconds", 300)
        with LOCK:
            TOKENS[token] = time.time() + seconds
        self.answer(200, json.dumps({"token": token, "expires_in": max(1, int(wrong.get("promised_seconds", seconds)))}).encode())

    def serve(self):
        wrong = faults()
        url = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(url.query)
        with LOCK, open(FOLDER / "requests.jsonl", "a") as record:
            record.write(json.dumps({"method": self.command, "path": self.path, "range": self.headers.get("Range"),
                                     "content_range": self.headers.get("Content-Range"),
                                     "authorization": self.headers.get("Authorization")}) + "\n")
        if url.path == "/token":
            return self.token(wrong, query)
        failing = wrong.get("fail")
        if failing and failing.get("path", "") in url.path and count(f"fail {failing['status']}") <= failing["times"]:
            more = {"Retry_After": failing["retry_after"]} if "retry_after" in failing else {}
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return self.refuse(failing["status"], "TOOMANYREQUESTS", **more)
        if not self.has_access(wrong):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return None
        if url.path == "/v2/":
            return self.answer(200)
        for pattern, handler in ROUTES:
            if found := re.fullmatch(pattern, url.path):
                return handler(self, wrong, query, *found.groups())
        return self.refuse(404, "NAME_UNKNOWN")

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = serve

    def manifest(self, wrong, query, repository, selector):
        place = DATA / repository / "manifests"
        if self.command == "PUT":
            content = self.rfile.read(int(self.headers["Content-Length"]))
            place.mkdir(parents=True, exist_ok=True)
            for name in (selector, digest_of(content)):
                (place / name).write_bytes(content)
                (place / (name + ".type")).write_text(self.headers["Content-Type"])
            more = {}
            if wrong.get("referrers") and (subject := json.loads(content).get("subject")):
                more["OCI_Subject"] = subject["digest"]
                listed = place.parent / "referrers" / subject["digest"]
                listed.mkdir(parents=True, exist_ok=True)
                (listed / digest_of(content)).write_text(json.dumps({
                    "mediaType": self.headers["Content-Type"], "digest": digest_of(content), "size": len(content),
                    "artifactType": json.loads(content).get("artifactType", "")}))
            return self.answer(201, Docker_Content_Digest=digest_of(content), **more)
        file = place / selector
        if not file.exists():
            return self.refuse(404, "MANIFEST_UNKNOWN")
        content = file.read_bytes()
        if "manifest" in wrong:
            content = wrong["manifest"].encode()
        digest = digest_of(content)
        if wrong.get("wrong_manifest"):
            content = content.replace(b'"schemaVersion"', b'"schemaversion"', 1)
        return self.answer(200, content, Content_Type=(place / (selector + ".type")).read_text(),
                           Docker_Content_Digest=digest)

    def referrers(self, wrong, query, repository, digest):
        if not wrong.get("referrers"):
            return self.answer(404)
        listed = DATA / repository / "referrers" / digest
        entries = [json.loads(file.read_text()) for file in sorted(listed.iterdir())] if listed.is_dir() else []
        return self.answer(200, json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
                                            "manifests": entries}).encode(),
                           Content_Type="application/vnd.oci.image.index.v1+json")

    def blob(self, wrong, query, repository, digest):
        file = DATA / repository / "blobs" / digest
        if not file.exists():
            return self.refuse(404, "BLOB_UNKNOWN")
        content = file.read_bytes()
        if wrong.get("wrong_bytes"):
            content = content[:-1] + bytes([content[-1] ^ 1])
        if wrong.get("longer"):
            content += b"more"
        start, status, more = 0, 200, {}
        if (wanted := self.headers.get("Range")) and not wrong.get("no_ranges"):
            start = int(re.match(r"bytes=(\d+)-", wanted)[1])
            if start >= len(content):
                return self.refuse(416, "RANGE_INVALID")
            status, more = 206, {"Content_Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
        body = content[start:]
        if self.command == "HEAD":
            return self.answer(200, Content_Length=len(content))
        end = len(body)
        if wrong.get("cut_after", end) < end and count("cuts") <= wrong.get("cuts", 1 << 30):
            end = min(end, wrong["cut_after"])
        self.send_response(status)
        for name, value in more.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        for at in range(0, end, PIECE):
            self.wfile.write(body[at:min(at + PIECE, end)])
            if "slow_seconds" in wrong:
                self.wfile.flush()
                time.sleep(wrong["slow_seconds"])
        if end < len(body):
            self.cut()
        return None

    def begin(self, wrong, query, repository):
        if "mount" in query:
            if "mount_status" in wrong:
                return self.refuse(wrong["mount_status"], "DENIED")
            source = DATA / query["from"][0] / "blobs" / query["mount"][0]
            if source.exists():
                self.keep(repository, source.read_bytes())
                return self.answer(201, Docker_Content_Digest=query["mount"][0])
        name = f"upload-{count('uploads')}"
        with LOCK:
            UPLOADS[name] = b""
        return self.answer(202, Location=f"/v2/{repository}/blobs/uploads/{name}?state=x", Range="0-0")

    def keep(self, repository, content):
        place = DATA / repository / "blobs"
        place.mkdir(parents=True, exist_ok=True)
        (place / digest_of(content)).write_bytes(content)

    def upload(self, wrong, query, repository, name):
        if name not in UPLOADS:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return self.refuse(404, "BLOB_UPLOAD_UNKNOWN")
        place = f"/v2/{repository}/blobs/uploads/{name}?state=x"
        if self.command == "GET":
            return self.answer(204, Location=place, Range=f"0-{max(0, len(UPLOADS[name]) - 1)}")
        length = int(self.headers.get("Content-Length") or 0)
        if "upload_cut" in wrong and length > wrong["upload_cut"] and count("upload_cuts") <= wrong.get("cuts", 1 << 30):
            UPLOADS[name] += self.rfile.read(wrong["upload_cut"])
            if wrong.get("forget_uploads"):
                del UPLOADS[name]
            return self.cut()
        if span := self.headers.get("Content-Range"):
            if int(span.split("-")[0]) != len(UPLOADS[name]):
                self.rfile.read(length)
                return self.refuse(416, "RANGE_INVALID")
        UPLOADS[name] += self.rfile.read(length)
        if self.command == "PATCH":
            return self.answer(202, Location=place, Range=f"0-{len(UPLOADS[name]) - 1}")
        content = UPLOADS.pop(name)
        if digest_of(content) != query["digest"][0]:
            return self.refuse(400, "DIGEST_INVALID")
        self.keep(repository, content)
        return self.answer(201, Docker_Content_Digest=digest_of(content))


ROUTES = [
    (r"/v2/(.+)/manifests/([^/]+)", Handler.manifest),
    (r"/v2/(.+)/referrers/([^/]+)", Handler.referrers),
    (r"/v2/(.+)/blobs/uploads/", Handler.begin),
    (r"/v2/(.+)/blobs/uploads/([^/]+)", Handler.upload),
    (r"/v2/(.+)/blobs/(sha256:[0-9a-f]{64})", Handler.blob),
]


def main():
    DATA.mkdir(parents=True, exist_ok=True)
    ThreadingHTTPServer.daemon_threads = True
    ThreadingHTTPServer.handle_error = lambda *ignored: None  # connections that are cut
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
