"""What the tests of vector stores share: the program, and a small encoder for it. Standard library only."""

from __future__ import annotations

import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
from typing import Any


def write_encoder(folder: pathlib.Path, source: pathlib.Path, model: str = "encoder.onnx", **settings: object) -> None:
    """The small encoder of tests/embedding, as sentence-transformers lays one out."""
    kind = "sentence_transformers.models."
    (folder / "onnx").mkdir(parents=True)
    (folder / "1_Pooling").mkdir()
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    (folder / "modules.json").write_text(json.dumps([{"type": kind + name, "path": path} for path, name in modules]))
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode": "mean"}')
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 32}')
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    shutil.copy(source / "tests/text/data/wordpiece.json", folder / "tokenizer.json")
    shutil.copy(source / "tests/embedding" / model, folder / "onnx/model.onnx")


class Program:
    """gpux in a home of its own."""

    def __init__(self, gpux: pathlib.Path, folder: pathlib.Path) -> None:
        self.gpux, self.folder = gpux, folder
        self.environment = {**os.environ, "GPUX_HOME": str(folder / "home")}
        for name in ("PGPASSWORD", "PGUSER", "PGHOST", "QDRANT_API_KEY"):
            self.environment.pop(name, None)

    def run(self, *arguments: str, standard_input: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.gpux, *arguments], check=False, input=standard_input, capture_output=True, text=True,
                              cwd=self.folder, env=self.environment, timeout=300)  # fmt: skip

    def succeed(self, *arguments: str, standard_input: str = "") -> str:
        result = self.run(*arguments, standard_input=standard_input)
        assert result.returncode == 0, (arguments, result.returncode, result.stderr)
        return result.stdout

    def fail(self, *arguments: str, code: int) -> str:
        """The one line that it fails with."""
        result = self.run(*arguments)
        assert result.returncode == code, (arguments, result.returncode, result.stderr)
        lines = [line for line in result.stderr.splitlines() if line.startswith("gpux: ")]
        errors = [line for line in result.stderr.splitlines() if "error" in line] or lines
        assert errors, result.stderr
        return errors[-1]

    def search(self, *arguments: str) -> list[dict[str, Any]]:
        return json.loads(self.succeed("search", "--json", "-m", "encoder", *arguments))["results"]


def write_hybrid_encoder(folder: pathlib.Path, source: pathlib.Path) -> None:
    """A small model with dense and sparse vectors, in the form of BGE-M3."""
    folder.mkdir()
    shutil.copy(source / "tests/text/data/wordpiece.json", folder / "tokenizer.json")
    shutil.copy(source / "tests/embedding/representations/bge_m3.onnx", folder / "model.onnx")
    (folder / "tokenizer_config.json").write_text('{"mask_token": "[MASK]"}')
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 32}')
    (folder / "config.json").write_text("{}")


