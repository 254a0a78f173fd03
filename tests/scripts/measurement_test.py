"""Tries bench/measurement.py and bench/record with programs that stand for gpux and for a benchmark."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

RECORD = pathlib.Path(__file__).resolve().parents[2] / "bench" / "record"

GPUX = """#!/bin/sh
echo '{"gpux": "1.2.3", "onnxruntime": {"version": "4.5.6"}}'
"""
# The ratio goes up and down from call to call.
BENCHMARK = """#!/bin/sh
echo >>calls
case $(wc -l <calls) in 1) ratio=1.5;; 2) ratio=0.5;; *) ratio=1.0;; esac
echo "{\\"models\\": [{\\"model\\": \\"a\\", \\"ratio\\": $ratio}]}"
exit 3
"""


# As bench_encoder_kernels prints it.
KERNELS = """avx512       int8      one panel of 56 rows: 224.1 GMAC/s
  products of   1 rows: to queries, keys and values 10 %, widened 11 %, narrowed 12 % of it
  1 of 16        1029.4 texts/s   174.6 GMAC/s a thread,  78 % of the panel's
  32 of 5-128     502.0 texts/s   150.2 GMAC/s a thread,  67 % of the panel's
avx2         fp32      one panel of 56 rows: 28.0 GMAC/s
  32 of 128        20.5 texts/s    27.9 GMAC/s a thread, 100 % of the panel's
"""


class Record(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program("gpux", GPUX)

    def program(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)

    def record(self, command, *flags, environment=None):
        words = [sys.executable, "-B", str(RECORD), "out.json", "--program", "./gpux", *flags, "--", *command]
        return subprocess.run(words, cwd=self.folder, capture_output=True, text=True, env={**os.environ, **(environment or {})}, check=False)

    def document(self):
        return json.loads((self.folder / "out.json").read_text(encoding="utf-8"))

    def test_a_row_per_line(self):
        self.program("trials", "#!/bin/sh\necho '{\"trial\": 1}'\necho '{\"trial\": 2}'\n")
        done = self.record(["./trials", "a b"], "--note", "quiet", environment={"PEERS_VENV": "/somewhere"})
        self.assertEqual(done.returncode, 0, done.stderr)
        document = self.document()
        self.assertEqual(document["results"], [{"trial": 1}, {"trial": 2}])
        self.assertEqual(document["command"], "PEERS_VENV=… ./trials 'a b'")
        self.assertEqual(document["note"], ["quiet"])
        self.assertEqual(document["versions"], {"gpux": "1.2.3", "ONNX Runtime": "4.5.6"})
        self.assertEqual(list(document["machine"]), ["processor", "processors", "system"])

    def test_the_median_of_several_calls(self):
        self.program("benchmark", BENCHMARK)
        done = self.record(["./benchmark"], "--calls", "3")
        self.assertEqual(done.returncode, 3, done.stderr)
        row = {"model": "a", "ratio": 1.0, "least_ratio": 0.5, "greatest_ratio": 1.5, "calls": 3}
        self.assertEqual(self.document()["results"], [row])

    def test_kernels(self):
        (self.folder / "kernels.txt").write_text(KERNELS)
        done = self.record(["cat", "kernels.txt"])
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [tuple(row.values()) for row in self.document()["results"]]
        self.assertEqual(rows, [("int8", "avx512", "1 of 16", 1029.4, 78), ("int8", "avx512", "32 of 5-128", 502.0, 67), ("fp32", "avx2", "32 of 128", 20.5, 100)])

    def test_what_is_not_json(self):
        done = self.record(["echo", "2 texts/s"])
        self.assertEqual(done.stderr, "echo did not print JSON (exit code 0)\n")
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    unittest.main()
