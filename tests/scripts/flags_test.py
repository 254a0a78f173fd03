"""Each flag of `gpux COMMAND --help` is on a page, and each flag that a page names is one of gpux. The first argument is the program."""

import functools
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = "gpux"

# Flags that pages name alone, of a program that they name before; and what is no flag of gpux on purpose.
OF_OTHERS = {
    "--check": "scripts/packaging/package",
    "--longest": "scripts/references/generation-references",
    "--run": "scripts/setup",
    "--size": "scripts/references/*-references",
    "--test": "scripts/setup",
    "--text": "bench_start",
    "--tokenizers": "scripts/references/gguf-references",
    "--write-tests": "scripts/references/family-references",
    "--prvider": "a misspelling, and what gpux says about it",
}
FLAG = r"(?<![\w-])--[a-z][\w-]*"


@functools.cache
def help_of(*command):
    return subprocess.run([PROGRAM, *command, "--help"], capture_output=True, text=True, check=True).stdout


def flags_of_help(text):
    """The flags that the help declares, not those in descriptions: for each of its lines the long names."""
    return [re.findall(FLAG, names) for names in re.findall(r"^  (-\S+)", text, flags=re.MULTILINE)]


@functools.cache
def flags():
    """command -> the names of each of its flags; "" has those of all commands."""
    commands = [name for names in re.findall(r"^  ([a-z][\w, ]*?)  +\S", help_of(), flags=re.MULTILINE) for name in names.split(", ")]
    general = flags_of_help(help_of())
    return {"": general} | {command: flags_of_help(help_of(command)) for command in commands}


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def code_of(page):
    """The code of a page: its spans, and the lines of its blocks."""
    inside = False
    for line in page.splitlines():
        if line.lstrip().startswith("```"):
            inside = not inside
        elif inside or line.startswith("    "):
            yield line
        else:
            yield from re.findall(r"`([^`]+)`", line)


def calls_of(code):
    """(command, flag) of the calls of gpux in a line of code, with 'gpux' before the command or without. The command is
    empty where the code begins with a flag. Calls of other programs are left out."""
    for part in re.split(r"&&|\|\||[|;]| #|  {2,}", code):
        if call := re.search(r"(?:^|[\s/$(])gpux\s+([a-z]+)(?=\s|$)(.*)", part) or re.match(r"\s*([a-z]+)(?=\s)(.*)", part):
            command, rest = call[1], call[2]
        elif re.match(r"\s*-", part):
            command, rest = "", part
        else:
            continue
        if command in flags():
            yield from ((command, flag) for flag in re.findall(FLAG, rest))


class Flags(unittest.TestCase):
    def test_are_read_from_help(self):
        self.assertEqual(flags_of_help("  -h,--help   x --y\n  --a,--no-a{false}\n      --b\n"), [["--help"], ["--a", "--no-a"]])
        self.assertIn(["--max-queue"], flags()["serve"])

    def test_are_read_from_code(self):
        for code, calls in {
            "cat x | gpux run m --a b": [("run", "--a")],
            "build --quantize int8": [("build", "--quantize")],
            "--max-queue 0": [("", "--max-queue")],
            "cmake --build x && build/release/bin/gpux serve --grpc": [("serve", "--grpc")],
            "ran on cpu; asked for cuda (--provider)": [],
        }.items():
            with self.subTest(code=code):
                self.assertEqual(list(calls_of(code)), calls)

    def test_of_help_are_on_a_page(self):
        named = {flag for page in pages() for code in code_of(page.read_text()) for flag in re.findall(FLAG, code)}
        for command, known in flags().items():
            for names in known:
                with self.subTest(command=command, flag=", ".join(names)):
                    self.assertTrue(named.intersection(names), "no page names it")

    def test_of_pages_are_in_help(self):
        names_of = {command: {name for names in known for name in names} for command, known in flags().items()}
        everywhere, count = set().union(*names_of.values()), 0
        for page in pages():
            for code in code_of(page.read_text()):
                for command, flag in calls_of(code):
                    count += 1
                    known = (names_of[command] | names_of[""] if command else everywhere) | OF_OTHERS.keys()
                    with self.subTest(page=page.name, code=code, flag=flag):
                        self.assertIn(flag, known, f"'gpux {command}' has no such flag")
        self.assertGreater(count, 500, "the pages are not read")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
