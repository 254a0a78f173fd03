"""Tries scripts/docs/benchmark-page on the repository's own page and measurements, and on changed copies."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/docs/benchmark-page"
SVG = "{http://www.w3.org/2000/svg}"


def run(root, *flags):
    command = [sys.executable, "-B", str(SCRIPT), "--root", str(root), *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "docs").mkdir()
        (self.root / "bench").mkdir()
        shutil.copy(ROOT / "docs/benchmarks.md", self.root / "docs")
        shutil.copytree(ROOT / "docs/images", self.root / "docs/images")
        shutil.copytree(ROOT / "bench/results", self.root / "bench/results")

    def page(self):
        return (self.root / "docs/benchmarks.md").read_text(encoding="utf-8")

    def change(self, name, edit):
        path = self.root / "bench/results" / name
        document = json.loads(path.read_text(encoding="utf-8"))
        edit(document)
        path.write_text(json.dumps(document), encoding="utf-8")

    def test_the_repository_is_up_to_date(self):
        done = run(ROOT, "--check")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_a_new_measurement_changes_page_and_chart(self):
        def edit(document):
            document["date"] = "2027-01-02T03:04:05+00:00"
            document["note"] = "It was quiet."
            document["texts_per_second"]["many lengths"]["gpux embed"] = 1234.5

        self.change("embed.json", edit)
        before = self.page()
        done = run(self.root, "--check")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("docs/benchmarks.md differs", done.stdout)
        self.assertIn("docs/images/benchmarks.svg differs", done.stdout)
        self.assertNotIn("benchmarks-servers.svg", done.stdout)
        self.assertEqual(self.page(), before)

        self.assertEqual(run(self.root).returncode, 0)
        # 1234.5 / 220
        self.assertIn("| `gpux embed` | 484 (1.28) | 62.3 (1.17) | 1,234 (5.61) |", self.page())
        self.assertIn("2 January 2027", self.page())
        self.assertIn("- It was quiet.", self.page())
        self.assertEqual(run(self.root, "--check").returncode, 0)

    def test_figures_of_the_page_are_not_edited_by_hand(self):
        path = self.root / "docs/benchmarks.md"
        path.write_text(self.page().replace("51,928", "61,928"), encoding="utf-8")
        self.assertEqual(run(self.root, "--check").returncode, 1)

    def test_what_a_benchmark_adds_is_shown(self):
        self.change("embed.json", lambda document: document["texts_per_second"]["16 tokens"].update({"another program": 100}))
        self.change("encoder.json", lambda document: document["found"]["1 threads, 32 of 128"].update({"another": {"texts_per_second": 5, "ratio": 0.2}}))
        self.assertEqual(run(self.root).returncode, 0)
        self.assertIn("| another program | 100 (0.26) |  |  |", self.page())
        self.assertIn("5.0 (0.20) |", self.page())

    def test_a_later_run_of_one_case_replaces_its_rows(self):
        shutil.copy(self.root / "bench/results/serve.json", self.root / "bench/results/serve-json.json")

        def edit(document):
            document["results"] = [row for row in document["results"] if row["case"] == "json"]
            for row in document["results"]:
                row["requests_per_second"] = 7

        self.change("serve-json.json", edit)
        self.assertEqual(run(self.root).returncode, 0)
        self.assertIn("| REST, JSON | 64 | gpux | 7 |", self.page())
        self.assertNotIn("| REST, JSON | 64 | gpux | 61,545 |", self.page())

    def test_what_is_missing_is_named(self):
        (self.root / "bench/results/serve.json").unlink()
        done = run(self.root)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "benchmark-page: there is no bench/results/serve.json\n")

    def test_a_lost_marker_is_named(self):
        path = self.root / "docs/benchmarks.md"
        path.write_text(self.page().replace("<!-- end: serve -->\n", ""), encoding="utf-8")
        done = run(self.root)
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no line '<!-- end: serve -->'", done.stderr)

    def test_charts_are_drawings_with_text(self):
        for path in (ROOT / "docs/images").glob("benchmarks*.svg"):
            svg = xml.etree.ElementTree.parse(path).getroot()
            self.assertEqual(svg.tag, SVG + "svg")
            texts = ["".join(text.itertext()) for text in svg.iter(SVG + "text")]
            bars = [rect for rect in svg.iter(SVG + "rect") if rect.get("class") == "bar"]
            values = [text for text in svg.iter(SVG + "text") if text.get("class") == "value"]
            self.assertEqual(len(bars), len(values))
            self.assertGreater(len(texts), 2 * len(bars))
            # Bars are as long as their values say.
            scales = [float(bar.get("width")) / float(value.text) for bar, value in zip(bars, values)]
            self.assertLess(max(scales) / min(scales), 1.02)
            for rect in svg.iter(SVG + "rect"):
                self.assertLessEqual(float(rect.get("x")) + float(rect.get("width")), float(svg.get("width")))
            self.assertIn("prefers-color-scheme: dark", svg.find(SVG + "style").text)


if __name__ == "__main__":
    unittest.main()
