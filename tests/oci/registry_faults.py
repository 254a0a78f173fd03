#!/usr/bin/env python3
"""gpux against a registry that cuts, lies, limits and expires: registry_server.py. Seconds, no network.

usage: registry_faults.py GPUX MODEL.onnx
       registry_faults.py GPUX MODEL.onnx --cuts N --kills N     trials at random offsets and times, with a table
"""

import argparse
import base64
import contextlib
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("model")
parser.add_argument("--cuts", type=int, default=0)
parser.add_argument("--kills", type=int, default=0)
parser.add_argument("--seed", type=int, default=20261124)
given = parser.parse_args()
FOLDER = Path(tempfile.mkdtemp(prefix="gpux-registry-"))
RANDOM = random.Random(given.seed)
WEIGHTS = 1_500_000
checks = 0


class Server:
    def __init__(self):
        self.folder = FOLDER / "server"
        self.folder.mkdir()
        self.process = subprocess.Popen([sys.executable, Path(__file__).with_name("registry_server.py"), self.folder],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = f"127.0.0.1:{self.process.stdout.readline().strip()}"

    def set(self, **faults):
        part = self.folder / "faults.part"
        part.write_text(json.dumps(faults))
        part.rename(self.folder / "faults.json")

    def requests(self):
        file = self.folder / "requests.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    def stop(self):
        self.process.stdin.close()
        self.process.wait(10)


class Machine:
    count = 0

    def __init__(self):
        Machine.count += 1
        self.home = FOLDER / f"home-{Machine.count}"
        docker = FOLDER / f"docker-{Machine.count}"
        docker.mkdir()
        self.environment = {**os.environ, "GPUX_HOME": str(self.home), "DOCKER_CONFIG": str(docker)}

    def start(self, *words):
        return subprocess.Popen([given.program, *map(str, words)], env=self.environment, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def gpux(self, *words, code=0, text=None):
        done = subprocess.run([given.program, *map(str, words)], capture_output=True, text=True, input=text, timeout=60,
                              env=self.environment)
        assert done.returncode == code, (f"gpux {' '.join(map(str, words))}: exit code {done.returncode}, expected {code}\n"
                                         f"{done.stdout}{done.stderr}")
        return done

    def json(self, *words, **others):
        return json.loads(self.gpux(*words, "--json", **others).stdout.splitlines()[-1])

    def login(self, address):
        self.gpux("login", address, "-u", "gpux", "--password-stdin", text="secret\n")

    def listed(self):
        return [model["name"] for model in self.json("images") if model["tag"] != "author"]

    def forget(self):
        shutil.rmtree(self.home, ignore_errors=True)

    def received_bytes(self):
        folder = self.home / "downloads/blobs"
        total = 0
        for file in folder.iterdir() if folder.exists() else ():
            with contextlib.suppress(FileNotFoundError):  # the pull has moved it meanwhile
                total += file.stat().st_size
        return total


def check(what, holds=True):
    global checks
    assert holds, what
    checks += 1
    print(f"  {what}", flush=True)


def make_package(author, name):
    folder = FOLDER / "package"
    folder.mkdir()
    shutil.copy(given.model, folder / "model.onnx")
    (folder / "notes.bin").write_bytes(RANDOM.randbytes(WEIGHTS))
    (folder / "gpux.yml").write_text("name: package\nversion: 1.0.0\nmodel: {source: model.onnx, files: [notes.bin]}\n")
    author.gpux("build", folder, "-t", name)


def is_whole(machine, name, digest):
    """What is listed is the package, byte by byte."""
    model = next(model for model in machine.json("images") if f"{model['name']}:{model['tag']}" == name)
    assert model["id"] == digest, model
    tree = machine.home / "trees" / digest.removeprefix("sha256:")
    return (tree / "notes.bin").read_bytes() == (FOLDER / "package/notes.bin").read_bytes()


def test_pull(server, name, digest):
    server.set(cut_after=400_000, cuts=2)
    server.requests()
    machine = Machine()
    check("a connection that is cut is continued", machine.json("pull", name)["id"] == digest)
    asked = server.requests()
    check("by ranges", any(one["range"] for one in asked))
    server.set(cut_after=400_000, cuts=1 << 30, no_ranges=True)
    machine.forget()
    failed = machine.gpux("pull", name, code=10)
    check("a registry that never sends all of it: exit 10", "of 1500000 bytes" in failed.stderr or "failed" in failed.stderr)
    check("nothing is listed", machine.listed() == [])
    server.set()
    check("the next pull ends it", machine.json("pull", name)["id"] == digest and is_whole(machine, name, digest))
    for fault, what in (({"wrong_bytes": True}, "a wrong byte in a blob"), ({"wrong_manifest": True}, "another manifest"),
                        ({"longer": True}, "a blob that is too long")):
        machine.forget()
        server.set(**fault)
        machine.gpux("pull", name, code=10)
        check(f"{what}: exit 10, nothing is listed", machine.listed() == [])
    server.set()
    check("and then the right bytes", machine.json("pull", name)["id"] == digest)
    # A part from before that is damaged, as after a loss of power.
    machine.forget()
    server.set(slow_seconds=0.02)
    process = machine.start("pull", name)
    while machine.received_bytes() < 200_000:
        time.sleep(0.01)
    process.kill()
    process.wait()
    part = next((machine.home / "downloads/blobs").glob("*.part"))
    content = bytearray(part.read_bytes())
    content[1000] ^= 1
    part.write_bytes(content)
    server.set()
    check("a part that is damaged is received again", machine.json("pull", name)["id"] == digest
          and is_whole(machine, name, digest))
    server.set(fail={"status": 503, "times": 2, "path": "blobs/sha256"})
    machine.forget()
    check("503 twice", machine.json("pull", name)["id"] == digest)
    check("prune removes what was not finished", not list((machine.home / "downloads/blobs").glob("*.part")))


def test_rate_limit(server, name, digest):
    server.set(fail={"status": 429, "times": 100, "path": "manifests", "retry_after": 3600})
    machine = Machine()
    failed = machine.gpux("pull", name, code=10)
    check("429 with an hour's wait: exit 10", "429" in failed.stderr)
    server.set()


def test_tokens(server, name, digest):
    server.set(auth="bearer")
    machine = Machine()
    check("no login: exit 11", "gpux login" in machine.gpux("pull", name, code=11).stderr)
    machine.gpux("login", server.address, "-u", "gpux", "--password-stdin", text="wrong", code=11)
    check("a wrong password: exit 11")
    machine.login(server.address)
    check("bearer tokens", machine.json("pull", name)["id"] == digest)
    machine.forget()
    # Every answer is cut, so that tokens expire in the middle of a blob.
    server.set(auth="bearer", token_seconds=0.3, cut_after=600_000)
    server.requests()
    check("tokens that expire in the middle are renewed", machine.json("pull", name)["id"] == digest)
    tokens = {one["authorization"] for one in server.requests() if one["path"].startswith("/v2/") and one["authorization"]}
    check("by new ones", len(tokens) >= 2)
    server.set(auth="basic")
    machine.forget()
    check("basic authentication", machine.json("pull", name)["id"] == digest)
    server.set()


def test_full_disk(server, name, digest):
    if subprocess.run(["unshare", "-Urm", "true"], capture_output=True).returncode != 0:
        print("  skipped: a full disk; user namespaces are not available")
        return
    machine = Machine()
    machine.home.mkdir()

    def pull_on_disk(kilobytes, script):
        mount = f'mount -t tmpfs -o size={kilobytes}k none "$GPUX_HOME" || exit 99\n'
        return subprocess.run(["unshare", "-Urm", "bash", "-c", mount + script, "bash", given.program, name],
                              env=machine.environment, capture_output=True, text=True, timeout=60)

    done = pull_on_disk(1000, '"$1" pull "$2"')
    check("a disk that is too small: exit 13", done.returncode == 13 and "more are needed in" in done.stderr)
    # The space is there when it is looked at, and somebody else takes it.
    server.set(slow_seconds=0.02)
    done = pull_on_disk(16000, """
        "$1" pull "$2" & pid=$!
        until find "$GPUX_HOME/downloads" -name '*.part' -size +300k 2>/dev/null | grep -q .; do sleep 0.01; done
        head -c 100M /dev/zero > "$GPUX_HOME/other" 2>/dev/null
        wait $pid; code=$?
        "$1" images --json > "$GPUX_HOME/../full-listed"
        rm "$GPUX_HOME/other"
        "$1" pull "$2" --json 2>/dev/null | tail -n 1 > "$GPUX_HOME/../full-second"
        exit $code
        """)
    check("a disk that is full during the pull: exit 13",
          done.returncode == 13 and "No space left on device" in done.stderr.splitlines()[-1])
    check("nothing is listed", json.loads((FOLDER / "full-listed").read_text()) == [])
    second = json.loads((FOLDER / "full-second").read_text())
    check("and resumed when there is space", second["id"] == digest and 0 < second["received_bytes"] < WEIGHTS)
    server.set()


def test_expired_token(server, name, digest):
    machine = Machine()
    server.set()
    machine.login(server.address)
    # It says five minutes, and expires in half a second: before the next part of the blob is requested.
    server.set(auth="bearer", token_seconds=0.5, promised_seconds=300, cut_after=1_000_000, slow_seconds=0.015)
    server.requests()
    check("a token that expires earlier than it says is replaced", machine.json("pull", name)["id"] == digest)
    asked = server.requests()
    check("once", len([one for one in asked if one["path"].startswith("/token")]) == 2)
    machine.forget()
    server.set(auth="bearer", token_seconds=0)
    server.requests()
    failed = machine.gpux("pull", name, code=11)
    check("a token server whose tokens are always refused: exit 11", "does not accept the stored credentials" in failed.stderr)
    check("which is not asked for ever", len([one for one in server.requests() if one["path"].startswith("/token")]) <= 3)
    server.set()


def test_damaged_manifests(server, name):
    """What is damaged is the registry's failure; what is whole and no package is none that gpux can use."""
    layer = {"mediaType": "application/x.raw", "digest": "sha256:" + "a" * 64, "size": 1}
    whole = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": layer, "layers": [layer]}
    for manifest, code in (("{", 10), ("[]", 10), ("no JSON", 10), (json.dumps({**whole, "layers": "none"}), 10),
                           (json.dumps({**whole, "layers": [{**layer, "digest": "md5:1"}]}), 10),
                           (json.dumps({**whole, "layers": [{**layer, "size": -1}]}), 10), (json.dumps(whole), 4)):
        server.set(manifest=manifest)
        failed = Machine().gpux("pull", name, code=code)
        check(f"the manifest {manifest[:24]!r}…: exit {code}, in plain words", "json.exception" not in failed.stderr)
    server.set()


def test_two_pulls(server, name, digest):
    """The second waits for the first, says so, and can be ended."""
    machine = Machine()
    server.set(slow_seconds=0.02)
    first = machine.start("pull", name)
    while machine.received_bytes() < 50_000:
        time.sleep(0.01)
    second = subprocess.Popen([given.program, "pull", name], env=machine.environment, stderr=subprocess.PIPE, text=True)
    line = second.stderr.readline()
    check("a second pull says that it waits", "waiting for it" in line)
    second.terminate()
    second.communicate(timeout=30)
    check("and ends when it is told to", second.returncode != 0)
    first.wait(60)
    server.set()
    check("the first is not disturbed", first.returncode == 0 and is_whole(machine, name, digest))


def test_identity_token(server, name, digest):
    """As `docker login` writes it for registries that give identity tokens."""
    machine = Machine()
    server.set(auth="bearer")
    for token, code in (("identity", 0), ("other", 11)):
        entry = {"auth": base64.b64encode(b"00000000-0000-0000-0000-000000000000:").decode(), "identitytoken": token}
        config = Path(machine.environment["DOCKER_CONFIG"]) / "config.json"
        config.write_text(json.dumps({"auths": {server.address: entry}}))
        machine.forget()
        server.requests()
        machine.gpux("pull", name, code=code)
        asked = [one for one in server.requests() if one["path"].startswith("/token")]
        check(f"identity token {token!r}: exit {code}, sent to the token server alone",
              {one["method"] for one in asked} == {"POST"} and not any(one["authorization"] for one in asked))
    server.set()


def test_json(server, author, digest):
    """Every command prints one JSON document, or pull one per line."""
    server.set(auth="basic")
    machine = Machine()
    name = f"{server.address}/json/package:1"
    rows = [
        (["login", server.address, "-u", "gpux", "--password-stdin"], machine),
        (["push", name], author),
        (["pull", name], machine),
        (["logout", server.address], machine),
    ]
    author.login(server.address)
    author.gpux("tag", "package:author", name)
    for words, at in rows:
        lines = at.gpux(*words, "--json", text="secret\n").stdout.splitlines()
        assert len(lines) == 1 or words[0] == "pull", (words, lines)
        check(f"{words[0]} --json", all(isinstance(json.loads(line), dict) for line in lines) and lines)
    author.gpux("logout", server.address)
    author.gpux("rm", name)
    server.set()


def test_push(server, author, digest):
    def target(repository):
        name = f"{server.address}/{repository}:1"
        author.gpux("tag", "package:author", name)
        return name

    def uploaded(repository):
        return (server.folder / "data" / repository / "manifests/1").exists()

    # Of a name that is known at this registry, a blob would be mounted: it is removed first.
    for repository, faults, what in (
            ("cut", {"upload_cut": 100_000, "cuts": 2}, "an upload that is cut continues"),
            ("forgotten", {"upload_cut": 100_000, "cuts": 1, "forget_uploads": True}, "a forgotten upload starts again"),
            ("failing", {"fail": {"status": 503, "times": 2, "path": "uploads/upload"}}, "503 during an upload")):
        (server.folder / "requests.jsonl").unlink(missing_ok=True)
        name = target(repository)
        for model in author.json("images"):
            other = f"{model['name']}:{model['tag']}"
            if other not in (name, "package:author"):
                author.gpux("rm", other)
        server.set(**faults)
        check(what, author.json("push", name, "--chunk-size", "256KiB")["digest"] == digest and uploaded(repository))
        server.set()
        check("and comes back whole", is_whole_after_pull(name, digest))
    # The request that begins an upload is repeated as any other.
    for status in (408, 500, 502, 504):
        name = target(f"begins-{status}")
        for model in author.json("images"):
            other = f"{model['name']}:{model['tag']}"
            if other not in (name, "package:author"):
                author.gpux("rm", other)
        server.set(fail={"status": status, "times": 1, "path": "blobs/uploads/"})
        check(f"one {status} for the request that begins an upload", author.json("push", name)["digest"] == digest)
    # More often than a request is repeated, and each time some of it has arrived.
    name = target("cut-often")
    author.gpux("rm", f"{server.address}/begins-504:1")
    server.set(upload_cut=150_000)
    check("an upload that is cut after each 150 kB", author.json("push", name)["digest"] == digest)
    server.set()
    check("and comes back whole", is_whole_after_pull(name, digest))
    author.gpux("rm", name)
    author.gpux("tag", "package:author", f"{server.address}/failing:1")
    server.set(upload_cut=1000)
    name = target("never")
    author.gpux("rm", f"{server.address}/failing:1")
    author.gpux("push", name, code=10)
    check("an upload that never ends: exit 10, no manifest", not uploaded("never"))
    server.set()


def test_refused_mount(server, author, digest):
    """Beside a name in the same registry that these credentials may not read."""
    foreign = f"{server.address}/foreign/package:1"
    author.gpux("tag", "package:author", foreign)
    for number, status in enumerate((401, 403, 404, 500)):
        name = f"{server.address}/beside-{number}:1"
        author.gpux("tag", "package:author", name)
        server.requests()
        server.set(mount_status=status)
        pushed = author.json("push", name)
        server.set()
        asked = [request["path"] for request in server.requests() if request["method"] == "POST"]
        check(f"a mount that is answered with {status}: sent instead", pushed["digest"] == digest and
              any("mount=" in path for path in asked) and any("mount=" not in path for path in asked))
        check("and comes back whole", is_whole_after_pull(name, digest))
        author.gpux("rm", name)
    author.gpux("rm", foreign)


def test_oras(server):
    """What `oras push registry/repository:tag model.onnx` makes by default."""
    content = (Path(given.model)).read_bytes()

    def push(repository, **layer):
        place = server.folder / "data" / repository
        (place / "blobs").mkdir(parents=True)
        (place / "manifests").mkdir()
        blobs = {}
        for body in (b"{}", content):
            digest = "sha256:" + hashlib.sha256(body).hexdigest()
            (place / "blobs" / digest).write_bytes(body)
            blobs[body] = {"digest": digest, "size": len(body)}
        manifest = json.dumps({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "artifactType": "application/vnd.unknown.artifact.v1",
            "config": {"mediaType": "application/vnd.oci.empty.v1+json", **blobs[b"{}"], "data": "e30="},
            "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", **blobs[content], **layer}],
            "annotations": {"org.opencontainers.image.created": "2026-11-24T00:00:00Z"}}).encode()
        (place / "manifests/1").write_bytes(manifest)
        (place / "manifests/1.type").write_text("application/vnd.oci.image.manifest.v1+json")
        return f"{server.address}/{repository}:1"

    title = {"org.opencontainers.image.title": "model.onnx"}
    machine = Machine()
    machine.gpux("pull", push("oras/plain", annotations=title))
    check("oras push MODEL.onnx", machine.listed() == [f"{server.address}/oras/plain"])
    machine.gpux("pull", push("oras/typed", annotations=title, mediaType="application/octet-stream"))
    for repository, layer in (("oras/image", {}),
                              ("oras/folder", {"annotations": {**title, "io.deis.oras.content.unpack": "true"}}),
                              ("oras/gzip", {"annotations": title, "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip"})):
        done = machine.gpux("pull", push(repository, **layer), code=4)
        check(f"{repository}: refused by its type", "only raw files are supported" in done.stderr)


