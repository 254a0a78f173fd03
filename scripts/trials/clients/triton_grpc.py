#!/usr/bin/env python3
"""Speaks to `gpux serve` as Triton's own gRPC client does, and says what it saw.

usage: scripts/trials/clients/triton_grpc.py HOST:PORT MODEL [API_KEY]

MODEL takes one FP32 input of free first dimension and the other sizes fixed, like tests/models/add.onnx.
Needs the packages tritonclient[grpc] and numpy. Ends with 1 at the first thing that is not as it should be.
"""

import queue
import sys

import numpy as np
import tritonclient.grpc as triton


def infer_input(metadata, rows):
    described = metadata.inputs[0]
    shape = [rows if size == -1 else size for size in described.shape]
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    tensor = triton.InferInput(described.name, shape, described.datatype)
    tensor.set_data_from_numpy(values)
    return tensor


def check(holds, what):
    if not holds:
        sys.exit(f"FAILED: {what}")
    print(f"  {what}")


def main(address, name, key=None):
    headers = {"authorization": f"Bearer {key}"} if key else None
    client = triton.InferenceServerClient(address)

    check(client.is_server_live(), "the server is live")
    check(client.is_server_ready(), "the server is ready")
    check(client.is_model_ready(name), f"model {name} is ready")
    server = client.get_server_metadata(headers=headers)
    print(f"  server metadata: {server.name} {server.version}, extensions {', '.join(server.extensions)}")
    metadata = client.get_model_metadata(name, headers=headers)
    print(f"  model metadata: {metadata.name} {list(metadata.versions)} {metadata.platform}, "
          f"in {[(t.name, t.datatype, list(t.shape)) for t in metadata.inputs]}, "
          f"out {[(t.name, t.datatype, list(t.shape)) for t in metadata.outputs]}")  # fmt: skip
    config = client.get_model_config(name, headers=headers).config
    print(f"  model config: {config.backend}, max_batch_size {config.max_batch_size}, dims {list(config.input[0].dims)}")

    before = client.get_inference_statistics(name, headers=headers).model_stats[0].inference_stats.success.count
    output = metadata.outputs[0].name
    tensor = infer_input(metadata, 2)
    result = client.infer(name, [tensor], request_id="first", headers=headers)
    check(result.get_response().id == "first", "infer answers with the request's id")
    values = result.as_numpy(output)
    print(f"  infer: {output} {values.dtype} {values.shape}")
    for algorithm in ["gzip", "deflate"]:
        again = client.infer(name, [tensor], compression_algorithm=algorithm, headers=headers).as_numpy(output)
        check(np.array_equal(values, again), f"the same compressed by {algorithm}")
    asked = triton.InferRequestedOutput(output, class_count=1)
    classes = client.infer(name, [tensor], outputs=[asked], priority=1, timeout=10_000_000, headers=headers)
    print(f"  classification: {classes.as_numpy(output).ravel()[:2]}")

    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)), headers=headers)
    for i in range(8):
        client.async_stream_infer(name, [infer_input(metadata, i + 1)], request_id=str(i))
    client.async_stream_infer("there is none", [tensor], request_id="bad")
    client.async_stream_infer(name, [tensor], request_id="last")
    good, bad = set(), []
    for _ in range(10):
        result, error = answers.get(timeout=30)
        if error is None:
            good.add(result.get_response().id)
        else:
            bad.append(error.message())
    client.stop_stream()
    check(good == {str(i) for i in range(8)} | {"last"}, "a stream answers all that is good")
    check(len(bad) == 1, f"and goes on after what is bad: {bad[0]}")

    try:
        client.infer("there is none", [tensor], headers=headers)
        check(False, "a model that is not there is refused")
    except triton.InferenceServerException as error:
        check(error.status() == "StatusCode.NOT_FOUND", f"refused: {error}")
    try:
        client.get_system_shared_memory_status(headers=headers)
        check(False, "shared memory is refused")
    except triton.InferenceServerException as error:
        check(error.status() == "StatusCode.UNIMPLEMENTED", f"refused: {error}")

    statistics = client.get_inference_statistics(name, headers=headers).model_stats[0].inference_stats
    check(statistics.success.count - before == 13, "statistics have counted all 13")
    print(f"  repository: {[(m.name, m.version, m.state) for m in client.get_model_repository_index(headers=headers).models]}")
    client.unload_model(name, headers=headers)
    check(not client.is_model_ready(name), "the model is unloaded")
    client.load_model(name, headers=headers)
    check(client.is_model_ready(name), "and loaded again")
    again = client.infer(name, [tensor], headers=headers).as_numpy(output)
    check(np.array_equal(values, again), "with the same answer")
    client.close()


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
