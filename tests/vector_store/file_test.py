#!/usr/bin/env python3
"""gpux with a collection in one file. usage: file_test.py GPUX SOURCE_FOLDER [TEST…]. Standard library only."""

from __future__ import annotations

import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from store_program import AnyStore, Program, write_encoder  # noqa: E402

GPUX = pathlib.Path(sys.argv.pop(1)).resolve()
SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
WORDS = "question answer the of an a is what who".split()
TEXTS = [f"{first} {second}" for first in WORDS for second in WORDS]
ITEMS = "".join(
    json.dumps({"text": text, "kind": "even" if number % 2 == 0 else "odd", "meta": {"number": number}}) + "\n"
    for number, text in enumerate(TEXTS)
)


class File(AnyStore, unittest.TestCase):
    source = SOURCE
    def setUp(self) -> None:
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name)
        write_encoder(self.folder / "encoder", SOURCE)
        write_encoder(self.folder / "other", SOURCE, "encoder_variant.onnx")
        self.program = Program(GPUX, self.folder)

    def tearDown(self) -> None:
        self.scratch.cleanup()

    def url(self, collection: str) -> str:
        return f"file:{collection}.gpux"

    def embed(self, items: str = ITEMS) -> None:
        arguments = ("embed", "encoder", "--field", "text", "-", "--to", "file:items.gpux")
        self.program.succeed(*arguments, standard_input=items)

    def test_stores_and_finds_what_search_finds_in_a_file(self) -> None:
        self.embed()
        (self.folder / "lines.txt").write_text("\n".join(TEXTS) + "\n")
        self.program.succeed("embed", "encoder", "@lines.txt", "-o", "vectors.npy")
        expected = self.program.search("what answer", "--index", "vectors.npy", "--texts", "lines.txt", "--top-k", "5")
        found = self.program.search("what answer", "--in", "file:items.gpux", "--top-k", "5")
        self.assertEqual([one["score"] for one in found], [one["score"] for one in expected])
        self.assertEqual(found[0]["text"], "what answer")
        self.assertEqual(found[0]["payload"]["meta"]["number"], TEXTS.index("what answer"))
        found = self.program.search("what", "--in", "file:items.gpux", "--where", "kind=odd", "--top-k", "100")
        self.assertEqual(len(found), len(TEXTS) // 2)

    def test_a_text_that_is_stored_again_is_the_same_point(self) -> None:
        self.embed()
        self.embed(ITEMS.replace('"odd"', '"strange"'))
        found = self.program.search("what", "--in", "file:items.gpux", "--top-k", "1000")
        self.assertEqual(len(found), len(TEXTS))
        self.assertEqual(len({one["id"] for one in found}), len(TEXTS))
        self.assertEqual({one["payload"]["kind"] for one in found}, {"even", "strange"})

    def test_mistakes_are_one_line_each(self) -> None:
        self.embed('{"text": "a"}\n')
        (self.folder / "stranger").write_text("no vectors")
        table = [
            (("search", "-m", "encoder", "a", "--in", "file:nothing"), 7, "there is no collection of gpux"),
            (("search", "-m", "encoder", "a", "--in", "file:stranger"), 6, "'stranger' is no file of vectors of gpux"),
            (("embed", "encoder", "a", "--to", "file:stranger"), 6, "'stranger' is no file of vectors of gpux"),
            (("embed", "other", "a", "--to", "file:items.gpux"), 6, "has vectors of model 'encoder' (sha256:"),
            (("search", "-m", "other", "a", "--in", "file:items.gpux"), 6, "has vectors of model 'encoder' (sha256:"),
        ]
        for arguments, code, message in table:
            self.assertIn(message, self.program.fail(*arguments, code=code))

    def test_ids_that_64_bits_do_not_hold_are_refused(self) -> None:
        ids = [2**64 + 1, 2**64 + 2]
        (self.folder / "items.jsonl").write_text("".join(json.dumps({"text": "a", "id": one}) + "\n" for one in ids))
        embed = ("embed", "encoder", "--field", "text", "@items.jsonl")
        refusal = self.program.fail(*embed, "--to", "file:items.gpux", code=6)
        self.assertIn("items.jsonl:1: the number 18446744073709551617 does not fit in 64 bits; give it as text", refusal)
        self.program.succeed(*embed)  # nothing is kept of the id

    def test_a_daemon_that_is_killed_writes_each_event_once(self) -> None:
        state = {"output": "out", "model": "encoder", "sources": {"in": {"directory": "events"}}}
        (self.folder / "events").mkdir()
        (self.folder / "state.json").write_text(json.dumps(state))
        events = 2000
        for number in range(events):
            (self.folder / f"events/{number}.json").write_text(json.dumps({"data": {"number": number}}))
        command = [GPUX, "daemon", "--state-file", "state.json", "--sink", "file:events.gpux"]

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(command, cwd=self.folder, env=self.program.environment, stderr=subprocess.DEVNULL)

        daemon = start()
        for _ in range(4):
            time.sleep(0.3 + random.random() / 2)
            daemon.send_signal(signal.SIGKILL)
            daemon.wait()
            daemon = start()
        try:
            deadline = time.monotonic() + 120
            found: list[object] = []
            while len(found) < events:
                self.assertLess(time.monotonic(), deadline)
                self.assertIsNone(daemon.poll())
                time.sleep(0.5)
                if (self.folder / "events.gpux").exists():
                    found = self.program.search("a", "--in", "file:events.gpux", "--top-k", "10000")
            line = self.program.fail("embed", "encoder", "a", "--to", "file:events.gpux", code=13)
            self.assertIn("another process writes it", line)
        finally:
            daemon.terminate()
            self.assertEqual(daemon.wait(), 0)
        found = self.program.search("a", "--in", "file:events.gpux", "--top-k", "10000")
        self.assertEqual(len({one["payload"]["position"] for one in found}), events)
        self.assertEqual(len(found), events)


if __name__ == "__main__":
    unittest.main()
