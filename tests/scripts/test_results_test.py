"""Tries scripts/test-results with JUnit files as ctest writes them."""

import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.sax.saxutils

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "test-results"

PROGRAM_THAT_SKIPS = """Running main() from gtest_main.cc
a_test.cpp:2: Skipped
no WebGPU: scripts/setup fetches it
a_test.cpp:7: Skipped
no WebGPU: scripts/setup fetches it
b_test.cpp:5: Skipped

[==========] 5 tests from 2 test suites ran. (0 ms total)
[  PASSED  ] 2 tests.
[  SKIPPED ] 3 tests.
"""
PROGRAM_THAT_SKIPS_ALL = "a_test.cpp:2: Skipped\nno device\n[  PASSED  ] 0 tests.\n[  SKIPPED ] 1 test.\n"
PROGRAM_WHOSE_OUTPUT_IS_CUT = "...\n[  PASSED  ] 2 tests.\n[  SKIPPED ] 4 tests, listed below:\n"


def case(name, status, output="", skipped=None):
    skip = "" if skipped is None else f'<skipped message="{skipped}"/>'
    text = xml.sax.saxutils.escape(output)
    return f'<testcase name="{name}" status="{status}">{skip}<system-out>{text}</system-out></testcase>'


class Counts(unittest.TestCase):
    def check(self, cases, line, code=0, says=(), extra=0):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "junit.xml"
            file.write_text(f"<testsuite>{''.join(cases)}</testsuite>")
            command = [sys.executable, str(SCRIPT), str(extra), str(file)]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(run.stdout.strip(), line, run.stderr)
        self.assertEqual(run.returncode, code)
        for text in says:
            self.assertIn(text, run.stderr)

    def test_what_passed_and_failed(self):
        self.check([case("a", "run"), case("b", "run")], "2 passed, 0 failed")
        self.check([case("a", "run"), case("b", "fail", "why")], "1 passed, 1 failed", 1, ["FAILED b", "    why"])
        self.check([case("a", "run")], "1 passed, 2 failed", 1, extra=2)

    def test_skips_of_ctest(self):
        self.check(
            [case("a", "run"), case("b", "notrun", "skipped: no package", "SKIP_RETURN_CODE=77")],
            "1 passed, 0 failed, 1 skipped",
            says=["skipped: no package: b"],
        )
        # What ctest could not start, it calls skipped as well.
        self.check([case("a", "notrun", "", "Unable to find executable")], "0 passed, 1 failed", 1)

    def test_skips_within_a_program(self):
        self.check(
            [case("program", "run", PROGRAM_THAT_SKIPS)],
            "1 passed, 0 failed, 3 skipped",
            says=["skipped: no WebGPU: scripts/setup fetches it: program, program", "skipped: no reason given: program"],
        )
        self.check([case("program", "run", PROGRAM_THAT_SKIPS_ALL)], "0 passed, 0 failed, 1 skipped")
        self.check([case("program", "run", PROGRAM_WHOSE_OUTPUT_IS_CUT)], "1 passed, 0 failed, 4 skipped")
        self.check([case("program", "fail", PROGRAM_THAT_SKIPS)], "0 passed, 1 failed", 1)


if __name__ == "__main__":
    unittest.main()
