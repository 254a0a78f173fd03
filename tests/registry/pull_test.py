#!/usr/bin/env python3
"""gpux pull against a local hub. usage: pull_test.py GPUX SOURCE_FOLDER [TEST…]"""

import hashlib
import json
import os
import pathlib
import pty
import shutil
import struct
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
LARGE_MODEL = SOURCE / "tests/models/matmul_chain.onnx"


def read_safetensors(file: pathlib.Path) -> dict:
    """By name: type, shape and bytes."""
    content = file.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    header.pop("__metadata__", None)
    return {
        name: (one["dtype"], one["shape"], content[begin + one["data_offsets"][0] : begin + one["data_offsets"][1]])
        for name, one in header.items()
    }


def write_safetensors(file: pathlib.Path, tensors: dict) -> None:
    header, data = {}, b""
    for name, (kind, shape, content) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data)


def write_revisions(folder: pathlib.Path) -> None:
    """Revisions of org/tiny whose names become the same tag, each with a vector of its own."""
    tensors = read_safetensors(BERT / "model.safetensors")
    name = next(name for name in sorted(tensors) if name.endswith("word_embeddings.weight"))
    for number, revision in enumerate(("a%2Fb", "a-b", "latest"), start=1):
        shutil.copytree(BERT, folder / f"org/tiny@{revision}")
        kind, shape, content = tensors[name]
        size = len(content) // shape[0]
        turned = content[number * size :] + content[: number * size]
        write_safetensors(folder / f"org/tiny@{revision}/model.safetensors", {**tensors, name: (kind, shape, turned)})