def is_whole_after_pull(name, digest):
    machine = Machine()
    machine.gpux("pull", name)
    return is_whole(machine, name, digest)


def test_referrers(server, author, name, digest):
    for file in ("signer.key", "signer.pub"):
        (FOLDER / file).unlink(missing_ok=True)
    openssl = lambda *words: subprocess.run(["openssl", *words], check=True, cwd=FOLDER, capture_output=True)
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "signer.key")
    openssl("pkey", "-in", "signer.key", "-pubout", "-out", "signer.pub")
    key, public = FOLDER / "signer.key", FOLDER / "signer.pub"
    place = server.folder / "data/team/package/manifests"
    server.set()
    author.gpux("tag", "package:author", name)
    author.gpux("push", name, "--sign", key)
    fallback = json.loads((place / digest.replace(":", "-")).read_text())
    check("without the referrers API: the fallback tag lists the signature", len(fallback["manifests"]) == 1)
    check("the signature verifies", Machine().json("pull", name, "--verify-key", public)["id"])
    tag = place / (digest.replace(":", "-") + ".sig")
    tag.unlink()
    check("also found by the fallback tag alone", Machine().json("pull", name, "--verify-key", public)["id"])
    (place / digest.replace(":", "-")).unlink()
    server.set(referrers=True)
    author.gpux("push", name, "--sign", key)
    check("with the referrers API: no fallback tag", not (place / digest.replace(":", "-")).exists())
    tag.unlink()
    check("found by the API alone", Machine().json("pull", name, "--verify-key", public)["id"])
    listed = server.folder / "data/team/package/referrers" / digest
    signatures = {file: file.read_bytes() for file in listed.iterdir()}
    for file in signatures:
        file.unlink()
    refused = Machine().gpux("pull", name, "--verify-key", public, code=10).stderr
    check("without a signature: refused", "has no signature of this key" in refused and "bundle" not in refused)
    (listed / "bundle").write_text(json.dumps({
        "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "sha256:" + "0" * 64, "size": 700,
        "artifactType": "application/vnd.dev.sigstore.bundle.v0.3+json"}))
    refused = Machine().gpux("pull", name, "--verify-key", public, code=10).stderr
    check("a bundle of cosign 3: named", "--new-bundle-format=false" in refused)
    (listed / "bundle").unlink()
    for file, content in signatures.items():
        file.write_bytes(content)
    server.set()


