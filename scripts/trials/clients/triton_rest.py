#!/usr/bin/env python3
"""Asks a running `gpux serve` all that tritonclient's REST client can ask of it, and compares the answers.

usage: scripts/trials/clients/triton_rest.py ADDRESS        as in 127.0.0.1:8080

The server: gpux serve add=tests/models/add.onnx words=tests/models/identity_string.onnx digits=examples/digits
Needs the Python packages tritonclient[http] and numpy; installs nothing.
"""

import sys

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException


def tensor(name, array, datatype, binary):
    one = triton.InferInput(name, list(array.shape), datatype)
    one.set_data_from_numpy(array, binary_data=binary)
    return one


def refused(call):
    try:
        call()
    except InferenceServerException as error:
        return str(error)
    sys.exit("an invalid call was taken")


def main():
    client = triton.InferenceServerClient(sys.argv[1])
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("add") and client.is_model_ready("add", "1.0.0")
    assert client.get_server_metadata()["name"] == "gpux"
    metadata = client.get_model_metadata("add")
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}], metadata
    before = client.get_inference_statistics("add")["model_stats"][0]["inference_stats"]["success"]["count"]

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    calls = 0
    for binary_in in (True, False):
        for binary_out in (True, False):
            outputs = [triton.InferRequestedOutput("y", binary_data=binary_out)]
            answer = client.infer("add", [tensor("x", x, "FP32", binary_in)], outputs=outputs, request_id="7", priority=1, timeout=10_000_000)
            assert answer.get_response()["id"] == "7"
            np.testing.assert_array_equal(answer.as_numpy("y"), x + [1, 2, 3])
            calls += 1
    for algorithm in ("gzip", "deflate"):
        answer = client.infer("add", [tensor("x", x, "FP32", True)], request_compression_algorithm=algorithm, response_compression_algorithm=algorithm)
        np.testing.assert_array_equal(answer.as_numpy("y"), x + [1, 2, 3])
        calls += 1
    pending = [client.async_infer("add", [tensor("x", x, "FP32", True)]) for _ in range(8)]
    for one in pending:
        np.testing.assert_array_equal(one.get_result().as_numpy("y"), x + [1, 2, 3])
    calls += len(pending)

    words = np.array(["a", "", "grün", "x" * 1000], dtype=np.object_)
    for binary in (True, False):
        answer = client.infer("words", [tensor("x", words, "BYTES", binary)], outputs=[triton.InferRequestedOutput("y", binary_data=binary)])
        got = [one.decode() if isinstance(one, bytes) else one for one in answer.as_numpy("y")]
        assert got == list(words), got

    image = np.zeros((1, 1, 8, 8), np.float32)
    answer = client.infer("digits", [tensor("image", image, "FP32", True)], outputs=[triton.InferRequestedOutput("logits", class_count=3)])
    classes = answer.as_numpy("logits")
    assert classes.shape == (1, 3) and classes[0][0].decode().count(":") == 2, classes

    assert "no model" in refused(lambda: client.infer("none", [tensor("x", x, "FP32", True)]))
    assert "float64" in refused(lambda: client.infer("add", [tensor("x", x.astype(np.float64), "FP64", True)]))
    assert "y" in refused(lambda: client.infer("add", [tensor("x", x, "FP32", True)], outputs=[triton.InferRequestedOutput("z")]))

    after = client.get_inference_statistics("add")["model_stats"][0]["inference_stats"]["success"]["count"]
    assert after - before == calls, (before, after, calls)

    index = {one["name"]: one["state"] for one in client.get_model_repository_index()}
    assert index["add"] == "READY", index
    client.unload_model("add")
    assert not client.is_model_ready("add")
    client.load_model("add")
    assert client.is_model_ready("add")
    assert client.get_inference_statistics("add")["model_stats"][0]["inference_stats"]["success"]["count"] == after
    print(f"passed: {calls} calls of infer counted, metadata, repository, statistics, classification, strings")


main()