class AnyStore:
    """Tests that every store passes: mixed into a TestCase that has `program`, `folder`, `source` and `url`."""

    program: Program
    folder: pathlib.Path
    source: pathlib.Path

    def url(self, collection: str) -> str:
        raise NotImplementedError

    def found(self, *arguments: str) -> list[dict[str, Any]]:
        return json.loads(self.program.succeed("search", "--json", *arguments))["results"]

    def test_hybrid_search_fuses_ranks(self) -> None:
        if not (self.folder / "both").exists():
            write_hybrid_encoder(self.folder / "both", self.source)
        texts = ["the fox", "who is the fox", "a question", "quick brown fox", "what is an answer", "of the question"]
        url = self.url("hybrids")
        self.program.succeed("embed", "both", *texts, "--to", url, "--hybrid")
        ranks: dict[str, float] = {}
        for flags in ([], ["--sparse"]):
            ranked = self.found("both", "who is the fox", *texts, *flags, "--top-k", "6")
            counted = [one for one in ranked if not flags or one["score"] > 0]
            assert len(counted) > 1, (flags, ranked)
            for rank, one in enumerate(counted, start=1):
                ranks[one["text"]] = ranks.get(one["text"], 0) + 1 / (60 + rank)
        expected = sorted(ranks.values(), reverse=True)
        found = self.found("both", "who is the fox", "--in", url, "--hybrid", "--top-k", "6")
        assert [round(one["score"], 6) for one in found] == [round(score, 6) for score in expected], (found, ranks)
        assert found[0]["text"] == "who is the fox", found
        line = self.program.fail("embed", "both", "a", "--to", url, code=6)
        assert "has sparse vectors beside the dense ones" in line, line

    def test_a_filter_means_the_same_in_every_store(self) -> None:
        payloads = {
            "a": {"tags": ["new", "dry"], "price": 3, "meta": {"user": "ann"}, "ok": True, "owner": None},
            "the": {"tags": "new", "price": 3.0, "meta": {"user": ["bob", "ann"]}, "ok": False},
            "of": {"tags": [["new"]], "price": 3.5, "meta": [{"user": "ann"}], "ok": "true"},
            "who": {"tags": {"new": 1}, "price": [3, 4], "meta": "user", "size": 9007199254740993},
        }
        items = "".join(json.dumps({"text": text, **payload}) + "\n" for text, payload in payloads.items())
        url = self.url("conditions")
        self.program.succeed("embed", "encoder", "--field", "text", "-", "--to", url, standard_input=items)
        table = {
            "tags=new": {"a", "the"},
            "tags=dry": {"a"},
            "tags.new=1": {"who"},
            "price=3": {"a", "the", "who"},
            "price=3.0": {"a", "the", "who"},
            "price=3.5": {"of"},
            'price="3"': set(),
            "meta.user=ann": {"a", "the"},
            "meta=user": {"who"},
            "ok=true": {"a"},
            "ok=false": {"the"},
            'ok="true"': {"of"},
            "owner=null": {"a"},
            "size=9007199254740993": {"who"},
            "size=9007199254740992": set(),
        }
        for condition, expected in table.items():
            found = {one["text"] for one in self.program.search("a", "--in", url, "--where", condition)}
            assert found == expected, (condition, found, expected)

    def test_texts_without_an_id_are_points_of_their_own(self) -> None:
        items = [{"text": "a", "id": None}, {"text": "who", "id": None}, {"text": "what", "id": ""},
                 {"text": "the", "id": ""}, {"text": "of", "id": 5}, {"text": "id 5"}]  # fmt: skip
        url = self.url("identities")
        lines = "".join(json.dumps(item) + "\n" for item in items)
        self.program.succeed("embed", "encoder", "--field", "text", "-", "--to", url, standard_input=lines)
        found = self.program.search("a", "--in", url)
        assert sorted(one["text"] for one in found) == sorted(str(item["text"]) for item in items), found

    def test_a_query_without_direction_is_refused(self) -> None:
        url = self.url("directions")
        self.program.succeed("embed", "encoder", "a", "--to", url)
        self.program.succeed("embed", "encoder", "a", "-o", "one.npy")
        one = (self.folder / "one.npy").read_bytes()
        vector = len(one) - one.index(b"\n") - 1
        for number in (0.0, math.nan, math.inf):
            wrong = one[:-vector] + struct.pack("<f", number) * (vector // 4)
            (self.folder / "wrong.npy").write_bytes(wrong)
            line = self.program.fail("search", "--query-vector", "wrong.npy", "--in", url, code=6)
            assert "the query has no direction" in line, (number, line)

    def test_flags_that_do_nothing_in_a_collection_are_refused(self) -> None:
        line = self.program.fail("search", "-m", "encoder", "a", "--in", self.url("x"), "--workers", "2", code=2)
        assert "give --in or --workers" in line, line

    def test_dense_collections_have_no_hybrid_search(self) -> None:
        url = self.url("dense")
        line = self.program.fail("embed", "encoder", "a", "--to", url, "--hybrid", code=2)
        assert "makes no sparse vectors" in line, line
        self.program.succeed("embed", "encoder", "a", "--to", url)
        line = self.program.fail("search", "-m", "encoder", "a", "--in", url, "--hybrid", code=2)
        assert "has dense vectors alone" in line, line

    def test_a_reranker_orders_what_was_found(self) -> None:
        if not (self.folder / "ranker").exists():
            shutil.copytree(self.source / "tests/pipeline/data/rank-mpnet", self.folder / "ranker")
            shutil.copy(self.source / "tests/text/data/wordpiece.json", self.folder / "ranker/tokenizer.json")
            self.program.succeed("import", "ranker", "-t", "ranker:1")
        texts = ["the fox", "a question", "an answer", "what is an answer"]
        url = self.url("ranked")
        self.program.succeed("embed", "encoder", *texts, "--to", url)
        found = self.found("-m", "encoder", "what", "--in", url, "--rerank", "ranker:1")
        request = json.dumps({"query": "what", "text": texts})
        scores = json.loads(self.program.succeed("run", "ranker:1", "--json", "-i", request))["scores"]
        line = self.program.fail("search", "-m", "encoder", "what", "--in", url, "--rerank", "nothing:1", "--pull",
                                 "never", code=7)  # fmt: skip
        assert "nothing:1" in line, line
        expected = sorted(zip(scores, texts, strict=True), reverse=True)
        assert [one["text"] for one in found] == [text for _, text in expected], (found, expected)
        assert abs(found[0]["score"] - expected[0][0]) < 1e-5, (found, expected)
