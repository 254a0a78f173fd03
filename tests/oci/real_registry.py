#!/usr/bin/env python3
"""Packages travel to Debian's docker-registry, with TLS and a password, and through skopeo, byte by byte.

usage: real_registry.py GPUX MODEL.onnx
Exit code 77 if docker-registry, skopeo or openssl is missing.
"""

import base64
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

PROGRAM, MODEL = sys.argv[1], sys.argv[2]
# gpux:secret, hashed with bcrypt.
PASSWORD_FILE = "gpux:$2b$05$gvZNo495yrjHdI2O3zn4nOpy5A7xA4MHBpL1ny8IwudeuBbUJ0C1W\n"
CHECKS = []


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


for needed in ("docker-registry", "skopeo", "openssl"):
    if shutil.which(needed) is None:
        skip(f"{needed} is not installed")

FOLDER = Path(tempfile.mkdtemp(prefix="gpux-registry-"))
for variable in ("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"):
    os.environ.pop(variable, None)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make_certificates():
    run = lambda *words: subprocess.run(["openssl", *words], check=True, cwd=FOLDER, capture_output=True)
    run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
        "/CN=gpux test authority", "-keyout", "ca.key", "-out", "ca.crt")
    run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost", "-keyout",
        "server.key", "-out", "server.csr")
    (FOLDER / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    run("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
        "-extfile", "names", "-out", "server.crt")


class Registry:
    def __init__(self, name, secure):
        self.port = free_port()
        self.address = f"localhost:{self.port}"
        self.data = FOLDER / name
        lines = ["version: 0.1", "log: {level: error}", "storage:", f"  filesystem: {{rootdirectory: {self.data}}}",
                 "  delete: {enabled: true}", "http:", f"  addr: localhost:{self.port}"]
        if secure:
            (FOLDER / "htpasswd").write_text(PASSWORD_FILE)
            lines += [f"  tls: {{certificate: {FOLDER}/server.crt, key: {FOLDER}/server.key}}", "auth:",
                      f"  htpasswd: {{realm: test, path: {FOLDER}/htpasswd}}"]
        config = FOLDER / f"{name}.yml"
        config.write_text("\n".join(lines) + "\n")
        self.log = open(FOLDER / f"{name}.log", "wb")
        self.process = subprocess.Popen(["docker-registry", "serve", str(config)], stdout=self.log, stderr=self.log)
        for _ in range(200):
            try:
                socket.create_connection(("localhost", self.port), 0.2).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("docker-registry does not start: " + (FOLDER / f"{name}.log").read_text())

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


class Machine:
    """gpux with a home and a Docker configuration of its own."""

    def __init__(self, name, ca=True):
        self.home = FOLDER / f"home-{name}"
        self.environment = {**os.environ, "GPUX_HOME": str(self.home), "DOCKER_CONFIG": str(FOLDER / f"docker-{name}")}
        if ca:
            self.environment["SSL_CERT_FILE"] = str(FOLDER / "ca.crt")

    def gpux(self, *words, code=0, text=None, **variables):
        done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, input=text, timeout=120,
                              env={**self.environment, **variables})
        if done.returncode != code:
            raise AssertionError(f"gpux {' '.join(map(str, words))}: exit code {done.returncode}, expected {code}\n"
                                 f"{done.stdout}{done.stderr}")
        return done

    def json(self, *words, **others):
        return json.loads(self.gpux(*words, "--json", **others).stdout.splitlines()[-1])

    def names(self):
        return [f"{model['name']}:{model['tag']}" for model in self.json("images")]

    def blobs(self):
        return {file.name: file.read_bytes() for file in (self.home / "blobs/sha256").iterdir()}


