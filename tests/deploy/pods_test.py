"""Runs the containers of the manifests in deploy as a node would: their arguments, variables and mounts, as the user of the
image, without capabilities, on a read-only system. A package travels from Debian's docker-registry into the initializer, and
the server answers, drains and ends by itself. The first argument is the program.

Needs root (for mounts of its own), docker-registry, openssl, unshare and setpriv; otherwise exit code 77."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

try:
    import yaml
except ImportError:
    print("skipped: there is no module yaml (Debian: python3-yaml)")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAM = "gpux"
USER = "10001"
missing = [name for name in ("docker-registry", "openssl", "unshare", "setpriv") if shutil.which(name) is None]
if missing or os.geteuid() != 0 or subprocess.run(["unshare", "-m", "mount", "--make-rprivate", "/"], check=False, capture_output=True).returncode:
    print(f"skipped: {', '.join(missing) or 'no right to mount'}")
    sys.exit(77)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def read(path):
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def openssl(*arguments, **more):
    return subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, **more).stdout


class Registry:
    """docker-registry with a signed package of examples/digits."""

    def __init__(self, folder):
        port = free_port()
        self.address = f"localhost:{port}"
        config = folder / "registry.yml"
        config.write_text(f"version: 0.1\nlog: {{level: error}}\nstorage:\n  filesystem: {{rootdirectory: {folder}/registry}}\nhttp:\n  addr: localhost:{port}\n")
        self.process = subprocess.Popen(["docker-registry", "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: socket.create_connection(("localhost", port), 0.2).close())
        self.key, self.stranger = folder / "signer.pub", folder / "stranger.pub"
        for public in (self.key, self.stranger):
            private = public.with_suffix(".key")
            openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", private)
            openssl("pkey", "-in", private, "-pubout", "-out", public)
        environment = {**os.environ, "GPUX_HOME": str(folder / "author")}
        name = f"{self.address}/team/digits:1"
        subprocess.run([PROGRAM, "build", "-q", ROOT / "examples/digits", "-t", name], env=environment, check=True, stdout=subprocess.DEVNULL)
        pushed = subprocess.run([PROGRAM, "push", "-q", name, "--sign", self.key.with_suffix(".key"), "--json"], env=environment, check=True, capture_output=True, text=True)
        self.reference = f"{self.address}/team/digits@{json.loads(pushed.stdout.splitlines()[-1])['digest']}"


def wait_for(call, seconds=60):
    end = time.monotonic() + seconds
    while True:
        try:
            return call()
        except (OSError, urllib.error.URLError):
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def started(container, folders, variables=None, replace=None):
    """The container's process. `folders`: mount path -> (folder or file of this machine, whether it is read-only). `variables`:
    of the container, and what the cluster knows of them. `replace`: text -> text in the arguments, as ports."""
    variables = {one["name"]: one.get("value", "") for one in container.get("env", [])} | (variables or {})
    arguments = []
    for argument in container["args"]:
        argument = re.sub(r"\$\((\w+)\)", lambda name: variables[name[1]], argument)
        for old, new in (replace or {}).items():
            argument = argument.replace(old, new)
        arguments.append(argument)
    script = ["mount --make-rprivate /"]
    for path, (folder, is_read_only) in sorted(folders.items()):
        make = f"mkdir -p {path}" if pathlib.Path(folder).is_dir() else f"touch {path}"
        script.append(f"{make} && mount --bind {folder} {path}" + (f" && mount -o remount,bind,ro {path}" if is_read_only else ""))
    flags = ["--reuid", USER, "--regid", USER, "--clear-groups", "--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"]
    script.append(f'exec setpriv {" ".join(flags)} env -i PATH=/usr/bin "$@"')
    assignments = [f"{name}={value}" for name, value in variables.items()]
    command = ["unshare", "-m", "sh", "-ec", "\n".join(script), "sh", *assignments, PROGRAM, *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd="/")


class Pods(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="gpux-pods-")
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.folder.chmod(0o755)
        cls.registry = Registry(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.registry.process.kill()
        cls.registry.process.wait()
        cls.temporary.cleanup()

    def setUp(self):
        self.store, self.etc = (pathlib.Path(tempfile.mkdtemp(dir=self.folder)) for _ in range(2))
        self.etc.chmod(0o755)
        os.chown(self.store, int(USER), int(USER))
        self.port = free_port()
        self.paths = ["/mnt/models", "/var/lib/gpux", "/etc/gpux"]
        self.made = [path for path in self.paths if not os.path.exists(path)]

    def tearDown(self):
        for path in self.made:  # mount points that a container made
            shutil.rmtree(path, ignore_errors=True)

    def ended(self, process):
        log = process.communicate(timeout=120)[1]
        return process.returncode, log

    def answers_and_drains(self, server, model):
        """The server takes requests, is not ready after SIGTERM, takes requests all the same, and ends with 0."""
        address = f"http://127.0.0.1:{self.port}"

        def get(path):
            if server.poll() is not None:
                self.fail(f"the server ended: {server.communicate()[1]}")
            return urllib.request.urlopen(address + path, timeout=10).status

        try:
            self.assertEqual(wait_for(lambda: get("/health/ready")), 200)
            body = (ROOT / "examples/digits/infer-3.json").read_bytes()
            ask = lambda: json.load(urllib.request.urlopen(f"{address}/v2/models/{model}/infer", body, timeout=10))["outputs"][0]["data"][0]
            self.assertIn(":3:3", ask())
            server.send_signal(signal.SIGTERM)
            wait_for(lambda: self.is_not_ready(get))
            self.assertIn(":3:3", ask())
        finally:
            if server.poll() is None and sys.exc_info()[0] is not None:
                server.kill()
        code, log = self.ended(server)
        self.assertEqual(code, 0, log)
        self.assertIn("sandboxed", log)

    def is_not_ready(self, get):
        try:
            get("/health/ready")
        except urllib.error.HTTPError as error:
            self.assertEqual(error.code, 503)
            return
        raise OSError("still ready")

    def ports(self):
        return {"8080": str(self.port), "8081": str(free_port()), "10s": "1s"}

    def test_of_kserve(self):
        (storage,), (runtime,) = (read(ROOT / "deploy/kserve" / name) for name in ("storage-container.yaml", "serving-runtime.yaml"))
        storage, server = storage["spec"]["container"], runtime["spec"]["containers"][0]
        accepted = read(ROOT / "deploy/kserve/storage-container.yaml")[0]["spec"]["supportedUriFormats"][0]["regex"]
        self.assertRegex(self.registry.reference, accepted)
        variables = {"GPUX_MODEL": self.registry.reference}  # from the annotation
        folders = {"/mnt/models": (self.store, False), "/etc/gpux/trust": (self.etc, True)}
        shutil.copy(self.registry.stranger, self.etc / "signer.pub")
        code, log = self.ended(started(storage, folders, variables))
        self.assertEqual(code, 10, log)  # nobody trusted has signed it
        shutil.copy(self.registry.key, self.etc / "signer.pub")
        code, log = self.ended(started(storage, folders, variables))
        self.assertEqual(code, 0, log)
        # KServe mounts what the initializer wrote read-only.
        replace = {"{{.Name}}": "digits", **self.ports()}
        folders = {"/mnt/models": (self.store, True), "/etc/gpux/admin-keys": (self.etc, True)}
        (self.etc / "keys").write_text("0123456789abcdef\n")
        self.answers_and_drains(started(server, folders, replace=replace), "digits")

    def test_of_kserve_with_a_folder(self):
        (runtime,) = read(ROOT / "deploy/kserve/serving-runtime-onnx.yaml")
        (self.etc / "keys").write_text("0123456789abcdef\n")
        folders = {"/mnt/models": (ROOT / "examples/digits", True), "/var/lib/gpux": (self.store, False), "/etc/gpux/admin-keys": (self.etc, True)}
        replace = {"{{.Name}}": "digits", **self.ports()}
        self.answers_and_drains(started(runtime["spec"]["containers"][0], folders, replace=replace), "digits")

    def test_of_the_chart(self):
        documents = read(HERE / "rendered/plain.yaml")
        (deployment,) = [one for one in documents if one["kind"] == "Deployment"]
        (trust,) = [one for one in documents if one["kind"] == "ConfigMap"]
        spec = deployment["spec"]["template"]["spec"]
        (initializer,), (server,) = spec["initContainers"], spec["containers"]
        theirs = initializer["args"][1]
        (self.etc / "trust.yml").write_text(trust["data"]["trust.yml"].replace("registry.example", self.registry.address))
        folders = {"/var/lib/gpux": (self.store, False), "/etc/gpux/trust": (self.etc, True), "/var/lib/gpux/trust.yml": (self.etc / "trust.yml", True)}
        replace = {theirs: self.registry.reference, **self.ports()}
        shutil.copy(self.registry.stranger, self.etc / "team.pub")
        code, log = self.ended(started(initializer, folders, replace=replace))
        self.assertEqual(code, 10, log)
        shutil.copy(self.registry.key, self.etc / "team.pub")
        code, log = self.ended(started(initializer, folders, replace=replace))
        self.assertEqual(code, 0, log)
        # The next pod with this store starts without a registry.
        self.registry.process.send_signal(signal.SIGSTOP)
        try:
            code, log = self.ended(started(initializer, folders, replace=replace))
            self.assertEqual(code, 0, log)
            self.answers_and_drains(started(server, folders, replace=replace), "minilm")
        finally:
            self.registry.process.send_signal(signal.SIGCONT)


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