def test_trust(server, author, name, digest):
    reader = Machine()
    openssl = lambda *words: subprocess.run(["openssl", *words], check=True, cwd=FOLDER, capture_output=True)
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "other.key")
    openssl("pkey", "-in", "other.key", "-pubout", "-out", "other.pub")
    public, other = FOLDER / "signer.pub", FOLDER / "other.pub"
    values = ("-i", '{"x": [[1, 2, 3]]}')
    server.set(referrers=True)
    author.gpux("tag", "package:author", name)
    author.gpux("push", name, "--sign", FOLDER / "signer.key")  # of test_referrers
    place = server.folder / "data/team/package/manifests"
    signed = (place / "1").read_bytes()

    # A package that was verified stays one, whatever the tag means later.
    reader.gpux("pull", name, "--verify-key", public)
    (FOLDER / "package/notes.bin").write_bytes(b"others")
    author.gpux("build", FOLDER / "package", "-t", name)
    author.gpux("push", name)
    check("the tag means another package now", (place / "1").read_bytes() != signed)
    refused = reader.gpux("run", name, *values, "--pull", "always", code=10)
    check("--pull always does not replace a verified package by an unsigned one", "has no signature of this key" in refused.stderr)
    check("the verified one is still there", reader.json("images")[0]["id"] == digest)
    reader.gpux("run", name, *values)
    reader.gpux("rm", name)
    check("who takes it away starts anew", reader.json("pull", name)["id"] != digest)

    # The policy of the user, for every command.
    (reader.home / "trust.yml").write_text(f"registries:\n  {server.address}/team: {public}\n")
    refused = reader.gpux("run", name, *values, "--pull", "never", code=10)
    check("a stored package without the signature does not run", "trust.yml:2:3" in refused.stderr)
    for words in (["run", name, *values], ["run", name, *values, "--pull", "always"], ["pull", name],
                  ["serve", name, "--port", "0", "--no-grpc"]):
        check(f"{words[0]} refuses it", "signature" in reader.gpux(*words, code=10).stderr)
    refused = reader.gpux("pull", name, "--verify-key", other, code=2)
    check("a flag does not weaken the policy", "is none of the keys" in refused.stderr)
    author.gpux("push", name, "--sign", FOLDER / "other.key")
    reader.gpux("pull", name, code=10)
    (reader.home / "trust.yml").write_text(f"registries:\n  {server.address}/team: both.pub\n")
    (reader.home / "both.pub").write_text(public.read_text() + other.read_text())
    check("one of several keys will do", reader.json("pull", name)["id"])
    reader.gpux("run", name, *values, "--pull", "never")
    reader.gpux("tag", name, "mine")
    reader.gpux("run", "mine", *values)
    (reader.home / "trust.yml").write_text(f"registries:\n  {server.address}/team: {public}\n")
    check("another name is no way around it", "trust.yml" in reader.gpux("run", "mine", *values, code=10).stderr)
    server.set()


