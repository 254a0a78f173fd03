#!/usr/bin/env python3
"""The real client, huggingface_hub, against tests/registry/hub_server.py: what it downloads from it is what is there."""

import hashlib
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hub_server  # noqa: E402

folder = tempfile.TemporaryDirectory()
root = pathlib.Path(folder.name)
for repository in ("org/tiny", "org/gated", "org/private"):
    (root / "hub" / repository / "1_Pooling").mkdir(parents=True)
    (root / "hub" / repository / "config.json").write_text("{}")
    (root / "hub" / repository / "1_Pooling/config.json").write_text('{"a": 1}')
    (root / "hub" / repository / "model.safetensors").write_bytes(bytes(range(256)) * 1000)
server = hub_server.start(root / "hub")
os.environ.update(
    HF_ENDPOINT=f"http://127.0.0.1:{server.server_address[1]}",
    HF_HOME=str(root / "home"),
    HF_HUB_DISABLE_TELEMETRY="1",
    HF_HUB_DISABLE_XET="1",
)
for name in ("HF_TOKEN", "HF_HUB_OFFLINE"):
    os.environ.pop(name, None)

import huggingface_hub  # noqa: E402
from huggingface_hub import errors  # noqa: E402


class RealClient(unittest.TestCase):
    def test_a_snapshot_has_all_files(self) -> None:
        path = pathlib.Path(huggingface_hub.snapshot_download("org/tiny"))
        for file in (root / "hub/org/tiny").rglob("*"):
            if file.is_file():
                copy = path / file.relative_to(root / "hub/org/tiny")
                self.assertEqual(copy.read_bytes(), file.read_bytes())
        # It keeps a large file under its SHA-256, and others under git's id, as gpux expects.
        blobs = {blob.name for blob in (root / "home/hub/models--org--tiny/blobs").iterdir()}
        content = (root / "hub/org/tiny/model.safetensors").read_bytes()
        self.assertIn(hashlib.sha256(content).hexdigest(), blobs)
        self.assertIn(hub_server.git_blob_id(b"{}"), blobs)

    def test_the_information_is_understood(self) -> None:
        info = huggingface_hub.HfApi().model_info("org/tiny", files_metadata=True)
        self.assertEqual(info.id, "org/tiny")
        files = {file.rfilename: file for file in info.siblings}
        self.assertEqual(files["model.safetensors"].lfs.size, 256000)
        self.assertEqual(huggingface_hub.HfApi().model_info("old-org/old-name").id, "org/tiny")

    def test_errors_are_those_of_the_hub(self) -> None:
        with self.assertRaises(errors.RepositoryNotFoundError):
            huggingface_hub.hf_hub_download("org/missing", "config.json")
        with self.assertRaises(errors.RevisionNotFoundError):
            huggingface_hub.HfApi().model_info("org/tiny", revision="nothing")
        with self.assertRaises(errors.EntryNotFoundError):
            huggingface_hub.hf_hub_download("org/tiny", "nothing.json")
        with self.assertRaises(errors.GatedRepoError):
            huggingface_hub.hf_hub_download("org/gated", "config.json")
        huggingface_hub.hf_hub_download("org/gated", "config.json", token=hub_server.TOKEN)
        huggingface_hub.hf_hub_download("org/private", "config.json", token=hub_server.TOKEN)


if __name__ == "__main__":
    unittest.main()
