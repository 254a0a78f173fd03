"""Each link between the documents leads to a file, and to a heading of it where it names one. Each room of the code has
a page, and the files that pages of rooms name are there. The page of the scripts lists each of them."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "examples", "plugins", "bench", "scripts", "src")


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text):
    """The anchors of the headings, as GitHub makes them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", without_code(text), flags=re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.replace("`", "").replace("*", "")).lower()
        found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


class Links(unittest.TestCase):
    def test_anchors_are_those_of_github(self):
        self.assertEqual(anchors("# A `b`: c-d_e\n## [f](g.md), h?\n```\n# i\n```\n"), {"a-b-c-d_e", "f-h"})

    def test_lead_somewhere(self):
        documents = [*ROOT.glob("*.md")]
        for folder in FOLDERS:
            documents += (ROOT / folder).rglob("*.md")
        count = 0
        for document in documents:
            text = document.read_text()
            for link in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
                if re.match(r"[a-z]+:", link):
                    continue
                count += 1
                name, _, anchor = link.partition("#")
                target = (document.parent / name).resolve() if name else document
                with self.subTest(document=document.relative_to(ROOT), link=link):
                    self.assertTrue(target.exists(), "no such file")
                    if anchor:
                        self.assertIn(anchor, anchors(target.read_text()))
        self.assertGreater(count, 100, "the documents are not read")

    def test_of_the_readme_lead_to_every_page(self):
        linked = re.findall(r"\]\((docs/[\w-]+\.md)", (ROOT / "README.md").read_text())
        for page in ROOT.glob("docs/*.md"):
            with self.subTest(page=page.name):
                self.assertIn(f"docs/{page.name}", linked, "README.md does not link it")


class Rooms(unittest.TestCase):
    def test_name_files_that_are_there(self):
        count = 0
        for page in [*ROOT.glob("src/*/README.md"), *ROOT.glob("plugins/*/README.md")]:
            for name in re.findall(r"`([\w./*]+\.(?:h|cpp|cmake|map|py))`", without_code(page.read_text())):
                count += 1
                with self.subTest(page=page.relative_to(ROOT), name=name):
                    self.assertTrue((ROOT / name).exists() or [*page.parent.rglob(name)], "no such file")
        self.assertGreater(count, 100, "the pages are not read")


class Scripts(unittest.TestCase):
    def test_are_listed(self):
        listed = (ROOT / "scripts/README.md").read_text()
        for path in (ROOT / "scripts").rglob("*"):
            name = path.relative_to(ROOT / "scripts")
            if path.is_file() and path.suffix not in (".pyc", ".md") and not name.name.startswith(("requirements-", "schemathesis")):
                with self.subTest(script=str(name)):
                    self.assertIn(f"`{name}`", listed, "scripts/README.md does not list it")

    def test_that_are_listed_are_there(self):
        listed = re.findall(r"`((?:references|trials|packaging|docs)/[\w./-]+)`", (ROOT / "scripts/README.md").read_text())
        self.assertGreater(len(listed), 40, "the page is not read")
        for name in listed:
            with self.subTest(script=name):
                self.assertTrue((ROOT / "scripts" / name).exists(), "no such script")


if __name__ == "__main__":
    unittest.main()
