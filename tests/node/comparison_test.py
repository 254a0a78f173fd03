"""Tries scripts/references/node-tests with a stand-in for gpux whose verdicts are known."""

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

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/references/node-tests"
loader = importlib.machinery.SourceFileLoader("node_tests", str(SCRIPT))
node_tests = importlib.util.module_from_spec(importlib.util.spec_from_loader("node_tests", loader))
loader.exec_module(node_tests)


def verdict(name, passed, reason="said no"):
    return {"name": name, "passed": passed, "reason": "" if passed else reason}


class Report(unittest.TestCase):
    def check(self, theirs, ours, count, *lines):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self.assertEqual(node_tests.report("verify", theirs, ours), count)
        for line in lines:
            self.assertIn(line, printed.getvalue())

    def test_both_pass(self):
        line = "2 cases: both pass 2, neither 0, only gpux 0, only ONNX Runtime 0"
        self.check([verdict("a", True), verdict("b", True)], [verdict("b", True), verdict("a", True)], 0, line)

    def test_only_onnxruntime_passes(self):
        self.check([verdict("a", True)], [verdict("a", False)], 1, "ONLY ONNX RUNTIME PASSES a: gpux verify: said no")

    def test_case_left_out(self):
        self.check([verdict("a", True)], [], 1, "ONLY ONNX RUNTIME PASSES a: gpux verify: gpux gave no verdict")

    def test_neither_passes(self):
        self.check([verdict("a", False)], [verdict("a", False)], 0, "neither 1")

    def test_only_gpux_passes(self):
        self.check([verdict("a", False)], [verdict("a", True)], 0, "only gpux verify passes a: ONNX Runtime: said no")


    def test_defects(self):
        for code, count in ((4, 0), (1, 1), (-11, 1)):
            line = "DEFECT a: gpux verify: said no" if count else "defects 0"
            self.check([verdict("a", False)], [{**verdict("a", False), "exit": code}], count, line)


class Shortage(unittest.TestCase):
    def test_of_cases_or_of_passes_is_no_success(self):
        for cases, passed, is_short in [(3, 2, False), (4, 2, False), (2, 2, True), (3, 1, True), (0, 0, True)]:
            self.assertEqual(bool(node_tests.shortage(cases, passed, (3, 2))), is_short, (cases, passed))


class Reasons(unittest.TestCase):
    def test_are_grouped_and_then_listed(self):
        reasons = [
            "[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find an implementation for Max(13)",
            "y: values differ by up to 0.1",
            "[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find an implementation for Abs(13)",
            "no reason that is known",
        ]
        cases = [verdict(f"test_{n}", False, reason) for n, reason in enumerate(reasons)]
        lines = node_tests.not_passed([*cases, verdict("test_good", True)]).splitlines()
        self.assertEqual(
            lines[2:5],
            [
                "| no CPU kernel for the operator with these element types | 2 | test_0, test_2 |",
                "| its results differ from the recorded ones | 1 | test_1 |",
                "| other | 1 | test_3 |",
            ],
        )
        self.assertIn("- test_2: Could not find an implementation for Abs(13)", lines)
        self.assertNotIn("test_good", "\n".join(lines))


class ValuesOfJson(unittest.TestCase):
    def test_take_the_types_of_what_they_are_compared_with(self):
        import ml_dtypes
        import numpy

        values = [
            ([[1.5, "NaN"], ["-Infinity", 2]], numpy.array([[1.5, numpy.nan], [-numpy.inf, 2]], numpy.float32)),
            ([18446744073709551615], numpy.array([18446744073709551615], numpy.uint64)),
            ([1.5, "NaN"], numpy.array([1.5, numpy.nan], ml_dtypes.bfloat16)),
            ([-8, 7], numpy.array([-8, 7], ml_dtypes.int4)),
            ([], numpy.zeros((0, 3), numpy.int32)),
            (["a", "é"], numpy.array(["a", "é"], object)),
            ([[1, 2], [3]], [numpy.array([1, 2], numpy.float32), numpy.array([3], numpy.float32)]),
            (None, None),
        ]
        for printed, expected in values:
            node_tests.compare(node_tests.typed(printed, expected), expected, "y")
        for printed, expected in [([1, 2], numpy.zeros(3)), ([1], None), (None, numpy.zeros(1)), ([[1]], [])]:
            with self.assertRaises(AssertionError):
                node_tests.compare(node_tests.typed(printed, expected), expected, "y")