def skopeo(*words):
    done = subprocess.run(["skopeo", "--insecure-policy", *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(what, holds=True):
    assert holds, what
    CHECKS.append(what)
    print(f"  {what}")


def blobs_of_layout(folder):
    return {file.name: file.read_bytes() for file in (folder / "blobs/sha256").iterdir()}


def test_plain(plain, author):
    name = f"{plain.address}/team/digits:1"
    author.gpux("tag", "digits", name)
    said = author.json("push", name)
    check("push over HTTP to loopback without a flag", said["sent"] >= 2)
    check("the second push sends nothing", author.json("push", name)["sent"] == 0)
    other = f"{plain.address}/team/copy:1"
    author.gpux("tag", "digits", other)
    check("a push to another repository mounts", author.json("push", other)["mounted"] >= 2)
    reader = Machine("reader")
    pulled = reader.json("pull", name)
    check("pull gives the same id", pulled["id"] == said["digest"])
    check("the pulled model runs", reader.gpux("run", name, '{"x": [[1, 2, 3]]}').returncode == 0)
    check("manifest and blobs are byte-equal", reader.blobs() == author.blobs())
    check("a pull of what is here receives nothing", reader.json("pull", name)["received_bytes"] == 0)
    by_digest = Machine("by-digest")
    by_digest.gpux("pull", f"{plain.address}/team/digits@{said['digest']}", "-t", "mine:2")
    check("pull by digest under another name", by_digest.names() == ["mine:2"])
    wrong = "sha256:" + "0" * 64
    check("a missing digest: exit 7", by_digest.gpux("pull", f"{plain.address}/team/digits@{wrong}", code=7).returncode == 7)
    check("a missing tag: exit 7", by_digest.gpux("pull", f"{plain.address}/team/digits:none", code=7).returncode == 7)
    check("a missing repository: exit 7", by_digest.gpux("pull", f"{plain.address}/none/none", code=7).returncode == 7)
    big = f"{plain.address}/team/chunks:1"
    weights = FOLDER / "big"
    weights.mkdir()
    shutil.copy(MODEL, weights / "model.onnx")
    (weights / "notes.bin").write_bytes(os.urandom(3_000_000))
    (weights / "gpux.yml").write_text("name: big\nversion: 1.0.0\nmodel: {source: model.onnx, files: [notes.bin]}\n")
    author.gpux("build", weights, "-t", big)
    check("upload in chunks", author.json("push", big, "--chunk-size", "256KiB")["sent"] >= 1)
    check("and back", Machine("chunks").json("pull", big)["id"] == author.json("push", big)["digest"])
    return said["digest"]


def test_secure(secure, author, digest):
    name = f"{secure.address}/team/digits:1"
    author.gpux("tag", "digits", name)
    refused = author.gpux("push", name, code=11)
    check("push without a login: exit 11", "gpux login" in refused.stderr)
    author.gpux("login", secure.address, "-u", "gpux", "--password-stdin", text="wrong\n", code=11)
    check("wrong password: exit 11")
    author.gpux("login", secure.address, "-u", "gpux", "--password-stdin", text="secret\n")
    check("login over TLS with an own authority")
    config = Path(author.environment["DOCKER_CONFIG"]) / "config.json"
    check("the credentials are for their user alone", config.stat().st_mode & 0o777 == 0o600)
    check("push with TLS and a password", author.json("push", name)["digest"] == digest)
    stranger = Machine("stranger", ca=False)
    check("an unknown authority: exit 10", stranger.gpux("pull", name, code=10).returncode == 10)
    check("no login: exit 11", stranger.gpux("pull", name, "--ca-file", FOLDER / "ca.crt", code=11).returncode == 11)
    docker = Path(stranger.environment["DOCKER_CONFIG"])
    certificates = docker / "certs.d" / secure.address
    certificates.mkdir(parents=True)
    shutil.copy(FOLDER / "ca.crt", certificates / "ca.crt")
    (docker / "config.json").write_text(json.dumps({"auths": {secure.address: {
        "auth": base64.b64encode(b"gpux:secret").decode()}}, "HttpHeaders": {"kept": "yes"}}))
    check("Docker's certs.d and config.json", stranger.json("pull", name)["id"] == digest)
    stranger.gpux("logout", secure.address)
    check("logout keeps other settings", json.loads((docker / "config.json").read_text())["HttpHeaders"] == {"kept": "yes"})
    check("after logout: exit 11", stranger.gpux("pull", name, code=11).returncode == 11)
    careless = Machine("careless", ca=False)
    careless.gpux("login", secure.address, "--insecure", secure.address, "-u", "gpux", "--password-stdin", text="secret")
    check("--insecure", careless.json("pull", name, "--insecure", secure.address)["id"] == digest)


def test_helper(secure, digest):
    helpers = FOLDER / "helpers"
    helpers.mkdir()
    helper = helpers / "docker-credential-test"
    helper.write_text(f"""#!/usr/bin/env python3
import json, pathlib, sys
place = pathlib.Path({str(FOLDER / 'kept-by-helper')!r})
text = sys.stdin.read()
if sys.argv[1] == "store":
    place.write_text(text)
elif sys.argv[1] == "get":
    if not place.exists() or json.loads(place.read_text())["ServerURL"] != text:
        print("credentials not found in native keychain")
        sys.exit(1)
    print(place.read_text())
else:
    place.unlink()
""")
    helper.chmod(0o755)
    machine = Machine("helped")
    machine.environment["PATH"] = f"{helpers}:{os.environ['PATH']}"
    docker = Path(machine.environment["DOCKER_CONFIG"])
    docker.mkdir()
    (docker / "config.json").write_text(json.dumps({"credHelpers": {secure.address: "test"}}))
    name = f"{secure.address}/team/digits:1"
    machine.gpux("pull", name, code=11)
    machine.gpux("login", secure.address, "-u", "gpux", "--password-stdin", text="secret\n")
    check("a credential helper keeps the password", "secret" in (FOLDER / "kept-by-helper").read_text())
    check("and not config.json", base64.b64encode(b"gpux:secret").decode() not in (docker / "config.json").read_text())
    check("pull with a credential helper", machine.json("pull", name)["id"] == digest)
    machine.gpux("logout", secure.address)
    check("logout erases it", not (FOLDER / "kept-by-helper").exists())
    (docker / "config.json").write_text(json.dumps({"credsStore": "missing"}))
    check("a missing helper: exit 3", machine.gpux("pull", name, code=3).returncode == 3)


def test_skopeo(plain, secure, author, digest):
    first, second = FOLDER / "first", FOLDER / "second"
    skopeo("copy", "--src-tls-verify=false", f"docker://{plain.address}/team/digits:1", f"oci:{first}:digits")
    pushed = f"{plain.address}/from/skopeo:1"
    skopeo("copy", "--dest-tls-verify=false", f"oci:{first}:digits", f"docker://{pushed}")
    machine = Machine("skopeo")
    check("skopeo copies out and in: the same digest", machine.json("pull", pushed)["id"] == digest)
    check("and the same bytes", machine.blobs() == blobs_of_layout(first))
    archive = FOLDER / "digits.tar"
    author.gpux("save", "digits", "-o", archive)
    skopeo("copy", f"oci-archive:{archive}", f"oci:{second}:digits")
    check("skopeo reads gpux save: the same bytes", blobs_of_layout(second) == blobs_of_layout(first))
    back = FOLDER / "back.tar"
    skopeo("copy", f"oci:{first}:digits", f"oci-archive:{back}:host.example/digits:3")
    loaded = Machine("loaded")
    check("gpux load reads skopeo's archive", loaded.json("load", "-i", back)[0]["id"] == digest)
    check("under its name", loaded.names() == ["host.example/digits:3"])
    check("and it runs", loaded.gpux("run", "host.example/digits:3", '{"x": [[1, 2, 3]]}').returncode == 0)
    again = FOLDER / "again.tar"
    author.gpux("save", "digits", "-o", again)
    check("save is reproducible", archive.read_bytes() == again.read_bytes())
    fresh = Machine("fresh")
    fresh.gpux("load", "-i", archive, "-t", "other:1")
    check("load -t", fresh.names() == ["other:1"])
    cut = FOLDER / "cut.tar"
    for size in range(0, archive.stat().st_size - 1024, max(1, archive.stat().st_size // 40)):
        cut.write_bytes(archive.read_bytes()[:size])
        damaged = Machine("damaged")
        damaged.gpux("load", "-i", cut, code=6)
        assert damaged.names() == []
    check("a cut archive loads nothing: exit 6")
    bent = bytearray(archive.read_bytes())
    at = bent.find(Path(MODEL).read_bytes()[:64])
    bent[at + 8] ^= 1
    cut.write_bytes(bent)
    check("a bent archive loads nothing: exit 6", Machine("damaged").gpux("load", "-i", cut, code=6).returncode == 6)


def verify_with_openssl(plain, tag, digest, public):
    """The signature as anybody reads it, without gpux."""
    base = f"http://{plain.address}/v2/team/digits"
    accept = {"Accept": "application/vnd.oci.image.manifest.v1+json"}
    manifest = json.load(urllib.request.urlopen(urllib.request.Request(f"{base}/manifests/{tag}", headers=accept)))
    layer = manifest["layers"][0]
    payload = urllib.request.urlopen(f"{base}/blobs/{layer['digest']}").read()
    assert "sha256:" + hashlib.sha256(payload).hexdigest() == layer["digest"]
    assert json.loads(payload)["critical"]["image"]["docker-manifest-digest"] == digest
    signature = base64.b64decode(layer["annotations"]["dev.cosignproject.cosign/signature"])
    try:
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        key = serialization.load_pem_public_key(public.read_bytes())
        key.verify(signature, payload, ec.ECDSA(hashes.SHA256()))
        return "cryptography"
    except ImportError:
        (FOLDER / "payload").write_bytes(payload)
        (FOLDER / "signature").write_bytes(signature)
        subprocess.run(["openssl", "dgst", "-sha256", "-verify", public, "-signature", FOLDER / "signature",
                        FOLDER / "payload"], check=True, capture_output=True)
        return "openssl dgst"


def sign_elsewhere(plain, digest, key):
    """A signature that gpux did not make, in a repository of its own: by openssl, pushed by skopeo and curl's means."""
    repository = "team/signed-elsewhere"
    source = f"{plain.address}/team/digits:1"
    skopeo("copy", "--src-tls-verify=false", "--dest-tls-verify=false", f"docker://{source}",
           f"docker://{plain.address}/{repository}:1")
    payload = json.dumps({"critical": {"identity": {"docker-reference": ""}, "image": {"docker-manifest-digest": digest},
                                       "type": "cosign container image signature"}, "optional": {"by": "openssl"}}).encode()
    (FOLDER / "payload").write_bytes(payload)
    signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", key, FOLDER / "payload"], check=True,
                               capture_output=True).stdout
    base = f"http://{plain.address}/v2/{repository}"

    def upload(content):
        name = "sha256:" + hashlib.sha256(content).hexdigest()
        place = urllib.request.urlopen(urllib.request.Request(f"{base}/blobs/uploads/", method="POST", data=b""))
        location = place.headers["Location"]
        urllib.request.urlopen(urllib.request.Request(f"{location}&digest={name}", method="PUT", data=content, headers={
            "Content-Type": "application/octet-stream"}))
        return {"digest": name, "size": len(content)}

    config = {"mediaType": "application/vnd.oci.image.config.v1+json", **upload(b"{}")}
    layer = {"mediaType": "application/vnd.dev.cosign.simplesigning.v1+json", **upload(payload),
             "annotations": {"dev.cosignproject.cosign/signature": base64.b64encode(signature).decode()}}
    manifest = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
                           "layers": [layer]}).encode()
    tag = digest.replace(":", "-") + ".sig"
    urllib.request.urlopen(urllib.request.Request(f"{base}/manifests/{tag}", method="PUT", data=manifest, headers={
        "Content-Type": "application/vnd.oci.image.manifest.v1+json"}))
    return f"{plain.address}/{repository}:1"


def test_signatures(plain, author, digest):
    run = lambda *words: subprocess.run(["openssl", *words], check=True, cwd=FOLDER, capture_output=True)
    for name in ("signer", "other"):
        run("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", f"{name}.key")
        run("pkey", "-in", f"{name}.key", "-pubout", "-out", f"{name}.pub")
    name = f"{plain.address}/team/digits:1"
    reader = Machine("verifier")
    refused = reader.gpux("pull", name, "--verify-key", FOLDER / "signer.pub", code=10)
    check("no signature: refused, exit 10", "signature" in refused.stderr and reader.names() == [])
    said = author.json("push", name, "--sign", FOLDER / "signer.key")
    how = verify_with_openssl(plain, said["signature_tag"], digest, FOLDER / "signer.pub")
    check(f"the signature verifies with {how}")
    check("pull --verify-key", reader.json("pull", name, "--verify-key", FOLDER / "signer.pub")["id"])
    check("another key: refused, exit 10",
          Machine("verifier-2").gpux("pull", name, "--verify-key", FOLDER / "other.pub", code=10).returncode == 10)
    author.gpux("push", name, "--sign", FOLDER / "other.key")
    check("two keys can sign", Machine("verifier-3").json("pull", name, "--verify-key", FOLDER / "other.pub")["id"]
          and reader.json("pull", name, "--verify-key", FOLDER / "signer.pub")["id"])
    foreign = sign_elsewhere(plain, digest, FOLDER / "signer.key")
    check("a signature that openssl made verifies",
          Machine("verifier-4").json("pull", foreign, "--verify-key", FOLDER / "signer.pub")["id"])
    run("pkey", "-in", "signer.key", "-aes256", "-passout", "pass:x", "-out", "encrypted.key")
    check("an encrypted key is refused by name: exit 6",
          "openssl pkey -in KEY -out NEW" in author.gpux("push", name, "--sign", FOLDER / "encrypted.key", code=6).stderr)
    run("genpkey", "-algorithm", "ed25519", "-out", "ed.key")
    check("another kind of key is refused: exit 6",
          "P-256" in author.gpux("push", name, "--sign", FOLDER / "ed.key", code=6).stderr)


def test_full_disk(plain):
    name = f"{plain.address}/team/chunks:1"
    machine = Machine("full")
    # No file above 1 MiB: what a full disk looks like to a program.
    done = subprocess.run(["bash", "-c", 'trap "" XFSZ; ulimit -f 1024; exec "$@"', "x", PROGRAM, "pull", name],
                          capture_output=True, text=True, env=machine.environment, timeout=60)
    check("a disk that takes no more: exit 13", done.returncode == 13)
    check("nothing is listed", machine.names() == [])
    check("the next pull continues", 0 < machine.json("pull", name)["received_bytes"] < 3_000_000)
    check("what was pulled is whole", machine.gpux("run", name, '{"x": [[1, 2, 3]]}').returncode == 0)


def main():
    make_certificates()
    plain, secure = Registry("plain", False), Registry("secure", True)
    try:
        author = Machine("author")
        author.gpux("build", MODEL, "-t", "digits")
        digest = test_plain(plain, author)
        test_secure(secure, author, digest)
        test_helper(secure, digest)
        test_skopeo(plain, secure, author, digest)
        test_signatures(plain, author, digest)
        test_full_disk(plain)
    finally:
        plain.stop()
        secure.stop()
    shutil.rmtree(FOLDER)
    print(f"{len(CHECKS)} checks passed")


main()
