"""Tries bench/generation/make_models: the same files each time, which gpux imports and generates with.

usage: make_models_test.py GPUX
"""

import hashlib
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bench/generation/make_models"


def make(folder, *arguments):
    return subprocess.run([sys.executable, PROGRAM, *arguments[:2], folder, *arguments[2:]], capture_output=True, text=True)


def digests(folder):
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


class MakeModels(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="gpux-make-models-")
        self.addCleanup(self.folder.cleanup)
        self.made = pathlib.Path(self.folder.name, "made")
        done = make(self.made, "--layers", "1", "SmolLM2-135M")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.model = self.made / "SmolLM2-135M"

    def test_the_files_are_the_same_each_time(self):
        again = pathlib.Path(self.folder.name, "again")
        make(again, "--layers", "1", "SmolLM2-135M")
        self.assertEqual(digests(self.model), digests(again / "SmolLM2-135M"))

    def test_the_tensors_fill_the_file(self):
        with open(self.model / "model.safetensors", "rb") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            header = json.loads(file.read(size))
            begin = file.tell()
            file.seek(0, 2)
            total = file.tell() - begin
        del header["__metadata__"]
        self.assertEqual(len(header), 11)
        end = 0
        for tensor in header.values():
            self.assertEqual(tensor["data_offsets"][0], end)
            end = tensor["data_offsets"][1]
        self.assertEqual(end, total)

    def test_each_merge_makes_a_token_of_the_vocabulary(self):
        model = json.loads((self.model / "tokenizer.json").read_text())["model"]
        self.assertEqual(sorted(model["vocab"].values()), list(range(49152)))
        known = {text for text in model["vocab"] if len(text) == 1}
        for merge in model["merges"]:
            left, right = merge.split(" ")
            self.assertTrue(left in known and right in known, merge)
            known.add(left + right)

    def test_gpux_generates_with_it(self):
        onnx = pathlib.Path(self.folder.name, "onnx")
        gpux = sys.argv[1]
        subprocess.run([gpux, "import", self.model, "-o", onnx], check=True, capture_output=True)
        done = subprocess.run([gpux, "generate", onnx, "a text", "--max-tokens", "3", "--ignore-eos", "--json"],
                              check=True, capture_output=True, text=True)
        self.assertEqual(json.loads(done.stdout)["completion_tokens"], 3)

    def test_names_and_numbers_that_are_not_accepted(self):
        for arguments, message in ((("--layers", "-1"), "accepted: 1 and more"), (("--layers", "1", "GPT-9"), "no model GPT-9")):
            done = make(self.made, *arguments)
            self.assertEqual(done.returncode, 1)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
