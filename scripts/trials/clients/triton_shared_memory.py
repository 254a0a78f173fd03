#!/usr/bin/env python3
"""Asks a `gpux serve` of its own with inputs and outputs in shared memory, by tritonclient over REST and gRPC, and with
--seconds measures both with and without it.

usage: scripts/trials/clients/triton_shared_memory.py GPUX [--seconds N]

Needs the Python packages tritonclient[http,grpc] and numpy. Ends with 1 at the first thing that is not as it should be.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

ROOT = pathlib.Path(__file__).resolve().parents[3]
PREFIX = f"/gpux-trial-{os.getpid()}"


def refused(call, words):
    try:
        call()
    except InferenceServerException as error:
        if words not in str(error):
            sys.exit(f"refused for another reason: {error}")
        return
    sys.exit(f"taken: {words}")


class Region:
    def __init__(self, client, name, size):
        self.client, self.name, self.size = client, name, size
        self.handle = shm.create_shared_memory_region(name, f"{PREFIX}-{name}", size)
        client.register_system_shared_memory(name, f"{PREFIX}-{name}", size)

    def close(self):
        self.client.unregister_system_shared_memory(self.name)
        shm.destroy_shared_memory_region(self.handle)


def tensor(library, name, array, datatype, region=None, offset=0):
    one = library.InferInput(name, list(array.shape), datatype)
    if region is None:
        one.set_data_from_numpy(array)
        return one
    data = serialize_byte_tensor(array) if datatype == "BYTES" else array
    shm.set_shared_memory_region(region.handle, [data], offset)
    size = data.itemsize * data.size if datatype != "BYTES" else len(data.item())
    one.set_shared_memory(region.name, size, offset)
    return one


def output(library, name, region=None, size=0, offset=0):
    one = library.InferRequestedOutput(name)
    if region is not None:
        one.set_shared_memory(region.name, size, offset)
    return one


def trial(library, client):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    inputs, outputs = Region(client, "inputs", 4096), Region(client, "outputs", 4096)
    answer = client.infer("add", [tensor(library, "x", x, "FP32", inputs)], outputs=[output(library, "y", outputs, 64, 128)])
    described = answer.get_output("y")
    size = described["parameters"]["shared_memory_byte_size"] if isinstance(described, dict) else described.parameters["shared_memory_byte_size"].int64_param
    assert size == x.nbytes, described
    found = shm.get_contents_as_numpy(outputs.handle, np.float32, [2, 3], 128)
    np.testing.assert_array_equal(found, x + [1, 2, 3])
    # One in shared memory, the other in the request.
    np.testing.assert_array_equal(client.infer("add", [tensor(library, "x", x, "FP32", inputs)]).as_numpy("y"), x + [1, 2, 3])
    client.infer("add", [tensor(library, "x", x * 2, "FP32")], outputs=[output(library, "y", outputs, 64)])
    np.testing.assert_array_equal(shm.get_contents_as_numpy(outputs.handle, np.float32, [2, 3], 0), x * 2 + [1, 2, 3])
    words = np.array(["a", "", "grün"], dtype=np.object_)
    answer = client.infer("words", [tensor(library, "x", words, "BYTES", inputs)])
    assert [word.decode() for word in answer.as_numpy("y")] == ["a", "", "grün"]
    status = client.get_system_shared_memory_status()
    names = {one["name"] for one in status} if isinstance(status, list) else set(status.regions)
    assert names == {"inputs", "outputs"}, status
    refused(lambda: client.register_system_shared_memory("inputs", f"{PREFIX}-inputs", 16), "already")
    refused(lambda: client.register_system_shared_memory("other", "/other", 16), "does not begin with")
    refused(lambda: client.register_system_shared_memory("long", f"{PREFIX}-inputs", 4097), "4096 bytes")
    refused(lambda: client.infer("add", [tensor(library, "x", x, "FP32", inputs)], outputs=[output(library, "y", outputs, 8)]), "shared_memory_byte_size is 8")
    inputs.close()
    one = library.InferInput("x", [2, 3], "FP32")
    one.set_shared_memory("inputs", 24)
    refused(lambda: client.infer("add", [one]), "no shared memory region")
    outputs.close()


def rate(work, seconds):
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        work()
        count += 1
    return count / seconds


def measure(library, client, rows, seconds):
    x = np.ones((rows, 3), dtype=np.float32)
    inputs, outputs = Region(client, "inputs", x.nbytes), Region(client, "outputs", x.nbytes)
    plain = [tensor(library, "x", x, "FP32")], [output(library, "y")]
    shared = [tensor(library, "x", x, "FP32", inputs)], [output(library, "y", outputs, x.nbytes)]
    rates = {"plain": [], "shared": []}
    for _ in range(5):
        for name, (given, wanted) in (("plain", plain), ("shared", shared)):
            rates[name].append(rate(lambda given=given, wanted=wanted: client.infer("add", given, outputs=wanted), seconds / 5))
    inputs.close()
    outputs.close()
    return tuple(statistics.median(values) for values in rates.values())


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("gpux")
    parser.add_argument("--seconds", type=float, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        models = [f"add={ROOT}/tests/models/add.onnx", f"words={ROOT}/tests/models/identity_string.onnx"]
        server = subprocess.Popen(
            [options.gpux, "serve", *models, "--port", "0", "--grpc-port", "0", "--json", "--shared-memory", PREFIX],
            stdout=subprocess.PIPE,
            env={**os.environ, "GPUX_HOME": home},
        )
        try:
            ready = json.loads(server.stdout.readline())
            clients = {
                "REST": (over_http, over_http.InferenceServerClient(f"127.0.0.1:{ready['port']}")),
                "gRPC": (over_grpc, over_grpc.InferenceServerClient(f"127.0.0.1:{ready['grpc_port']}")),
            }
            for name, (library, client) in clients.items():
                trial(library, client)
                print(f"{name}: inputs and outputs in shared memory: as they should be")
            if options.seconds:
                print("| input and output, each | protocol | requests/s | with shared memory | ratio |\n|---|---|---|---|---|")
                for rows, size in ((342, "4 KB"), (8738, "105 KB"), (87382, "1 MB"), (873814, "10 MB")):
                    for name, (library, client) in clients.items():
                        plain, shared = measure(library, client, rows, options.seconds)
                        print(f"| {size} | {name} | {plain:.0f} | {shared:.0f} | {shared / plain:.2f} |", flush=True)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