def trial_cuts(server, name, digest, trials):
    """Each pull is cut at a random offset; the next one has to end it."""
    table = {"cut": 0, "exit 10": 0, "ended by itself": 0, "torn or unlisted": 0, "not resumable": 0, "reused": 0}
    for _ in range(trials):
        machine = Machine()
        server.set(cut_after=RANDOM.randrange(1, WEIGHTS), no_ranges=True)
        done = subprocess.run([given.program, "pull", name], env=machine.environment, capture_output=True, timeout=60)
        table["cut"] += 1
        if done.returncode == 0:
            table["ended by itself"] += 1
        elif done.returncode == 10:
            table["exit 10"] += 1
            if machine.listed():
                table["torn or unlisted"] += 1
        server.set()
        kept = machine.received_bytes()
        second = subprocess.run([given.program, "pull", name, "--json"], env=machine.environment, capture_output=True,
                                text=True, timeout=60)
        if second.returncode != 0 or not is_whole(machine, name, digest):
            table["not resumable"] += 1
        elif kept and json.loads(second.stdout.splitlines()[-1])["received_bytes"] < WEIGHTS:
            table["reused"] += 1
        machine.forget()
    return table


def trial_kills(server, name, digest, trials):
    table = {"killed": 0, "ended before": 0, "torn or unlisted": 0, "not resumable": 0, "reused": 0}
    server.set(slow_seconds=0.002)
    for _ in range(trials):
        machine = Machine()
        process = machine.start("pull", name)
        try:
            process.wait(RANDOM.uniform(0.005, 0.5))
            table["ended before"] += 1
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            table["killed"] += 1
        if machine.listed() and not is_whole(machine, name, digest):
            table["torn or unlisted"] += 1
        kept = machine.received_bytes()
        second = subprocess.run([given.program, "pull", name, "--json"], env=machine.environment, capture_output=True,
                                text=True, timeout=60)
        if second.returncode != 0 or not is_whole(machine, name, digest):
            table["not resumable"] += 1
        elif kept and json.loads(second.stdout.splitlines()[-1])["received_bytes"] < WEIGHTS:
            table["reused"] += 1
        machine.forget()
    server.set()
    return table


