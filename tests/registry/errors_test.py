#!/usr/bin/env python3
"""What gpux pull answers to each failure of the hub: the exit code and one line, as a table. A failure ends with no package
in the store. usage: errors_test.py GPUX SOURCE_FOLDER"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hub_server  # noqa: E402

GPUX = pathlib.Path(sys.argv.pop(1)).resolve()
SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
BERT = SOURCE / "tests/embedding/references/bert-cls"
FOREVER = 1000
NOTES = 4_000_000  # bytes of a file that takes a while


def change_json(file: pathlib.Path, **values: object) -> None:
    content = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(content | values))


def write_repositories(folder: pathlib.Path) -> None:
    def repository(name: str) -> pathlib.Path:
        shutil.copytree(BERT, folder / "org" / name)
        # Larger than what the header of the weights takes.
        with open(folder / "org" / name / "model.safetensors", "ab") as weights:
            weights.write(bytes(500_000))
        return folder / "org" / name

    for name in ("tiny", "gated", "private"):
        repository(name)
    (repository("large") / "2_Notes").mkdir()
    (folder / "org/large/2_Notes/model.safetensors").write_bytes(hub_server.safetensors(NOTES))
    pickled = repository("pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    gguf = repository("gguf")
    (gguf / "model.safetensors").rename(gguf / "model-q4.gguf")
    # As long as the name of the family that it has.
    content = (SOURCE / "tests/importer/gguf/granite-q4_0.gguf").read_bytes()
    (folder / "org/gguf-family").mkdir()
    (folder / "org/gguf-family/model-q4.gguf").write_bytes(
        content.replace(b"general.architecture\x08\0\0\0\x07\0\0\0\0\0\0\0granite",
                        b"general.architecture\x08\0\0\0\x07\0\0\0\0\0\0\0no-fam1", 1) + bytes(500_000))
    change_json(repository("family") / "config.json", model_type="no-such-family")
    change_json(repository("code") / "config.json", auto_map={"AutoModel": "modeling.Model"})
    change_json(repository("quantized") / "config.json", quantization_config={"quant_method": "gptq"})
    change_json(repository("positions") / "config.json", position_embedding_type="relative_key")
    change_json(repository("layers") / "config.json", num_hidden_layers=40)
    change_json(repository("head") / "config.json", architectures=["BertForSequenceClassification"])
    modules = [{"idx": 0, "type": "sentence_transformers.models.Transformer", "path": ""}]
    kind = "sentence_transformers.cross_encoder.LogitScore"
    (repository("logits") / "modules.json").write_text(json.dumps([*modules, {"type": kind, "path": "1_LogitScore"}]))
    kind = "sentence_transformers.models.WordWeights"
    (repository("modules") / "modules.json").write_text(json.dumps([*modules, {"type": kind, "path": "1_W"}]))
    (repository("words") / "tokenizer.json").unlink()
    (repository("vit") / "preprocessor_config.json").write_text('{"image_processor_type": "NoSuchProcessor"}')
    change_json(folder / "org/vit/config.json", model_type="vit")
    onnx = repository("onnx")
    (onnx / "model.safetensors").rename(onnx / "model.onnx")
    (onnx / "tokenizer.json").unlink()


class Errors(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(cls.folder.name)
        write_repositories(root / "hub")
        cls.server = hub_server.start(root / "hub")
        cls.url = f"http://127.0.0.1:{cls.server.server_address[1]}"

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.shutdown()
        cls.folder.cleanup()

    def setUp(self) -> None:
        self.home = pathlib.Path(tempfile.mkdtemp(dir=self.folder.name))
        self.set_faults()

    def set_faults(self, **faults: object) -> None:
        request = urllib.request.Request(f"{self.url}/-/faults", json.dumps(faults).encode())
        urllib.request.urlopen(request).read()

    def requests(self) -> list:
        return json.loads(urllib.request.urlopen(f"{self.url}/-/requests").read())

    def environment(self, **variables: str) -> dict:
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        return kept | {"HOME": str(self.home), "GPUX_HOME": str(self.home / "gpux"), "HF_ENDPOINT": self.url, **variables}

    def pull(self, model: str, *flags: str, **variables: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [GPUX, "pull", model, *flags], capture_output=True, text=True, env=self.environment(**variables), timeout=120
        )

    def check(self, what: str, done: subprocess.CompletedProcess, code: int, *messages: str) -> None:
        with self.subTest(what):
            # Before the last line are messages of what is done and repeated.
            lines = done.stderr.splitlines() or [""]
            print(f"{done.returncode:4}  {what:<32} {lines[-1]}", flush=True)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertEqual([line for line in lines if line.startswith("gpux: ")][-1:], lines[-1:])
            self.assertNotIn(str(self.folder.name) + "/hub", lines[-1])
            for message in messages:
                self.assertIn(message, lines[-1])
            listed = subprocess.run([GPUX, "images", "--json"], capture_output=True, text=True, env=self.environment())
            self.assertEqual((listed.returncode, json.loads(listed.stdout)), (0, []), listed.stderr)

    def test_access(self) -> None:
        wrong = {"HF_TOKEN": "hf_wrong"}
        for what, model, flags, code, message, variables in [
            ("gated, without a token", "org/gated", [], 11, "is gated: accept its conditions at", {}),
            ("private, without a token", "org/private", [], 7, "or it is private: HF_TOKEN gives access", {}),
            ("missing repository", "org/none", [], 7, "the hub has no model 'org/none'", {}),
            ("missing revision", "org/tiny@v9", [], 7, "hf.co/org/tiny has no revision 'v9'", {}),
            ("missing file", "org/tiny", ["--file", "x.onnx"], 7, "hf.co/org/tiny has no file 'x.onnx'", {}),
            ("wrong token", "org/tiny", [], 11, "does not accept the token of HF_TOKEN", wrong),
            ("wrong token, gated", "org/gated", [], 11, "does not accept the token of HF_TOKEN", wrong),
            ("offline and absent", "org/tiny", [], 7, "GPUX_OFFLINE forbids it", {"GPUX_OFFLINE": "1"}),
            ("no server", "org/tiny", [], 10, "Couldn't connect", {"HF_ENDPOINT": "http://127.0.0.1:1"}),
        ]:
            self.check(what, self.pull(model, *flags, **variables), code, message)

    def test_a_renamed_repository(self) -> None:
        done = self.pull("old-org/old-name")
        print(f"{done.returncode:4}  {'renamed':<32} {done.stderr.splitlines()[0]}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("hf.co/old-org/old-name is now called hf.co/org/tiny", done.stderr.splitlines()[0])

    def test_failures_that_go_on(self) -> None:
        for what, faults, code, *messages in [
            ("429 with Retry-After", {"api": [429] * FOREVER, "retry_after": 3600}, 10, "try again in 3600 s", "HF_TOKEN"),
            ("429 of files with Retry-After", {"status": [429] * FOREVER, "retry_after": 3600}, 10, "try again in 3600 s"),
            ("429 without Retry-After", {"api": [429] * FOREVER}, 10, "limits the rate of requests (429): try again later"),
            ("503", {"api": [503] * FOREVER, "retry_after": 0}, 10, "the hub fails with 503 for hf.co/org/tiny"),
            ("503 of files", {"status": [503] * FOREVER, "retry_after": 0}, 10, "the hub fails with 503 for hf.co/org/tiny"),
            ("404 of files", {"status": [404] * FOREVER}, 7, "hf.co/org/tiny has no file"),
            ("403", {"status": [403] * FOREVER}, 11, "the hub refuses access to hf.co/org/tiny"),
            ("418", {"api": [418] * FOREVER}, 10, "the hub answers 418"),
            ("cut", {"cut": [0] * FOREVER}, 10, "/-/storage/org/tiny/", "transfer closed"),
            ("wrong checksum", {"wrong": True}, 10, "is damaged: its SHA-256 is", "instead of"),
            ("wrong size", {"size": 5}, 10, "bytes on the server instead of"),
        ]:
            self.set_faults(**faults)
            self.check(what, self.pull("org/tiny"), code, *messages)
            self.set_faults()
        # What has failed does not stand in the way.
        self.assertEqual(self.pull("org/tiny").returncode, 0)

    def test_unsupported_models_are_refused_before_their_weights(self) -> None:
        for model, code, message in [
            ("pickled", 4, "only as pytorch_model.bin: pickled files can run code"),
            ("gguf", 4, "it is no GGUF file"),
            ("gguf-family", 4, "general.architecture is 'no-fam1'; accepted: "),
            ("family", 3, "model_type 'no-such-family' is not served"),
            ("code", 3, "auto_map.AutoModel"),
            ("quantized", 3, "quantization_config"),
            ("positions", 3, "position_embedding_type"),
            ("layers", 4, "has no tensor"),
            ("head", 4, "has no tensor"),
            ("logits", 4, "1_LogitScore/config.json: is not there"),
            ("modules", 4, "WordWeights"),
            ("words", 7, "'hf.co/org/words' has no tokenizer.json"),
            ("vit", 4, "NoSuchProcessor"),
            ("onnx", 7, "'hf.co/org/onnx' has no tokenizer.json"),
        ]:
            self.set_faults()
            self.check(f"unsupported: {model}", self.pull(f"org/{model}"), code, message, f"hf.co/org/{model}")
            names = ("model.safetensors", "model.onnx", "pytorch_model.bin", "model-q4.gguf")
            for request in self.requests():
                if request["path"].split("?")[0].endswith(names):
                    self.assertEqual(request["range"], "bytes=0-65535", f"{model}: the weights are downloaded: {request}")

    def test_a_server_without_ranges(self) -> None:
        self.set_faults(no_ranges=True)
        self.check("unsupported, no ranges", self.pull("org/family"), 3, "was downloaded but cannot be stored as a model")
        self.assertEqual(self.pull("org/tiny").returncode, 0)

    def test_a_full_disk(self) -> None:
        can_mount = subprocess.run(["unshare", "-Urm", "true"], capture_output=True).returncode == 0
        if not can_mount:
            self.skipTest("user namespaces are not available: a small file system cannot be mounted")
        folder = self.home / "gpux"
        folder.mkdir()

        def pull_on_disk(script: str, megabytes: int) -> subprocess.CompletedProcess:
            mount = f'mount -t tmpfs -o size={megabytes}m none "$GPUX_HOME" || exit 99\n'
            return subprocess.run(
                ["unshare", "-Urm", "bash", "-c", mount + script, "bash", GPUX], capture_output=True, text=True,
                env=self.environment(), timeout=120,
            )

        self.check("disk too small", pull_on_disk('"$1" pull org/large', 2), 13, "hf.co/org/large needs", "of disk space")
        # The space is there when it is looked at, and somebody else takes it.
        self.set_faults(slow=0.05)
        done = pull_on_disk(
            """
            "$1" pull org/large & pid=$!
            until ls "$GPUX_HOME"/downloads/*.ranges >/dev/null 2>&1; do sleep 0.05; done
            head -c 100M /dev/zero > "$GPUX_HOME/other" 2>/dev/null
            wait $pid; code=$?
            "$1" images --json > "$GPUX_HOME/../listed"
            rm "$GPUX_HOME/other"
            "$1" pull org/large --json 2>/dev/null | tail -n 1 > "$GPUX_HOME/../second"
            exit $code
            """,
            30,
        )
        self.check("disk full during the download", done, 13, "No space left on device")
        self.assertEqual(json.loads((self.home / "listed").read_text()), [])
        second = json.loads((self.home / "second").read_text())
        self.assertEqual(second["event"], "pulled")
        self.assertGreater(second["reused_bytes"], 100_000)
        self.assertLess(second["received_bytes"], NOTES)


if __name__ == "__main__":
    unittest.main(verbosity=1)
