#!/usr/bin/env python3
"""One provider library, two hosts: gpux and ONNX Runtime's own Python package give the same bits for the same file.

usage: python_test.py GPUX PROVIDER_LIBRARY REFERENCES

REFERENCES holds folders as sentence-transformers writes them. Exit 77, with the reason: there is nothing to test with.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy
    import onnxruntime
except ImportError as error:
    print(f"skipped: this Python has no {error.name}; scripts/setup brings one that has")
    sys.exit(77)

if tuple(int(part) for part in onnxruntime.__version__.split(".")[:2]) < (1, 24):
    print(f"skipped: onnxruntime {onnxruntime.__version__} is older than 1.24, the first one that the provider works with")
    sys.exit(77)

GPUX, LIBRARY, REFERENCES = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
PROVIDER = "GpuxEncoderExecutionProvider"
# More tokens of one kind than of another, two texts of equal length, and padding at both ends.
LENGTHS, LEFT = (7, 12, 1, 12), (0, 0, 3, 0)


def inputs_of(session):
    random = numpy.random.default_rng(22)
    shape = (len(LENGTHS), max(LENGTHS) + max(LEFT))
    mask = numpy.zeros(shape, numpy.int64)
    for row, (length, left) in enumerate(zip(LENGTHS, LEFT, strict=True)):
        mask[row, left : left + length] = 1
    values = {"input_ids": random.integers(0, 40, shape) * mask, "attention_mask": mask}
    return {value.name: values.get(value.name, numpy.zeros(shape, numpy.int64)) for value in session.get_inputs()}


def python_session(model, precision):
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == PROVIDER]
    options.add_provider_for_devices(devices[:1], {"precision": precision})
    session = onnxruntime.InferenceSession(model, options)
    session.disable_fallback()
    return session


def call(command):
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if ended.returncode != 0:
        raise AssertionError(f"{command[1]} ended with {ended.returncode}: {ended.stderr.strip()}")


def gpux_run(model, inputs, precision, folder):
    numpy.savez(folder / "inputs.npz", **inputs)
    command = [GPUX, "run", model, "--provider", "encoder", "--strict", "--provider-library", f"encoder={LIBRARY}",
               "--provider-option", f"precision={precision}", "--input", f"@{folder / 'inputs.npz'}",
               "--output", folder / "outputs.npz", "--report", folder / "report.json"]
    call(command)
    report = json.loads((folder / "report.json").read_text())
    with numpy.load(folder / "outputs.npz") as outputs:
        return dict(outputs), report["verdict"]


class SameLibrary(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"Python {sys.version.split()[0]}, onnxruntime {onnxruntime.__version__}", flush=True)
        onnxruntime.set_default_logger_severity(3)
        onnxruntime.register_execution_provider_library("encoder", str(LIBRARY))

    def check_family(self, family):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            call([GPUX, "import", REFERENCES / family, "-o", folder / "model"])
            model = folder / "model" / "model.onnx"
            answers = {}
            for precision in ("fp32", "bf16", "int8", "int8-bf16"):
                with self.subTest(family=family, precision=precision):
                    session = python_session(model, precision)
                    held = [part.ep_name for part in session.get_provider_graph_assignment_info()]
                    self.assertIn(PROVIDER, held)
                    inputs = inputs_of(session)
                    names = [output.name for output in session.get_outputs()]
                    ours = dict(zip(names, session.run(names, inputs), strict=True))
                    theirs, verdict = gpux_run(model, inputs, precision, folder)
                    self.assertEqual(verdict["active"][0], "encoder")
                    self.assertEqual(sorted(theirs), sorted(ours))
                    for output, value in ours.items():
                        self.assertEqual((value.dtype, value.shape), (theirs[output].dtype, theirs[output].shape))
                        self.assertEqual(value.tobytes(), theirs[output].tobytes(), output)
                    answers[precision] = b"".join(value.tobytes() for value in ours.values())
            # The option reached the provider in both hosts, or all would be equal.
            self.assertEqual(len(set(answers.values())), len(answers))

    def test_families(self):
        for family in ("bert-cls", "mpnet-mean", "xlm-roberta-last"):
            self.check_family(family)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
