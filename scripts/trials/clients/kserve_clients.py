#!/usr/bin/env python3
"""Asks `gpux serve` what KServe's own clients can ask of a model server, over the protocols v1, v2 and gRPC, and what its router
sends to the steps of an InferenceGraph.

usage: scripts/trials/clients/kserve_clients.py PROGRAM

Needs the Python package kserve; installs nothing.
"""

import asyncio
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import grpc
import httpx
import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig
from kserve.protocol.infer_type import RequestedOutput

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODELS = ("add=tests/models/add.onnx", "words=tests/models/identity_string.onnx", "half=tests/models/identity_float16.onnx",
          "digits=examples/digits")  # fmt: skip
X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = X + [1, 2, 3]


@contextlib.contextmanager
def served(program, *flags):
    with tempfile.TemporaryDirectory(prefix="gpux-kserve-") as home:
        command = [program, "serve", *MODELS, "--port", "0", "--grpc-port", "0", "--json", *flags]
        environment = {**os.environ, "GPUX_HOME": home}
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
            try:
                yield json.loads(server.stdout.readline())
            finally:
                server.terminate()


def tensor(name, array, datatype, binary):
    one = InferInput(name, list(array.shape), datatype)
    one.set_data_from_numpy(array, binary_data=binary)
    return one


def request(model, tensors, **more):
    return InferRequest(model, tensors, **more)


async def refused(call, kind):
    try:
        await call
    except kind as error:
        return str(error)
    sys.exit("an invalid call was taken")


async def rest_v2(address):
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
        assert await client.is_server_live(address) is True
        assert await client.is_server_ready(address) is True
        assert await client.is_model_ready(address, "add")
        assert not await client.is_model_ready(address, "none")
        for binary in (True, False):
            for parameters, outputs in ((None, None), ({"binary_data_output": True}, None), (None, [RequestedOutput("y", {"binary_data": True})])):
                asked = request("add", [tensor("x", X, "FP32", binary)], request_id="7", parameters=parameters, request_outputs=outputs)
                answer = await client.infer(address, asked, model_name="add")
                assert answer.id == "7" and answer.model_name == "add", answer
                np.testing.assert_array_equal(answer.outputs[0].as_numpy(), Y)
        # Without an identifier the client makes one, and names the model in the body, too.
        answer = await client.infer(address, request("add", [tensor("x", X, "FP32", False)]), model_name="add")
        assert len(answer.id) == 36, answer.id
        answer = await client.infer(address, {"inputs": [{"name": "x", "shape": [2, 3], "datatype": "FP32", "data": X.tolist()}]}, model_name="add")
        np.testing.assert_array_equal(answer.outputs[0].as_numpy(), Y)

        words = np.array(["a", "", "grün", "x" * 1000], dtype=np.object_)
        for binary in (True, False):
            answer = await client.infer(address, request("words", [tensor("x", words, "BYTES", binary)]), model_name="words")
            got = [one.decode() if isinstance(one, bytes) else one for one in answer.outputs[0].as_numpy()]
            assert got == list(words), got
        half = np.array([1.5, -2, 65504], dtype=np.float16)
        answer = await client.infer(address, request("half", [tensor("x", half, "FP16", True)], parameters={"binary_data_output": True}), model_name="half")
        np.testing.assert_array_equal(answer.outputs[0].as_numpy(), half)

        headers = {}
        await client.infer(address, request("add", [tensor("x", X, "FP32", True)]), model_name="add", headers={"x-request-id": "mine"}, response_headers=headers)
        assert headers["x-request-id"] == "mine", headers
        wrong = request("add", [tensor("x", X.astype(np.float64), "FP64", True)])
        assert "400" in await refused(client.infer(address, wrong, model_name="add"), httpx.HTTPStatusError)
        assert "404" in await refused(client.infer(address, request("none", [tensor("x", X, "FP32", True)]), model_name="none"), httpx.HTTPStatusError)


async def rest_v1(address):
    async with InferenceRESTClient(RESTConfig(protocol="v1")) as client:
        answer = await client.infer(address, {"instances": X.tolist()}, model_name="add")
        assert answer == {"predictions": Y.tolist()}, answer
        answer = await client.infer(address, {"instances": [{"x": row} for row in X.tolist()]}, model_name="add")
        assert answer == {"predictions": Y.tolist()}, answer
        message = await refused(client.infer(address, {"instances": [["a"]]}, model_name="add"), httpx.HTTPStatusError)
        assert "400" in message, message
        message = await refused(client.explain(address, "add", {"instances": X.tolist()}), httpx.HTTPStatusError)
        assert "405" in message, message  # there are no explainers


async def health_v1(address):
    async with InferenceRESTClient(RESTConfig(protocol="v1")) as client:
        assert await client.is_model_ready(address, "add") is True
        await refused(client.is_model_ready(address, "none"), httpx.HTTPStatusError)


async def grpc_v2(port):
    async with InferenceGRPCClient(f"127.0.0.1:{port}") as client:
        assert await client.is_server_live() and await client.is_server_ready()
        assert await client.is_model_ready("add")
        for binary in (True, False):  # raw contents, typed contents
            answer = await client.infer(request("add", [tensor("x", X, "FP32", binary)], request_id="7"))
            assert answer.id == "7", answer
            np.testing.assert_array_equal(answer.outputs[0].as_numpy(), Y)
            words = np.array([b"a", "grün".encode()], dtype=np.object_)
            answer = await client.infer(request("words", [tensor("x", words, "BYTES", binary)]))
            assert list(answer.outputs[0].as_numpy()) == list(words), answer
        error = await refused(client.infer(request("none", [tensor("x", X, "FP32", True)])), grpc.RpcError)
        assert "NOT_FOUND" in error, error
        error = await refused(client.infer(request("add", [tensor("x", X.astype(np.float64), "FP64", True)])), grpc.RpcError)
        assert "INVALID_ARGUMENT" in error, error


async def router(address):
    """A step of an InferenceGraph gets the body that came, as JSON, without other headers than those that are propagated."""
    async with InferenceRESTClient() as client:
        answer = await client.infer(f"{address}/v1/models/add:predict", {"instances": X.tolist()}, is_graph_endpoint=True)
        assert answer == {"predictions": Y.tolist()}, answer
        body = {"inputs": [{"name": "x", "shape": [2, 3], "datatype": "FP32", "data": X.ravel().tolist()}]}
        answer = await client.infer(f"{address}/v2/models/add/infer", body, is_graph_endpoint=True)
        assert answer["outputs"][0]["data"] == Y.ravel().tolist(), answer


def main(program):
    failed = []
    for flags in ((), ("--strict-requests",)):
        with served(program, *flags) as server:
            address = f"http://127.0.0.1:{server['port']}"
            for name, trial in (
                ("v2 over REST", rest_v2(address)),
                ("v1", rest_v1(address)),
                ("health of v1", health_v1(address)),
                ("v2 over gRPC", grpc_v2(server["grpc_port"])),
                ("steps of the router", router(address)),
            ):
                title = " ".join((name, *flags))
                try:
                    asyncio.run(trial)
                    print(f"{title}: as it should be", flush=True)
                except (AssertionError, Exception) as error:  # noqa: BLE001
                    failed.append(title)
                    print(f"{title}: {type(error).__name__}: {error}", flush=True)
    if failed:
        sys.exit(f"not as it should be: {', '.join(failed)}")


if len(sys.argv) != 2:
    sys.exit(__doc__)
main(sys.argv[1])