class VerdictOnRun(unittest.TestCase):
    def setUp(self):
        from onnx import TensorProto, helper, numpy_helper
        import numpy

        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        data = self.folder / "case" / "test_data_set_0"
        data.mkdir(parents=True)
        infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", infos[:1], infos[1:])
        (data.parent / "model.onnx").write_bytes(helper.make_model(graph).SerializeToString())
        value = numpy_helper.from_array(numpy.array([1, 2], numpy.float32)).SerializeToString()
        for name in ("input_0.pb", "output_0.pb"):
            (data / name).write_bytes(value)

    def verdict_on(self, writes, prints):
        """On a gpux whose run does the one with --output FILE, which is $8, and the other without."""
        gpux = self.folder / "gpux"
        gpux.write_text(f"#!/bin/sh\nright() {{ cp {self.folder}/case/test_data_set_0/output_0.pb \"$8\"; }}\n"
                        f"if [ \"$7\" = --output ]; then {writes}; else {prints}; fi\n")
        gpux.chmod(0o755)
        with tempfile.TemporaryDirectory() as outputs:
            verdict = node_tests.run_verdict(str(gpux), self.folder / "case", pathlib.Path(outputs) / "case")
        self.assertEqual(verdict["passed"], not verdict["reason"])
        return verdict["exit"], verdict["reason"]

    def test_passes_what_is_right_both_ways(self):
        self.assertEqual(self.verdict_on('right "$@"', "echo '{\"y\": [1, 2]}'"), (0, ""))

    def test_names_what_is_wrong(self):
        right = 'right "$@"'
        for writes, prints, code, reason in [
            ("echo '{\"y\": [1, 2]}'", ":", 0, "result.pb: --output, and yet printed"),
            (":", ":", 0, "result.pb: [Errno 2] No such file"),
            ("echo x > $8", ":", 0, "result.pb: "),
            ("echo 'gpux: it is so' >&2; exit 6", ":", 6, "result.pb: exit 6: gpux: it is so"),
            ("kill -SEGV $$", ":", -11, "result.pb: exit -11:"),
            (right, "echo '{\"y\": [1, 3]}'", 0, "standard output: y: values differ by up to 1"),
            (right, "echo '{\"z\": [1, 2]}'", 0, "standard output: outputs ['z']"),
            (right, "echo hello", 0, "standard output: Expecting value"),
            (right, "exit 1", 1, "standard output: exit 1:"),
        ]:
            got = self.verdict_on(writes, prints)
            self.assertEqual(got[0], code, got)
            self.assertTrue(got[1].startswith(reason), got)


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
        # ONNX Runtime has Max for most types, but not for 16 bits. The first of the pair answers rightly, and both ways.
        cases = json.dumps({"cases": [verdict("test_max_int8", False), verdict("test_max_int16", False)]})
        run = self.run_with(
            f"""case "$1 $2" in
              'verify --suite') echo '{cases}' ;;
              'run '*int8/model.onnx)
                for last; do :; done
                case "$last" in
                  *result.pb) cp "$(dirname "$2")/test_data_set_0/output_0.pb" "$last" ;;
                  *) echo '{{"result": [3, 4, 4]}}' ;;
                esac ;;
              *) echo 'gpux: said no' >&2; exit 4 ;;
            esac""",
            "test_max_int",
        )
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("ONLY ONNX RUNTIME PASSES test_max_int8: gpux verify: said no", run.stdout)
        self.assertNotIn("PASSES test_max_int16", run.stdout)
        case = self.out / "cases" / "test_max_int8"
        files = sorted(str(path.relative_to(case)) for path in case.rglob("*.*"))
        data = "test_data_set_0/"
        self.assertEqual(files, ["model.onnx", data + "input_0.pb", data + "input_1.pb", data + "output_0.pb"])
        theirs = self.verdicts("onnxruntime")
        self.assertTrue(theirs["test_max_int8"]["passed"])
        self.assertIn("NOT_IMPLEMENTED", theirs["test_max_int16"]["reason"])
        self.assertIn("test_max_int16: Could not find", (self.out / "not-passed.md").read_text())
        ran = self.verdicts("gpux-run")
        self.assertTrue(ran["test_max_int8"]["passed"], ran["test_max_int8"])
        self.assertEqual(ran["test_max_int16"]["reason"], "result.pb: exit 4: gpux: said no")

    def verdicts(self, name):
        return {case["name"]: case for case in json.loads((self.out / f"{name}.json").read_text())["cases"]}

    def test_no_verdicts(self):
        run = self.run_with("echo Segmentation fault; exit 139", "test_max_int8")
        self.assertEqual(run.returncode, 2)
        self.assertIn("ended with 139 and printed no list of cases", run.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
