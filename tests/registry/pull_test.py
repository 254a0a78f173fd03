#!/usr/bin/env python3
"""gpux pull against a local hub. usage: pull_test.py GPUX SOURCE_FOLDER [TEST…]"""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hub_server  # noqa: E402

GPUX = pathlib.Path(sys.argv.pop(1)).resolve()
SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
BERT = SOURCE / "tests/embedding/references/bert-cls"


def write_repositories(folder: pathlib.Path) -> None:
    for name in ("org/tiny", "org/gated", "org/private", "Org/Upper_Case"):
        shutil.copytree(BERT, folder / name)
        (folder / name / "pytorch_model.bin").write_bytes(b"pickle" * 1000)
        (folder / name / "README.md").write_text("# A model\n")
    (folder / "org/pickled").mkdir()
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(BERT / name, folder / "org/pickled" / name)
    (folder / "org/pickled/pytorch_model.bin").write_bytes(b"pickle" * 1000)
    (folder / "org/unknown").mkdir()
    shutil.copytree(BERT, folder / "org/unknown", dirs_exist_ok=True)
    config = json.loads((BERT / "config.json").read_text())
    config["model_type"] = "no-such-family"
    (folder / "org/unknown/config.json").write_text(json.dumps(config))
    (folder / "files").mkdir()
    shutil.copy(SOURCE / "tests/models/add.onnx", folder / "files/add.onnx")
    shutil.copy(SOURCE / "tests/models/external_data.onnx", folder / "files/external.onnx")


