"""A server from Python."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest
from conftest import MODELS

import gpux


def test_a_server_for_the_time_of_a_with_statement(digits: Path) -> None:
    with gpux.serve(digits, grpc=True) as server:
        assert server.address == f"http://127.0.0.1:{server.port}"
        assert server.grpc_port
        assert server.models[0]["name"] == "digits"
        body = (digits / "digit-3.json").read_bytes()
        request = urllib.request.Request(server.address + "/predict", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as response:
            answer = json.load(response)
        assert answer["labels"]["logits"][0][0]["label"] == "3"
        assert server.is_running
        assert "ran on" in server.log() or "digits" in server.log()
    assert not server.is_running
    assert repr(server) == "Server(closed)"


def test_names_and_flags() -> None:
    with gpux.serve({"one": MODELS / "add.onnx", "two": MODELS / "divide.onnx"}, default="two", max_queue=7) as server:
        assert [model["name"] for model in server.models] == ["one", "two"]
        assert server.grpc_port is None


def test_a_server_that_cannot_start(digits: Path) -> None:
    with pytest.raises(gpux.NotFound):
        gpux.serve("no-such-model")
    with pytest.raises(gpux.Usage, match="nonsense"):
        gpux.serve(digits, nonsense=True)
    with gpux.serve(digits) as server, pytest.raises(gpux.Network):
        gpux.serve(digits, port=server.port)
    with pytest.raises(gpux.DeadlineExceeded):
        gpux.serve(digits, timeout=0.0001)
