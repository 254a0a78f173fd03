"""Tries what examples/manual/pages does with a page: what it leaves out, and where it ends."""

import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "examples/manual/pages"
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("pages", str(PROGRAM))
pages = importlib.util.module_from_spec(importlib.util.spec_from_loader("pages", loader))
loader.exec_module(pages)

PAGE = """
LS(1)                         User Commands                        LS(1)

N\bNA\bAM\bME\bE
    l\bls\bs - list files.  Sorted


DESCRIPTION
    Written by root@example.org
    in C.  The end

Reporting bugs
    To somebody

SEE ALSO
    dir(1)

GNU 9.1                         May 2026
and more of the footer          of this
GNU 9.1                       September 2022                       LS(1)
"""
TEXT = """NAME
    ls - list files. Sorted

DESCRIPTION
    Written by
    in C. The end

SEE ALSO
    dir(1)"""


class Pages(unittest.TestCase):
    def test_a_page_begins_with_its_name_and_has_no_persons(self):
        text = pages.clean(PAGE)
        self.assertEqual(text, TEXT)

    def test_a_page_without_a_name_is_left_out(self):
        self.assertEqual(pages.clean("A(1)\n\nDESCRIPTION\n    of something\n\nfooter\n"), "")

    def test_a_long_page_ends_with_a_paragraph(self):
        paragraph = "x" * 999
        text = "\n\n".join([paragraph] * 40)
        short = pages.shorten(text)
        self.assertEqual(short, "\n\n".join([paragraph] * 32))
        self.assertEqual(pages.shorten("a\n\nb"), "a\n\nb")

    def test_prose(self):
        self.assertTrue(pages.is_prose("the words of a page " * 20))
        self.assertFalse(pages.is_prose("too short"))
        self.assertFalse(pages.is_prose("+---+ | 1 | " * 40))
        self.assertFalse(pages.is_prose("the words of a page " * 20 + "\ufffd"))

    def test_held_out_by_name(self):
        names = [f"page-{i}.1" for i in range(5000)]
        held_out = [name for name in names if pages.is_held_out(name)]
        self.assertTrue(60 < len(held_out) < 140, len(held_out))
        self.assertTrue(pages.is_held_out("curl_escape.3"))
        self.assertFalse(pages.is_held_out("ls.1"))

    def test_licences(self):
        with tempfile.TemporaryDirectory() as folder:
            notes = pathlib.Path(folder, "usr/share/doc/a")
            notes.mkdir(parents=True)
            for text, expected in (("License: GPL-2+ or Artistic\n...\nLicense: Expat\n", ["Artistic", "Expat", "GPL-2+"]),
                                   ("It is in /usr/share/common-licenses/GPL-3.\n", ["GPL-3"]),
                                   ("Do what you want.\n", ["terms of its own"])):
                (notes / "copyright").write_text(text)
                self.assertEqual(pages.licences_of("a", pathlib.Path(folder)), expected)
            (notes.parent / "b").symlink_to("a")
            self.assertEqual(pages.licences_of("b", pathlib.Path(folder)), ["as a"])


if __name__ == "__main__":
    unittest.main()