class Pull(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(cls.folder.name)
        cls.repositories = root / "hub"
        cls.repositories.mkdir()
        write_repositories(cls.repositories)
        cls.server = hub_server.start(cls.repositories)
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
        return kept | {
            "HOME": str(self.home),
            "GPUX_HOME": str(self.home / "gpux"),
            "HF_ENDPOINT": self.url,
            **variables,
        }

    def run_gpux(self, *words: str, code: int = 0, **variables: str) -> subprocess.CompletedProcess:
        done = subprocess.run(
            [GPUX, *words], capture_output=True, text=True, env=self.environment(**variables), stdin=subprocess.DEVNULL
        )
        self.assertEqual(done.returncode, code, f"{words}: {done.stdout}{done.stderr}")
        return done

    def names(self) -> list:
        return [f"{row['name']}:{row['tag']}" for row in json.loads(self.run_gpux("images", "--json").stdout)]

    def test_one_command_pulls_and_embeds(self) -> None:
        first = self.run_gpux("embed", "hf.co/org/tiny", "one two")
        self.assertEqual(self.names(), ["hf.co/org/tiny:latest"])
        count = len(self.requests())
        again = self.run_gpux("embed", "--model", "hf.co/org/tiny", "one two")
        self.assertEqual(first.stdout, again.stdout)
        self.assertEqual(len(self.requests()), count, "a stored model is asked for")
        # The weights of another framework are not downloaded, nor is what nobody needs.
        paths = " ".join(request["path"] for request in self.requests())
        self.assertNotIn("pytorch_model", paths)
        self.assertNotIn("README", paths)
        # It runs without a network, and as the same folder does that is imported.
        offline = self.run_gpux("embed", "hf.co/org/tiny", "one two", HF_ENDPOINT="http://127.0.0.1:1", GPUX_OFFLINE="1")
        self.assertEqual(first.stdout, offline.stdout)
        self.run_gpux("import", str(self.repositories / "org/tiny"), "-t", "imported")
        vector = json.loads(self.run_gpux("embed", "imported", "one two").stdout)
        self.assertEqual(vector.get("vector", vector.get("embedding")), json.loads(first.stdout).get("vector", json.loads(first.stdout).get("embedding")))
        self.assertFalse([path for path in (self.home / "gpux/downloads").iterdir() if not path.name.endswith(".lock")])

    def test_the_origin_is_recorded(self) -> None:
        lines = self.run_gpux("pull", "Org/Upper_Case@v1.0", "--json").stdout.splitlines()
        events = [json.loads(line) for line in lines]
        self.assertEqual(events[-1]["event"], "pulled")
        self.assertEqual(events[-1]["names"], ["hf.co/org/upper_case:v1.0"])
        self.assertIn("progress", {event["event"] for event in events})
        progress = [event for event in events if event["event"] == "progress"][-1]
        self.assertEqual(progress["done"], progress["bytes"])
        commit = hashlib.sha1(b"Org/Upper_Case").hexdigest()
        listed = json.loads(self.run_gpux("list", "--json").stdout)[0]
        self.assertEqual(listed["source"], "https://huggingface.co/Org/Upper_Case")
        self.assertEqual(listed["revision"], commit)
        self.assertIn("huggingface.co/Org/Upper_Case@" + commit[:12], self.run_gpux("images").stdout)
        package = json.loads(self.run_gpux("inspect", "hf.co/org/upper_case:v1.0", "--json").stdout)["package"]
        self.assertEqual(package["origin"]["revision"], commit)
        self.assertEqual(package["name"], "upper_case")
        self.assertIn("up to date", self.run_gpux("pull", "Org/Upper_Case@v1.0").stdout)
        self.run_gpux("pull", "org/tiny", "-t", "mine:1", "-t", "mine:2")
        self.assertEqual(self.names(), ["hf.co/org/upper_case:v1.0", "mine:1", "mine:2"])

    def test_a_token_goes_to_the_hub_alone(self) -> None:
        self.run_gpux("pull", "org/private", HF_TOKEN=hub_server.TOKEN)
        stored = [request for request in self.requests() if request["path"].startswith("/-/storage")]
        asked = [request for request in self.requests() if not request["path"].startswith("/-/storage")]
        self.assertTrue(stored)
        self.assertEqual({request["authorization"] for request in stored}, {""})
        self.assertEqual({request["authorization"] for request in asked}, {f"Bearer {hub_server.TOKEN}"})
        (self.home / ".cache/huggingface").mkdir(parents=True)
        (self.home / ".cache/huggingface/token").write_text(hub_server.TOKEN + "\n")
        self.run_gpux("pull", "org/gated")

    def test_each_failure_has_its_code_and_message(self) -> None:
        for words, code, message, variables in [
            (["pull", "org/gated"], 11, "is gated: accept its conditions", {}),
            (["pull", "org/tiny"], 11, "does not accept the token of HF_TOKEN", {"HF_TOKEN": "wrong"}),
            (["pull", "org/private"], 7, "no model 'org/private', or it is private", {}),
            (["pull", "org/missing"], 7, "no model 'org/missing'", {}),
            (["pull", "org/tiny@nothing"], 7, "has no revision 'nothing'", {}),
            (["pull", "org/tiny", "--file", "x.onnx"], 7, "has no file 'x.onnx'", {}),
            (["pull", "org/tiny", "--precision", "fp16"], 7, "it has no ONNX files", {}),
            (["pull", "org/pickled"], 4, "only as pytorch_model.bin: pickled files can run code", {}),
            (["pull", "org/unknown"], 3, "no-such-family", {}),
            (["pull", "org/tiny"], 7, "HF_HUB_OFFLINE forbids it", {"HF_HUB_OFFLINE": "1"}),
            (["run", "hf.co/org/tiny", "x"], 7, "GPUX_OFFLINE forbids it", {"GPUX_OFFLINE": "true"}),
            (["run", "hf.co/org/tiny", "x", "--pull", "never"], 7, "--pull never forbids", {}),
            (["run", "hf.co/org/tiny", "x", "--pull", "always"], 2, "GPUX_OFFLINE forbids", {"GPUX_OFFLINE": "1"}),
            (["pull", "nothing"], 2, "has no ORG", {}),
            (["pull", "org/tiny"], 10, "Couldn't connect", {"HF_ENDPOINT": "http://127.0.0.1:1"}),
            (["pull", "org/tiny", "--sha256", "0" * 64], 2, "--sha256 is for addresses", {}),
        ]:
            with self.subTest(words=words):
                done = self.run_gpux(*words, code=code, **variables)
                self.assertIn(message, done.stderr)
                self.assertEqual(self.names(), [])
        self.set_faults(api=[429] * 9, retry_after=100)
        self.assertIn("try again in 100 s", self.run_gpux("pull", "org/tiny", code=10).stderr)

    def test_failures_of_the_moment_are_repeated(self) -> None:
        self.set_faults(api=[503], status=[500, 429], retry_after=0, cut=[1000, 5000, 100])
        done = self.run_gpux("pull", "org/tiny")
        self.assertIn("trying again", done.stderr)
        self.assertEqual(self.names(), ["hf.co/org/tiny:latest"])

    def test_wrong_bytes_are_refused(self) -> None:
        self.set_faults(wrong=True)
        self.assertIn("is damaged: its SHA-256 is", self.run_gpux("pull", "org/tiny", code=10).stderr)
        self.assertEqual(self.names(), [])
        self.set_faults()
        self.run_gpux("pull", "org/tiny")

    def test_a_renamed_repository_is_followed(self) -> None:
        self.assertIn("is now called hf.co/org/tiny", self.run_gpux("pull", "old-org/old-name").stderr)
        self.assertEqual(self.names(), ["hf.co/old-org/old-name:latest"])

    def test_a_killed_pull_is_resumed(self) -> None:
        self.set_faults(slow=0.05)
        command = [GPUX, "pull", "org/tiny", "--connections", "2"]
        for delay in (0.05, 0.1, 0.2):
            killed = subprocess.Popen(command, env=self.environment(), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            time.sleep(delay)
            killed.kill()
            killed.wait()
        self.set_faults()
        self.run_gpux("pull", "org/tiny")
        self.assertEqual(self.names(), ["hf.co/org/tiny:latest"])
        self.assertEqual(self.run_gpux("doctor", "--json").returncode, 0)

    def test_the_cache_of_huggingface_hub_is_read(self) -> None:
        blobs = self.home / "cache/models--org--tiny/blobs"
        blobs.mkdir(parents=True)
        content = (BERT / "model.safetensors").read_bytes()
        (blobs / hashlib.sha256(content).hexdigest()).write_bytes(content)
        self.run_gpux("pull", "org/tiny", HF_HUB_CACHE=str(self.home / "cache"))
        paths = [request["path"] for request in self.requests()]
        self.assertFalse([path for path in paths if "model.safetensors" in path])

    def test_an_address(self) -> None:
        address = f"{self.url}/files/add.onnx"
        digest = hashlib.sha256((SOURCE / "tests/models/add.onnx").read_bytes()).hexdigest()
        self.assertIn("instead of " + "0" * 64, self.run_gpux("pull", address, "--sha256", "0" * 64, code=10).stderr)
        self.run_gpux("pull", f"{address}#sha256={digest}", "-t", "add")
        self.assertIn("up to date", self.run_gpux("pull", f"{address}#sha256={digest}", "-t", "add").stdout)
        self.run_gpux("inspect", address)
        port = self.url.rsplit(":", 1)[1]
        self.assertEqual(self.names(), [f"127.0.0.1:{port}/files/add:latest", "add:latest"])
        self.run_gpux("pull", f"{self.url}/files/missing.onnx", code=7)
        self.run_gpux("pull", f"{self.url}/files/add.txt", code=2)
        self.assertIn("another file", self.run_gpux("pull", f"{self.url}/files/external.onnx", code=4).stderr)

    def test_a_local_name_asks_nobody(self) -> None:
        for words in (["run", "tiny", "x"], ["embed", "org/tiny", "x"], ["inspect", "tiny:latest"], ["bench", "tiny"]):
            self.run_gpux(*words, code=7)
        self.assertEqual(self.requests(), [])

    def test_the_hub_is_searched(self) -> None:
        found = json.loads(self.run_gpux("hub", "search", "tiny", "--json").stdout)
        self.assertEqual([row["name"] for row in found], ["org/tiny"])
        info = json.loads(self.run_gpux("hub", "info", "org/tiny", "--json").stdout)
        pulled = {row["name"] for row in info["files"] if row["pulled"]}
        self.assertIn("model.safetensors", pulled)
        self.assertNotIn("pytorch_model.bin", pulled)
        self.assertIn("pytorch_model.bin", self.run_gpux("hub", "info", "org/tiny").stdout)
        self.assertIn("pickled", self.run_gpux("hub", "info", "org/pickled").stdout)

    def test_prune_removes_what_a_pull_left(self) -> None:
        self.run_gpux("pull", "org/unknown", code=3)
        downloads = self.home / "gpux/downloads"
        self.assertTrue([path for path in downloads.iterdir() if path.name.endswith("safetensors") or len(path.name) == 64])
        self.run_gpux("prune")
        self.assertEqual(list(downloads.iterdir()), [])


if __name__ == "__main__":
    unittest.main(verbosity=1)
