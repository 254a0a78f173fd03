#!/usr/bin/env python3
"""gpux with a server that speaks Qdrant's REST interface. usage: qdrant_test.py GPUX SOURCE_FOLDER [TEST…]

With Qdrant's client for Python (scripts/setup --integrations) its local mode answers as well.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import qdrant_server  # noqa: E402
from store_program import AnyStore, Program, write_encoder  # noqa: E402

GPUX = pathlib.Path(sys.argv.pop(1)).resolve()
SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
WORDS = "question answer the of an a is what who".split()
TEXTS = [f"{first} {second}" for first in WORDS for second in WORDS]
ITEMS = "".join(
    json.dumps({"text": text, "kind": "even" if number % 2 == 0 else "odd", "meta": {"a number": number}}) + "\n"
    for number, text in enumerate(TEXTS)
)


class Qdrant(AnyStore, unittest.TestCase):
    source = SOURCE
    def make_points(self) -> qdrant_server.LocalPoints | qdrant_server.ClientPoints:
        return qdrant_server.LocalPoints()

    def setUp(self) -> None:
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name)
        write_encoder(self.folder / "encoder", SOURCE)
        write_encoder(self.folder / "other", SOURCE, "encoder_variant.onnx")
        write_encoder(self.folder / "euclid", SOURCE, similarity_fn_name="euclidean")
        self.program = Program(GPUX, self.folder)
        self.program.environment["QDRANT_API_KEY"] = qdrant_server.KEY
        self.points = self.make_points()
        self.server = qdrant_server.start(self.points)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"

    def tearDown(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.scratch.cleanup()

    def url(self, collection: str) -> str:
        return f"qdrant://{self.address}/{collection}"

    def embed(self, collection: str, model: str = "encoder", items: str = ITEMS) -> None:
        self.program.succeed("embed", model, "--field", "text", "-", "--to", self.url(collection), standard_input=items)

    def test_stores_and_finds_what_search_finds_in_a_file(self) -> None:
        for model in ("encoder", "euclid"):
            self.embed(model + "%20items", model)
            self.assertEqual(self.points.count(model + " items", {"exact": True}), len(TEXTS))
            (self.folder / "lines.txt").write_text("\n".join(TEXTS) + "\n")
            self.program.succeed("embed", model, "@lines.txt", "-o", "vectors.npy")
            arguments = ("search", "--json", "-m", model, "what answer", "--top-k", "5")
            expected = json.loads(self.program.succeed(*arguments, "--index", "vectors.npy"))["results"]
            for extra in ([], ["--exact"]):
                output = self.program.succeed(*arguments, "--in", self.url(model + "%20items"), *extra)
                found = json.loads(output)["results"]
                for one, other in zip(found, expected, strict=True):
                    self.assertAlmostEqual(one["score"], other["score"], 3)
                self.assertEqual(found[0]["text"], "what answer")
                self.assertEqual(found[0]["payload"]["meta"]["a number"], TEXTS.index("what answer"))

    def test_a_filter_leaves_the_others_out(self) -> None:
        self.embed("filtered")
        found = self.program.search("what", "--in", self.url("filtered"), "--where", "kind=odd", "--top-k", "100")
        self.assertEqual(len(found), len(TEXTS) // 2)
        for value in ("80", "80.0"):
            found = self.program.search("a", "--in", self.url("filtered"), "--where", f"meta.a number={value}")
            self.assertEqual([one["text"] for one in found], [TEXTS[80]])
        self.assertEqual(self.program.search("a", "--in", self.url("filtered"), "--where", "kind=null"), [])

    def test_a_text_that_is_stored_again_is_the_same_point(self) -> None:
        self.embed("again")
        self.embed("again")
        self.assertEqual(self.points.count("again", {"exact": True}), len(TEXTS))

    def test_mistakes_are_one_line_each(self) -> None:
        self.embed("mine", items='{"text": "a"}\n')
        self.points.create("theirs", {"vectors": {"size": 4, "distance": "Dot"}})
        embed, search = ("embed", "encoder", "a", "--to"), ("search", "-m", "encoder", "a", "--in")
        table = [
            ((*search, self.url("nothing")), 7, "there is no collection of gpux"),
            ((*embed, self.url("theirs")), 6, "without facts of gpux"),
            (("embed", "other", "a", "--to", self.url("mine")), 6, "has vectors of model 'encoder' (sha256:"),
            (("search", "-m", "other", "a", "--in", self.url("mine")), 6, "has vectors of model 'encoder' (sha256:"),
            ((*embed, f"qdrant://:wrong@{self.address}/mine"), 11, "QDRANT_API_KEY has the key"),
            ((*embed, "qdrant://127.0.0.1:1/x"), 10, "'qdrant://127.0.0.1:1/x': "),
        ]
        for arguments, code, message in table:
            line = self.program.fail(*arguments, code=code)
            self.assertIn(message, line)
            self.assertNotIn(qdrant_server.KEY, line)
            self.assertNotIn("wrong", line)

    def test_answers_of_another_server_are_one_line_each(self) -> None:
        self.embed("mine", items='{"text": "a"}\n')
        retrieve, count = self.points.retrieve, self.points.count
        search = ("search", "-m", "encoder", "a", "--in", self.url("mine"))
        for wrong in ([1], [{"payload": 1}], [{}], [{"payload": {"distance": []}}]):
            self.points.retrieve = lambda *_, wrong=wrong: wrong  # type: ignore[method-assign, misc]
            self.assertIn("that gpux has not written", self.program.fail(*search, code=6))
        self.points.retrieve = retrieve  # type: ignore[method-assign]
        self.points.count = lambda *_: "x"  # type: ignore[method-assign, assignment, return-value]
        line = self.program.fail("embed", "encoder", "a", "--to", self.url("mine"), code=10)
        self.assertIn("no number of points", line)
        self.points.count = count  # type: ignore[method-assign]

    def test_of_two_that_make_a_collection_the_models_are_compared(self) -> None:
        if not isinstance(self.points, qdrant_server.LocalPoints):
            self.skipTest("changes what the server of this test keeps")
        points, names = self.points, self.points.names
        self.program.succeed("embed", "other", "b", "--to", self.url("raced"))

        def create_after_another(name: str, _: qdrant_server.Body) -> None:
            points.names = names  # type: ignore[method-assign]
            raise qdrant_server.Refused(409, f"Wrong input: Collection `{name}` already exists!")

        # The other one makes it behind the question whether it is there.
        points.names = lambda: names() - {"raced"}  # type: ignore[method-assign]
        points.create = create_after_another  # type: ignore[method-assign]
        line = self.program.fail("embed", "encoder", "a", "--to", self.url("raced"), code=6)
        self.assertIn("has vectors of model 'other' (sha256:", line)
        self.assertEqual(points.count("raced", {}), 1)

    def test_a_daemon_writes_each_event_once(self) -> None:
        state = {"output": "out", "model": "encoder", "sources": {"in": {"directory": "events"}}}
        (self.folder / "events").mkdir()
        (self.folder / "state.json").write_text(json.dumps(state))
        for number in range(100):
            event = {"plugin": "net", "data": {"number": number}}
            (self.folder / f"events/{number}.json").write_text(json.dumps(event))
        command = [GPUX, "daemon", "--state-file", "state.json", "--sink", self.url("events")]
        daemon = subprocess.Popen(command, cwd=self.folder, env=self.program.environment, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            while "events" not in self.points.names() or self.points.count("events", {"exact": True}) < 100:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.1)
        finally:
            daemon.terminate()
            daemon.wait()
        (found,) = self.program.search("number: 7", "--in", self.url("events"), "--where", "position=7.json")
        self.assertIn("number: 7", found["text"])


if importlib.util.find_spec("qdrant_client"):

    class QdrantClient(Qdrant):
        """The same with the client's local mode."""

        def make_points(self) -> qdrant_server.LocalPoints | qdrant_server.ClientPoints:
            return qdrant_server.ClientPoints()


if __name__ == "__main__":
    unittest.main()
