"""Tries scripts/node-tests with a stand-in for gpux whose verdicts are known."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "node-tests"
loader = importlib.machinery.SourceFileLoader("node_tests", str(SCRIPT))
node_tests = importlib.util.module_from_spec(importlib.util.spec_from_loader("node_tests", loader))
loader.exec_module(node_tests)


def verdict(name, passed, reason="said no"):
    return {"name": name, "passed": passed, "reason": "" if passed else reason}


class Report(unittest.TestCase):
    def check(self, theirs, ours, count, *lines):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self.assertEqual(node_tests.report(theirs, ours), count)
        for line in lines:
            self.assertIn(line, printed.getvalue())

    def test_both_pass(self):
        line = "2 cases: both pass 2, neither 0, only gpux 0, only ONNX Runtime 0"
        self.check([verdict("a", True), verdict("b", True)], [verdict("b", True), verdict("a", True)], 0, line)

    def test_only_onnxruntime_passes(self):
        self.check([verdict("a", True)], [verdict("a", False)], 1, "ONLY ONNX RUNTIME PASSES a: gpux: said no")

    def test_case_left_out(self):
        self.check([verdict("a", True)], [], 1, "ONLY ONNX RUNTIME PASSES a: gpux: gpux gave no verdict")

    def test_neither_passes(self):
        self.check([verdict("a", False)], [verdict("a", False)], 0, "neither 1")

    def test_only_gpux_passes(self):
        self.check([verdict("a", False)], [verdict("a", True)], 0, "only gpux passes a: ONNX Runtime: said no")


class WholeProgram(unittest.TestCase):
    def run_with(self, stand_in, cases):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name) / "out"
        gpux = pathlib.Path(folder.name) / "gpux"
        gpux.write_text(f"#!/bin/sh\n{stand_in}\n")
        gpux.chmod(gpux.stat().st_mode | stat.S_IXUSR)
        command = [sys.executable, str(SCRIPT), "--out", str(self.out), "--only", cases, "--gpux", str(gpux)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_writes_the_cases_and_compares(self):
        # ONNX Runtime has Max for most types, but not for 16 bits.
        cases = json.dumps({"cases": [verdict("test_max_int8", False), verdict("test_max_int16", False)]})
        run = self.run_with(f"test \"$1 $2 $4\" = 'verify --suite --json' && echo '{cases}'", "test_max_int")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("ONLY ONNX RUNTIME PASSES test_max_int8: gpux: said no", run.stdout)
        self.assertNotIn("PASSES test_max_int16", run.stdout)
        case = self.out / "cases" / "test_max_int8"
        files = sorted(str(path.relative_to(case)) for path in case.rglob("*.*"))
        data = "test_data_set_0/"
        self.assertEqual(files, ["model.onnx", data + "input_0.pb", data + "input_1.pb", data + "output_0.pb"])
        theirs = {case["name"]: case for case in json.loads((self.out / "onnxruntime.json").read_text())["cases"]}
        self.assertTrue(theirs["test_max_int8"]["passed"])
        self.assertIn("NOT_IMPLEMENTED", theirs["test_max_int16"]["reason"])

    def test_no_verdicts(self):
        run = self.run_with("echo Segmentation fault; exit 139", "test_max_int8")
        self.assertEqual(run.returncode, 2)
        self.assertIn("ended with 139 and printed no list of cases", run.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
