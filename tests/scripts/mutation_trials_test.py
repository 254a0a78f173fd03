"""Tries scripts/mutation-trials in a tree of its own, where a shell script is the program, its test and its build."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts" / "mutation-trials"
CODE = "answer=42 # the answer\n"

# The build copies the code into the test program, and fails where the code says so.
CMAKE = r"""#!/bin/sh
grep -q broken "$ROOT/src/code" && exit 1
mkdir -p "$2/bin"
{ echo '#!/bin/sh'; cat "$ROOT/src/code"; cat "$ROOT/program"; } > "$2/bin/test_suite"
chmod +x "$2/bin/test_suite"
"""

PROGRAM = r"""
report=${2#--gtest_output=json:}
[ "$answer" = crash ] && kill -SEGV $$
[ "$answer" = hang ] && sleep 60
result=COMPLETED failures=
[ "$answer" = skip ] && result=SKIPPED
[ "$answer" = 42 ] || [ "$result" = SKIPPED ] || failures=', "failures": [{"failure": "wrong"}]'
echo '{"testsuites": [{"name": "Suite", "testsuite": [{"name": "Case", "result": "'$result'"'$failures'}]}]}' > "$report"
"""


def row(becomes, text="42", name="m", test="Suite.Case", file="src/code"):
    fields = {"name": name, "file": file, "text": text, "becomes": becomes, "program": "test_suite", "test": test}
    return "[[mutation]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())


class MutationTrials(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in {
            "src/code": CODE,
            "program": PROGRAM,
            "bin/cmake": CMAKE,
            "build/CMakeCache.txt": "",
            "tests/suite/CMakeLists.txt": "gpux_test(suite SOURCES suite_test.cpp)\n",
            "tests/suite/suite_test.cpp": "TEST(Suite, Case) {\n",
        }.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        (self.root / "bin/cmake").chmod(0o755)
        (self.root / "scripts").mkdir()
        shutil.copy(SCRIPT, self.root / "scripts")
        self.environment = {**os.environ, "ROOT": str(self.root), "PATH": f"{self.root}/bin:{os.environ['PATH']}"}

    def command(self, *arguments):
        return [sys.executable, self.root / "scripts/mutation-trials", "--build", self.root / "build", *arguments]

    def trials(self, table, *arguments):
        (self.root / "scripts/mutations.toml").write_text(table)
        return subprocess.run(self.command(*arguments), env=self.environment, capture_output=True, text=True, timeout=60)

    def code(self):
        return (self.root / "src/code").read_text()

    def test_says_what_was_killed_and_what_survived(self):
        for becomes, code, said in [
            ("41", 0, "m | Suite.Case | killed\n"),
            ("42 ", 1, "m | Suite.Case | SURVIVED\n"),
            ("crash", 1, "m | Suite.Case | SURVIVED: the test crashed: exit code -11\n"),
            ("broken", 1, f"m | Suite.Case | SURVIVED: cannot be built: {self.root}/build/mutation-trials.log\n"),
            ("skip", 1, "m | Suite.Case | SURVIVED\n"),
        ]:
            with self.subTest(becomes):
                done = self.trials(row(becomes))
                self.assertEqual((done.returncode, done.stdout), (code, said), done.stderr)
                self.assertEqual(self.code(), CODE)
                # What is left behind is without the mutation.
                self.assertIn(CODE, (self.root / "build/bin/test_suite").read_text())
                self.assertFalse((self.root / "build/mutation-trials.journal").exists())

    def test_needs_tests_that_pass_without_the_mutation(self):
        for answer, said in [("41", "Suite.Case failed"), ("skip", "Suite.Case skipped"), ("crash", "the test crashed")]:
            (self.root / "src/code").write_text(f"answer={answer}\n")
            done = self.trials(row("43", text=answer))
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"SURVIVED: without the mutation: {said}", done.stdout)

    def test_refuses_a_table_that_does_not_match(self):
        for table, said in [
            (row("41", text="none"), "its text is found 0 times in src/code, not once"),
            (row("41", text="answer"), "its text is found 2 times in src/code, not once"),
            (row("42"), "changes nothing"),
            (row("41", file="src/none"), "its text is found 0 times in src/none, not once"),
            (row("41") + row("40"), "there are two of this name"),
            (row("41", test="Suite.None"), "there is no test Suite.None"),
            (row("41").replace("test_suite", "test_none"), "there is no test program test_none"),
            ('[[mutation]]\nname = "m"\n', "expected"),
        ]:
            for arguments in [], ["--check"], ["--list"]:
                done = self.trials(table, *arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(said, done.stderr)
        self.assertEqual(self.trials(row("41"), "--check").returncode, 0)
        self.assertEqual(self.trials(row("41"), "other").returncode, 2)
        self.assertEqual(self.trials(row("41"), "--list").stdout, "m | src/code | Suite.Case\n")
        self.assertEqual(self.code(), CODE)

    def mutated(self):
        """A process of which the test hangs in a mutation."""
        (self.root / "scripts/mutations.toml").write_text(row("hang"))
        process = subprocess.Popen(self.command(), env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        while "hang" not in self.code():
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        return process

    def test_restores_the_file_at_signals(self):
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            process = self.mutated()
            process.send_signal(number)
            self.assertEqual(process.wait(60), 128 + number)
            self.assertEqual(self.code(), CODE)

    def test_restores_the_file_at_the_next_start(self):
        process = self.mutated()
        process.kill()
        process.wait()
        self.assertNotEqual(self.code(), CODE)
        self.assertEqual(self.trials(row("41")).stdout, "m | Suite.Case | killed\n")
        self.assertEqual(self.code(), CODE)

    def test_leaves_a_file_that_was_edited_meanwhile(self):
        process = self.mutated()
        process.kill()
        process.wait()
        (self.root / "src/code").write_text("answer=hang # edited\n")
        done = self.trials(row("41", text="hang"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("restore it by hand", done.stderr)
        self.assertEqual(self.code(), "answer=hang # edited\n")


if __name__ == "__main__":
    unittest.main()
