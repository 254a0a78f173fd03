#!/usr/bin/env python3
"""Offline, gpux pulls from a cache that huggingface_hub and its users have filled. usage: hub_cache_client_test.py GPUX
SOURCE_FOLDER"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hub_server  # noqa: E402

GPUX = pathlib.Path(sys.argv.pop(1)).resolve()
SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
folder = tempfile.TemporaryDirectory()
root = pathlib.Path(folder.name)
for name in ("snapshot", "sentences", "parts"):
    shutil.copytree(SOURCE / "tests/embedding/references/bert-cls", root / "hub/org" / name)
    (root / "hub/org" / name / ".gitattributes").write_text("*.safetensors filter=lfs\n")
server = hub_server.start(root / "hub")
os.environ.update(
    HF_ENDPOINT=f"http://127.0.0.1:{server.server_address[1]}",
    HF_HOME=str(root / "home"),
    HF_HUB_DISABLE_TELEMETRY="1",
    HF_HUB_DISABLE_XET="1",
)
for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE"):
    os.environ.pop(name, None)

import huggingface_hub  # noqa: E402
from sentence_transformers import SentenceTransformer  # noqa: E402


class Cache(unittest.TestCase):
    def pull(self, model: str, code: int) -> str:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "GPUX_HOME": str(root / "gpux"),
            "HF_HOME": str(root / "home"),
            "HF_HUB_OFFLINE": "1",
        }
        done = subprocess.run([GPUX, "pull", model], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_a_snapshot(self) -> None:
        huggingface_hub.snapshot_download("org/snapshot")
        self.assertIn("0 B received", self.pull("org/snapshot", 0))

    def test_what_sentence_transformers_has_loaded(self) -> None:
        SentenceTransformer("org/sentences", device="cpu")
        self.assertIn("0 B received", self.pull("org/sentences", 0))

    def test_a_part_is_refused(self) -> None:
        for file in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
            huggingface_hub.hf_hub_download("org/parts", file)
        self.assertIn("does not have modules.json", self.pull("org/parts", 7))


if __name__ == "__main__":
    unittest.main()
