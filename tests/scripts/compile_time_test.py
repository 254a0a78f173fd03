"""What compile-time reads of ninja's files. Standard library only."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "compile-time"
RULES = """build src/base/a.o: CXX_COMPILER__gpux_base ../a.cpp
build plugins/encoder/b.o: CXX_COMPILER__b ../b.cpp
build tests/base/c.o: CXX_COMPILER__c ../c.cpp
build lib/libgpux_base.a: CXX_STATIC src/base/a.o
"""
# The first compilation of a.o is not the last; d.o is of rules that are gone.
LOG = """# ninja log v5
0\t9000\t1\tsrc/base/a.o\tx
100\t1600\t1\tsrc/base/a.o\tx
0\t500\t1\tplugins/encoder/b.o\tx
0\t8000\t1\ttests/base/c.o\tx
0\t8000\t1\tsrc/base/d.o\tx
"""


def printed(*arguments):
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


class CompileTime(unittest.TestCase):
    def test_last_compilations_of_present_objects_count(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "build.ninja").write_text(RULES)
            (pathlib.Path(folder) / ".ninja_log").write_text(LOG)
            line = printed(folder)
        self.assertEqual(line.returncode, 0, line.stderr)
        self.assertRegex(line.stdout, r"^compile-time: 2 objects of src and plugins, \d+ lines, 2 s: 0\.0 s for 1,000 lines")
        self.assertIn("(recorded: ", line.stdout)

    def test_a_folder_without_a_log_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            line = printed(folder)
        self.assertEqual((line.returncode, line.stdout), (0, f"compile-time: {folder} has no log of ninja\n"))

    def test_without_a_folder_the_usage_is_shown(self):
        self.assertEqual(printed().returncode, 1)
        self.assertIn("usage: scripts/compile-time BUILD", printed().stderr)


if __name__ == "__main__":
    unittest.main()