def main():
    server = Server()
    try:
        author = Machine()
        make_package(author, "package:author")
        name = f"{server.address}/team/package:1"
        author.gpux("tag", "package:author", name)
        digest = author.json("push", name)["digest"]
        if given.cuts or given.kills:
            failed = 0
            for title, table in (("pulls cut at random offsets", trial_cuts(server, name, digest, given.cuts)),
                                 ("pulls killed at random times", trial_kills(server, name, digest, given.kills))):
                print(title)
                for what, number in table.items():
                    print(f"  {what:<20} {number}")
                failed += table["torn or unlisted"] + table["not resumable"]
            assert failed == 0
            return
        test_pull(server, name, digest)
        test_rate_limit(server, name, digest)
        test_tokens(server, name, digest)
        test_expired_token(server, name, digest)
        test_full_disk(server, name, digest)
        test_identity_token(server, name, digest)
        test_damaged_manifests(server, name)
        test_two_pulls(server, name, digest)
        test_json(server, author, digest)
        test_push(server, author, digest)
        test_refused_mount(server, author, digest)
        test_oras(server)
        test_referrers(server, author, name, digest)
        test_trust(server, author, name, digest)
        print(f"{checks} checks passed")
    finally:
        server.stop()
        shutil.rmtree(FOLDER, ignore_errors=True)


main()
