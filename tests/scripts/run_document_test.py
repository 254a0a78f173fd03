"""Tries scripts/docs/run-document with small documents and a program that stands for gpux."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/docs/run-document"


def run(document):
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "gpux"
        program.write_text('#!/bin/sh\necho "gpux: asked for $1" >&2\necho done\n')
        program.chmod(0o755)
        page = pathlib.Path(folder) / "page.md"
        page.write_text(document)
        environment = {**os.environ, "GPUX_HOME": "/not/passed/on"}
        return subprocess.run([sys.executable, SCRIPT, page, program], env=environment, capture_output=True, text=True)


class RunDocument(unittest.TestCase):
    def test_compares_both_streams_and_any_text(self):
        self.assertEqual(run("    $ gpux a\n    gpux: asked for a\n    done\n").returncode, 0)
        self.assertEqual(run("    $ gpux a\n    gpux: … a\n    …\n").returncode, 0)
        result = run("    $ gpux a\n    gpux: asked for b\n    done\n")
        self.assertEqual(result.returncode, 1)
        self.assertIn("gpux: asked for a", result.stdout)
        self.assertIn("1 outputs differ", result.stderr)

    def test_output_that_the_document_leaves_out_differs(self):
        self.assertEqual(run("    $ gpux a\n    gpux: asked for a\n").returncode, 1)
        self.assertEqual(run("    $ gpux a\n").returncode, 1)

    def test_an_indented_block_below_a_sentence_is_no_output(self):
        self.assertEqual(run("    $ true\n\nElsewhere:\n\n    gpux c\n").returncode, 0)

    def test_output_may_have_blank_lines(self):
        self.assertEqual(run("    $ printf 'a\\n\\nb\\n'\n    a\n\n    b\n").returncode, 0)

    def test_writes_named_blocks_and_keeps_the_folder(self):
        document = "    $ mkdir a && cd a\n\n`b.txt`:\n\n```text\nc\n```\n\n    $ cat ~/a/b.txt\n    c\n    $ cat b.txt\n    c\n"
        self.assertEqual(run(document).returncode, 0)

    def test_variables_of_the_caller_do_not_reach_gpux(self):
        self.assertEqual(run('    $ echo "[$GPUX_HOME]"\n    []\n').returncode, 0)

    def test_refuses_a_wrong_call(self):
        result = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("usage:", result.stderr)


if __name__ == "__main__":
    unittest.main()