def write_parts(folder: pathlib.Path) -> None:
    """Weights in files that model.safetensors.index.json names, beside one that it does not name."""
    tensors = read_safetensors(BERT / "model.safetensors")
    for name in ("org/parts", "org/part-missing"):
        shutil.copytree(BERT, folder / name)
        (folder / name / "model.safetensors").unlink()
        places = {tensor: ("first" if i % 2 else "second") + ".safetensors" for i, tensor in enumerate(tensors)}
        for file in ("first.safetensors", "second.safetensors"):
            write_safetensors(folder / name / file, {tensor: tensors[tensor] for tensor in tensors if places[tensor] == file})
        (folder / name / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
        (folder / name / "model-00001-of-00001.safetensors").write_bytes(hub_server.safetensors(5000))
    (folder / "org/part-missing/second.safetensors").unlink()


def write_modules(folder: pathlib.Path) -> None:
    """Folders of modules as stella has them, of which modules.json names some."""
    place = folder / "org/modules"
    shutil.copytree(BERT, place)
    size = json.loads((BERT / "config.json").read_text())["hidden_size"]
    (place / "pool").mkdir()
    (place / "pool/config.json").write_text(json.dumps({"pooling_mode": "mean"}))
    for out in (4, 8):
        (place / f"2_Dense_{out}").mkdir()
        settings = {"in_features": size, "out_features": out, "bias": False, "activation_function": "torch.nn.Identity"}
        (place / f"2_Dense_{out}/config.json").write_text(json.dumps(settings))
        weights = struct.pack(f"<{out * size}f", *(i % 7 / 7 for i in range(out * size)))
        write_safetensors(place / f"2_Dense_{out}/model.safetensors", {"linear.weight": ("F32", [out, size], weights)})
    kinds = (("Transformer", ""), ("Pooling", "pool"), ("Dense", "2_Dense_4"))
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in kinds]
    (place / "modules.json").write_text(json.dumps(modules))


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
    write_revisions(folder)
    write_parts(folder)
    write_modules(folder)
    (folder / "Org/X-GGUF").mkdir()
    for name, model in (("x-Q8_0", "gpt2-q8_0"), ("x-Q4_K_M", "llama-q4_0")):
        shutil.copy(SOURCE / f"tests/importer/gguf/{model}.gguf", folder / f"Org/X-GGUF/{name}.gguf")
    shutil.copytree(SOURCE / "tests/pipeline/data/rank-mpnet", folder / "org/ranker")
    shutil.copy(SOURCE / "tests/text/data/wordpiece.json", folder / "org/ranker/tokenizer.json")
    config = json.loads((folder / "org/ranker/config.json").read_text())
    config["sentence_transformers"] = {"activation_fn": "torch.nn.modules.activation.ReLU"}
    (folder / "org/ranker/config.json").write_text(json.dumps(config))
    (folder / "files").mkdir()
    large = bytearray(LARGE_MODEL.read_bytes())
    (folder / "files/large.onnx").write_bytes(large)
    # Another version of the same size: a byte of a weight.
    large[3000] ^= 1
    (folder / "files/large-2.onnx").write_bytes(large)
    shutil.copy(SOURCE / "tests/models/add.onnx", folder / "files/add.onnx")
    shutil.copy(SOURCE / "tests/models/external_data.onnx", folder / "files/external.onnx")
    (folder / "files/broken.onnx").write_text("no model")


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

    def vector(self, model: str, *words: str, **variables: str) -> list:
        answer = json.loads(self.run_gpux("embed", "--model", model, "one two", *words, **variables).stdout)
        return answer.get("vector", answer.get("embedding"))

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

    def write_cache(self, repository: str, *omitted: str) -> str:
        """The cache of huggingface_hub after a download of the whole repository."""
        folder = self.home / "cache" / ("models--" + repository.replace("/", "--"))
        commit = hashlib.sha1(repository.encode()).hexdigest()
        (folder / "refs").mkdir(parents=True)
        (folder / "refs/main").write_text(commit)
        (folder / "blobs").mkdir()
        for file in (path for path in (self.repositories / repository).rglob("*") if path.is_file()):
            name = file.relative_to(self.repositories / repository)
            if name.name in omitted:
                continue
            content = file.read_bytes()
            is_large = len(content) >= hub_server.LARGE
            blob = folder / "blobs" / (hashlib.sha256(content).hexdigest() if is_large else hub_server.git_blob_id(content))
            blob.write_bytes(content)
            link = folder / "snapshots" / commit / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(os.path.relpath(blob, link.parent))
        return str(self.home / "cache")

    def test_offline_the_cache_is_enough(self) -> None:
        online = self.run_gpux("embed", "hf.co/org/tiny", "one two").stdout
        self.run_gpux("rm", "hf.co/org/tiny")
        offline = {"HF_HUB_CACHE": self.write_cache("org/tiny"), "HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:1"}
        self.assertEqual(self.run_gpux("embed", "hf.co/org/tiny", "one two", **offline).stdout, online)
        listed = json.loads(self.run_gpux("list", "--json").stdout)[0]
        self.assertEqual(listed["revision"], hashlib.sha1(b"org/tiny").hexdigest())
        # Stored from the cache, it is what the hub has.
        self.assertIn("up to date", self.run_gpux("pull", "org/tiny").stdout)
        self.run_gpux("rm", "hf.co/org/tiny")
        self.run_gpux("run", "hf.co/org/tiny", "x", "--pull", "never", code=7, **offline)
        shutil.rmtree(self.home / "cache")
        home = self.home / "hf"
        pathlib.Path(self.write_cache("org/tiny")).rename(self.home / "moved")
        (home).mkdir()
        (self.home / "moved").rename(home / "hub")
        self.assertEqual(
            self.run_gpux("embed", "hf.co/org/tiny", "one two", HF_HOME=str(home), GPUX_OFFLINE="1").stdout, online
        )

    def test_offline_a_part_of_a_model_is_refused(self) -> None:
        for omitted, message in [
            ("modules.json", "it does not have modules.json"),
            ("model.safetensors", "only as pytorch_model.bin"),
            ("tokenizer.json", "has no tokenizer.json"),
        ]:
            with self.subTest(omitted):
                shutil.rmtree(self.home / "cache", ignore_errors=True)
                cache = self.write_cache("org/tiny", omitted)
                code = 4 if omitted == "model.safetensors" else 7
                done = self.run_gpux("pull", "org/tiny", code=code, HF_HUB_CACHE=cache, GPUX_OFFLINE="1")
                self.assertIn(message, done.stderr)
                self.assertEqual(self.names(), [])
        # A file that is damaged is not used, and not downloaded either.
        shutil.rmtree(self.home / "cache")
        cache = self.write_cache("org/tiny")
        digest = hashlib.sha256((BERT / "model.safetensors").read_bytes()).hexdigest()
        blob = self.home / "cache/models--org--tiny/blobs" / digest
        content = bytearray(blob.read_bytes())
        content[-1] ^= 1
        blob.write_bytes(content)
        done = self.run_gpux("pull", "org/tiny", code=7, HF_HUB_CACHE=cache, GPUX_OFFLINE="1")
        self.assertIn("does not have 'model.safetensors', and GPUX_OFFLINE forbids to download it", done.stderr)

    def test_every_command_that_opens_a_model_pulls_it(self) -> None:
        model = "hf.co/org/tiny"
        tokens = json.dumps({"input_ids": [[1, 2, 3]], "attention_mask": [[1, 1, 1]], "token_type_ids": [[0, 0, 0]]})
        rows = [
            ["embed", model, "one"],
            ["run", model, "--input", tokens],
            ["inspect", model],
            ["bench", model, "--runs", "2", "--input", tokens],
            ["verify", model, "--input", tokens],
            ["search", model, "one", "two", "three"],
        ]
        for words in rows:
            with self.subTest(words[0]):
                self.run_gpux(*words, "--pull", "never", code=7)
                self.run_gpux(*words, code=7, GPUX_OFFLINE="1")
                self.run_gpux(*words, code=7, HF_HUB_OFFLINE="1")
                self.assertEqual(self.requests(), [])
                self.run_gpux(*words)
                self.assertEqual(self.names(), ["hf.co/org/tiny:latest"])
                # What is stored is used without the network, unless it is wanted.
                self.set_faults()
                self.run_gpux(*words)
                self.run_gpux(*words, "--pull", "never")
                self.run_gpux(*words, GPUX_OFFLINE="1")
                self.assertEqual(self.requests(), [])
                self.run_gpux(*words, "--pull", "always")
                self.assertEqual(len(self.requests()), 1)
                self.run_gpux("rm", "hf.co/org/tiny")
                self.run_gpux("prune")
                self.set_faults()

    def served(self, *words: str, **variables: str) -> list:
        """The names that a server has, started with these words."""
        process = subprocess.Popen(
            [GPUX, "serve", *words, "--port", "0", "--no-grpc", "--json"], env=self.environment(**variables),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        try:
            line = process.stdout.readline()
            self.assertTrue(line, "" if line else process.communicate(timeout=20)[1])
            return sorted(model["name"] for model in json.loads(line)["models"])
        finally:
            process.terminate()
            process.communicate(timeout=20)

    def test_serve_pulls_its_models(self) -> None:
        names = self.served("hf.co/org/tiny", "upper=hf.co/Org/Upper_Case@v1.0")
        self.assertEqual(names, ["tiny", "upper"])
        self.assertEqual(sorted(self.names()), ["hf.co/org/tiny:latest", "hf.co/org/upper_case:v1.0"])
        self.set_faults()
        self.assertEqual(self.served("hf.co/org/tiny", "--pull", "never"), ["tiny"])
        self.assertEqual(self.requests(), [])
        self.run_gpux("rm", "hf.co/org/tiny")
        self.run_gpux("serve", "hf.co/org/tiny", "--port", "0", "--pull", "never", code=7)
        listed = self.home / "models.yml"
        listed.write_text("models:\n  small: hf.co/org/tiny\n  large: {model: hf:Org/Upper_Case@v1.0}\n")
        self.run_gpux("serve", "--models", str(listed), "--port", "0", code=7, GPUX_OFFLINE="1")
        self.assertEqual(self.served("--models", str(listed)), ["large", "small"])
        self.assertEqual(sorted(self.names()), ["hf.co/org/tiny:latest", "hf.co/org/upper_case:v1.0"])
        self.assertEqual(self.served("--models", str(listed), GPUX_OFFLINE="1"), ["large", "small"])

    def is_stored_here(self, reference: str) -> bool:
        """Whether the reference is answered without the hub."""
        words = [GPUX, "inspect", reference, "--pull", "never", "--json"]
        done = subprocess.run(words, capture_output=True, text=True, env=self.environment(), stdin=subprocess.DEVNULL)
        self.assertIn(done.returncode, (0, 7), done.stderr)
        return done.returncode == 0

    def test_each_revision_is_its_own(self) -> None:
        vectors = {}
        for revision in ("a/b", "a-b", "latest", "main", ""):
            reference = "hf.co/org/tiny" + (f"@{revision}" if revision else "")
            self.assertFalse(self.is_stored_here(reference) and revision != "", reference)
            vectors[revision] = self.vector(reference)
        # Four contents: main is the default branch.
        self.assertEqual(len({tuple(vector) for vector in vectors.values()}), 4)
        self.assertEqual(vectors[""], vectors["main"])
        for revision, vector in vectors.items():
            reference = "hf.co/org/tiny" + (f"@{revision}" if revision else "")
            self.assertEqual(self.vector(reference, "--pull", "never"), vector, reference)
        # What `gpux images` prints names each of them, too.
        self.assertEqual(len(self.names()), 5)
        for name in self.names():
            self.assertTrue(self.is_stored_here(name), name)
            self.assertIn("up to date", self.run_gpux("pull", name).stdout)
        served = [f"m{i}=hf.co/org/tiny@{revision}" for i, revision in enumerate(("a/b", "a-b"))]
        self.assertEqual(self.served(*served), ["m0", "m1"])

    def test_a_package_of_an_earlier_version_has_no_revision(self) -> None:
        """Its name is its revision, unless it may have been another one that became the same name."""
        for revision, is_found in (("v1.0", True), ("a-b", False)):
            self.run_gpux("pull", f"org/tiny@{revision}")
            self.forget_requested_revision()
            self.assertEqual(self.is_stored_here(f"hf.co/org/tiny@{revision}"), is_found, revision)
            self.assertTrue(self.is_stored_here(f"hf.co/org/tiny:{revision}"), "the name that is listed")
            self.run_gpux("rm", f"hf.co/org/tiny:{revision}")

    def forget_requested_revision(self) -> None:
        """As packages were stored before it was recorded."""
        store = self.home / "gpux"
        index = json.loads((store / "index.json").read_text())
        for entry in index["manifests"]:
            manifest = json.loads((store / "blobs/sha256" / entry["digest"][7:]).read_text())
            del manifest["annotations"]["dev.gpux.origin.requested-revision"]
            text = json.dumps(manifest)
            entry["digest"] = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
            entry["size"] = len(text)
            (store / "blobs/sha256" / entry["digest"][7:]).write_text(text)
        (store / "index.json").write_text(json.dumps(index))

    def test_a_file_of_a_repository_is_its_own(self) -> None:
        place = self.repositories / "org/onnx"
        self.run_gpux("import", str(self.repositories / "org/tiny"), "-o", str(place))
        for name in ("one", "two"):
            shutil.copy(place / "model.onnx", place / f"{name}.onnx")
        (place / "model.onnx").unlink()
        references = {name: f"https://huggingface.co/org/onnx/blob/main/{name}.onnx" for name in ("one", "two")}
        for reference in references.values():
            self.run_gpux("inspect", reference)
        for name, reference in references.items():
            shown = json.loads(self.run_gpux("inspect", reference, "--json", "--pull", "never").stdout)
            self.assertEqual(shown["package"]["origin"]["file"], f"{name}.onnx")
        self.assertFalse(self.is_stored_here("hf.co/org/onnx@main"))

    def test_an_address_answers_for_itself_alone(self) -> None:
        address = f"{self.url}/files/add.onnx"
        content = (SOURCE / "tests/models/add.onnx").read_bytes()
        self.run_gpux("inspect", address)
        self.assertTrue(self.is_stored_here(address))
        self.assertTrue(self.is_stored_here(f"{address}#sha256={hashlib.sha256(content).hexdigest()}"))
        self.assertFalse(self.is_stored_here(f"{address}#sha256={'0' * 64}"))
        # A package of a registry of that name is another one.
        self.assertFalse(self.is_stored_here(address.removeprefix("http://").removesuffix(".onnx")))

    def test_a_file_that_changes_is_not_mixed(self) -> None:
        """A cut transfer goes on with another version of the file, which has the same size and the same weak ETag."""
        names = ["large.onnx", "large-2.onnx"]
        digests = [hashlib.sha256((self.repositories / "files" / name).read_bytes()).hexdigest() for name in names]
        self.set_faults(weak_etag="same", cut=[2000], files=names)
        said = self.run_gpux("pull", f"{self.url}/files/large.onnx", "-t", "large").stderr
        self.assertTrue((self.home / "gpux/blobs/sha256" / digests[1]).exists())
        self.assertIn(f"its content was not checked, since no digest was given; its SHA-256 is {digests[1]}", said)
        self.assertEqual({request["range"] for request in self.requests()}, {""})
        # With a digest the whole is checked, and with a strong ETag parts are those of one version.
        self.set_faults(weak_etag="same", cut=[2000], files=names)
        self.run_gpux("pull", f"{self.url}/files/large.onnx#sha256={digests[0]}", "-t", "other", code=10)
        self.set_faults(cut=[2000], files=names)
        done = self.run_gpux("pull", f"{self.url}/files/large.onnx", "-t", "other", code=10)
        self.assertIn("has changed on the server while it was downloaded", done.stderr)
        self.set_faults(cut=[2000])
        self.run_gpux("pull", f"{self.url}/files/large.onnx", "-t", "other")
        self.assertIn("bytes=2000-", " ".join(request["range"] for request in self.requests()))

    def test_an_address_that_is_signed_for_get(self) -> None:
        for status in (400, 401, 403, 405):
            self.set_faults(head_status=status)
            self.run_gpux("pull", f"{self.url}/files/add.onnx", "-t", f"add:{status}")
            self.run_gpux("pull", f"{self.url}/files/missing.onnx", code=7)
        self.assertEqual(len(self.names()), 4)

    def test_a_hub_without_digests(self) -> None:
        # The tokenizer, the header of the weights, and the weights.
        self.set_faults(no_digests=True, cut=[1 << 30, 1 << 30, 1000])
        done = self.run_gpux("pull", "org/tiny")
        self.assertIn("no digest is known of", done.stderr)
        whole = [request for request in self.requests() if request["path"].startswith("/-/storage/org/tiny/model.safetensors")]
        # The header is read before; nothing is continued in the middle.
        self.assertEqual([request["range"] for request in whole], ["bytes=0-65535", "", ""])
        self.set_faults()
        self.assertNotIn("no digest", self.run_gpux("pull", "Org/Upper_Case").stderr)

    def test_weights_in_parts_of_any_name(self) -> None:
        expected = self.vector("hf.co/org/tiny")
        self.set_faults()
        self.assertEqual(self.vector("hf.co/org/parts"), expected)
        paths = " ".join(request["path"] for request in self.requests())
        self.assertIn("second.safetensors", paths)
        self.assertNotIn("model-00001-of-00001", paths)
        listed = json.loads(self.run_gpux("hub", "info", "org/parts", "--json").stdout)["files"]
        self.assertEqual({row["name"] for row in listed if row["pulled"] and row["name"].endswith(".safetensors")},
                         {"first.safetensors", "second.safetensors"})
        self.set_faults()
        done = self.run_gpux("pull", "org/part-missing", code=7)
        self.assertIn("has no file 'second.safetensors', which its model.safetensors.index.json names", done.stderr)

    def test_modules_in_folders_of_any_name(self) -> None:
        self.run_gpux("import", str(self.repositories / "org/modules"), "-t", "imported")
        expected = self.vector("imported")
        self.assertEqual(len(expected), 4)
        self.assertEqual(self.vector("hf.co/org/modules"), expected)
        paths = " ".join(request["path"] for request in self.requests())
        self.assertIn("pool/config.json", paths)
        self.assertIn("2_Dense_4/model.safetensors", paths)
        self.assertNotIn("2_Dense_8", paths)
        self.assertNotIn("1_Pooling", paths)

    def test_a_gguf_file_by_its_quantization(self) -> None:
        for reference, file, name in (("hf.co/Org/X-GGUF:Q8_0", "x-Q8_0.gguf", "hf.co/org/x-gguf:Q8_0"),
                                      ("hf.co/Org/X-GGUF", "x-Q4_K_M.gguf", "hf.co/org/x-gguf:latest")):
            self.run_gpux("generate", reference, "one", "--max-tokens", "1")
            self.assertIn(name, self.names())
            self.assertTrue(self.is_stored_here(reference))
            package = json.loads(self.run_gpux("inspect", name, "--json").stdout)["package"]
            self.assertEqual(package["origin"]["file"], file)
            self.assertIn("up to date", self.run_gpux("pull", reference).stdout)
        self.assertFalse(self.is_stored_here("hf.co/Org/X-GGUF:Q2_K"))
        self.assertIn("no GGUF file in Q2_K; it has Q4_K_M, Q8_0", self.run_gpux("pull", "hf.co/Org/X-GGUF:Q2_K", code=7).stderr)
        self.assertIn("@F16 names a revision", self.run_gpux("pull", "hf.co/org/tiny:F16", code=7).stderr)
        self.assertFalse([path for path in (self.home / "gpux/downloads").iterdir() if not path.name.endswith(".lock")])

    def test_a_stored_model_beside_weights_of_another_is_up_to_date(self) -> None:
        made = self.home / "made"
        self.run_gpux("import", str(BERT), "-o", str(made))
        for name, model in (("onnx-aside", made / "model.onnx"), ("gguf-aside", SOURCE / "tests/importer/gguf/llama-q4_0.gguf")):
            place = self.repositories / "org" / name
            (place / "original").mkdir(parents=True)
            shutil.copy(BERT / "model.safetensors", place / "original")
            for file in ("config.json", "tokenizer.json"):
                shutil.copy(BERT / file, place)
            (place / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Transformer", "path": ""}]))
            file = f"other{model.suffix}"
            shutil.copy(model, place / file)
            self.assertNotIn("up to date", self.run_gpux("pull", f"hf.co/org/{name}").stdout)
            again = json.loads(self.run_gpux("pull", f"hf.co/org/{name}", "--json").stdout.splitlines()[-1])
            self.assertTrue(again["was_current"], name)
            self.assertEqual(again["file"], file)
        self.assertFalse([path for path in (self.home / "gpux/downloads").iterdir() if not path.name.endswith(".lock")])

    def test_a_rerankers_settings_are_refused_before_its_weights(self) -> None:
        done = self.run_gpux("pull", "org/ranker", code=4)
        self.assertIn("cannot be stored as a model (weights were not downloaded)", done.stderr)
        self.assertIn("accepted: Sigmoid, Identity, Tanh of torch.nn", done.stderr)
        whole = [request for request in self.requests() if "model.safetensors" in request["path"] and not request["range"]]
        self.assertEqual([request for request in whole if request["path"].startswith("/-/storage")], [])

    def test_offline_copies_in_the_cache_are_enough(self) -> None:
        online = self.run_gpux("embed", "hf.co/org/tiny", "one two").stdout
        self.run_gpux("rm", "hf.co/org/tiny")
        cache = pathlib.Path(self.write_cache("org/tiny"))
        for link in [path for path in cache.rglob("*") if path.is_symlink()]:
            content = link.read_bytes()
            link.unlink()
            link.write_bytes(content)
        shutil.rmtree(cache / "models--org--tiny/blobs")
        offline = {"HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:1"}
        done = self.run_gpux("embed", "hf.co/org/tiny", "one two", **offline)
        self.assertEqual(done.stdout, online)
        self.assertIn("no digest is known of", done.stderr)
        # Online, where the hub lists the digests, they are checked, and not downloaded again.
        self.run_gpux("rm", "hf.co/org/tiny")
        self.set_faults()
        self.run_gpux("pull", "org/tiny", HF_HUB_CACHE=str(cache))
        self.assertEqual([request for request in self.requests() if "/resolve/" in request["path"]], [])

    def test_a_project_names_files(self) -> None:
        for source in ("hf.co/org/tiny", "hf:org/tiny", "https://huggingface.co/org/tiny"):
            folder = self.home / "project"
            folder.mkdir(exist_ok=True)
            (folder / "gpux.yml").write_text(f"name: project\nversion: 1.0.0\nmodel: {{source: '{source}'}}\n")
            done = self.run_gpux("run", str(folder), "x", code=3)
            self.assertIn("gpux pull stores one", done.stderr)
        self.assertEqual(self.requests(), [])

    def test_a_model_without_ranges(self) -> None:
        self.set_faults(no_ranges=True)
        self.run_gpux("pull", "org/tiny")
        self.assertEqual(self.names(), ["hf.co/org/tiny:latest"])

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
        broken = self.run_gpux("pull", f"{self.url}/files/broken.onnx", code=4).stderr
        self.assertIn(f"'{self.url}/files/broken.onnx' is not an ONNX model", broken)
        self.assertNotIn("import.gpux", broken)

    def opens_onnx_runtime(self, *words: str) -> bool:
        """As the dynamic loader tells of the process of this command alone: its children write files of their own."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.home))
        process = subprocess.Popen(
            [GPUX, *words], env=self.environment(LD_DEBUG="files", LD_DEBUG_OUTPUT=str(folder / "opened")),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        said = process.communicate(timeout=120)[0]
        self.assertEqual(process.returncode, 0, f"{words}: {said}")
        return "libonnxruntime" in (folder / f"opened.{process.pid}").read_text()

    def test_models_of_others_are_opened_in_a_worker_process_alone(self) -> None:
        for name, source in (
            ("encoder", BERT),
            ("images", SOURCE / "tests/importer/images/vit-classifier"),
            ("decoder", SOURCE / "tests/generation/references/gpt2"),
        ):
            self.run_gpux("import", str(source), "-o", str(self.repositories / "onnx" / name))
        self.assertTrue(self.opens_onnx_runtime("run", str(SOURCE / "tests/models/add.onnx"), "-i", '{"x": [[1, 2, 3]]}'))
        for reference in (f"{self.url}/files/add.onnx", "org/tiny", "onnx/encoder", "onnx/images", "onnx/decoder"):
            self.assertFalse(self.opens_onnx_runtime("pull", reference), reference)
        self.assertEqual(len(self.names()), 5)
        # And while it is used straight away.
        self.assertFalse(self.opens_onnx_runtime("embed", "hf.co/onnx/encoder@v1.0", "one"))
        for row in json.loads(self.run_gpux("images", "--json").stdout):
            self.assertTrue(row["source"], row["name"])

    def test_a_model_that_ends_its_process_ends_its_worker(self) -> None:
        (self.repositories / "files/nonsense.onnx").write_bytes((SOURCE / "tests/models/opset_too_new.onnx").read_bytes())
        done = self.run_gpux("pull", f"{self.url}/files/nonsense.onnx", code=4)
        self.assertIn("cannot be loaded", done.stderr)
        self.assertEqual(self.names(), [])

    def test_the_query_of_an_address_stays_secret(self) -> None:
        address = f"{self.url}/files/add.onnx?sig=c2VjcmV0&part=1"
        done = self.run_gpux("pull", address)
        self.run_gpux("pull", address, "-t", "add")
        self.assertIn("up to date", self.run_gpux("pull", address).stdout)
        shown = done.stdout + done.stderr
        for words in (["images"], ["images", "--json"], ["inspect", "add"], ["inspect", "add", "--json"]):
            shown += self.run_gpux(*words).stdout
        # Another query is another file, though the answer has the same version.
        self.assertNotIn("up to date", self.run_gpux("pull", address + "&part=2", "-t", "add").stdout)
        for missing in (["pull", f"{self.url}/files/none.onnx?sig=c2VjcmV0"], ["pull", f"{self.url}/files/external.onnx?sig=c2VjcmV0"]):
            shown += subprocess.run([GPUX, *missing], capture_output=True, text=True, env=self.environment()).stderr
        self.assertIn("/files/add.onnx?…", shown)
        self.assertNotIn("c2VjcmV0", shown)
        for file in (self.home / "gpux").rglob("*"):
            self.assertFalse(file.is_file() and b"c2VjcmV0" in file.read_bytes(), file)

    def test_a_terminal_does_not_obey_a_hub(self) -> None:
        self.set_faults(id="org/tiny\x1b]0;title\x07\u009b31m")
        main, sub = pty.openpty()
        for words in (["pull", "org/tiny"], ["hub", "info", "org/tiny"], ["hub", "info", "org/tiny", "--json"]):
            subprocess.run([GPUX, *words], env=self.environment(), stdin=subprocess.DEVNULL, stdout=sub, stderr=sub)
        os.close(sub)
        shown = b""
        try:
            while data := os.read(main, 65536):
                shown += data
        except OSError:
            pass
        os.close(main)
        # What gpux itself draws: the line of the progress.
        shown = shown.replace(b"\x1b[K", b"")
        self.assertIn(b"]0;title", shown)
        self.assertNotIn(b"\x1b", shown)
        self.assertNotIn(b"\xc2\x9b", shown)
        self.assertNotIn(b"\x07", shown)

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
