"""The processors without an accelerator: what more threads and more workers bring, as a share of linear, beside plain ONNX Runtime."""

import json
import os
import subprocess
import sys

from prepared import installed, outputs, served, speed

COUNTS = (1, 2, 4, 8, 16)

PLAIN = """
import sys, time, numpy, onnxruntime
file, threads, batch, tokens, seconds = sys.argv[1], *map(float, sys.argv[2:])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(threads)
session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
shape = (int(batch), int(tokens))
feed = {one.name: numpy.zeros(shape, numpy.int64) if "type" in one.name else numpy.full(shape, 1 if "mask" in one.name else 2000, numpy.int64) for one in session.get_inputs()}
for _ in range(3): session.run(None, feed)
times, begin = [], time.monotonic()
while time.monotonic() < begin + seconds:
    one = time.monotonic(); session.run(None, feed); times.append(time.monotonic() - one)
print(sorted(times)[len(times) // 2])
"""


def counts_here():
    """Those that this machine has processors for; the last is all of them."""
    processors = len(os.sched_getaffinity(0))
    return [count for count in COUNTS if count <= processors] or [1]


def share(rate, first, count):
    return round(rate / first / count, 2) if first else ""


def plain_rate(here, file, threads, batch, tokens):
    done = subprocess.run([sys.executable, "-c", PLAIN, str(file), str(threads), str(batch), str(tokens), "1"], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise installed.Unavailable((done.stderr.strip().splitlines() or ["it ended"])[-1][:200])
    return batch * tokens / float(done.stdout)


def encoder(here, say):
    """MiniLM, 16 texts of 64 tokens: threads of one session."""
    model, batch, tokens = here.minilm(), 16, 64
    first = {}
    for count in counts_here():
        row = {}
        for label, provider, flags in (("encoder fp32", "encoder", ()), ("encoder bf16", "encoder", ("--precision", "bf16")), ("cpu fp32", "cpu", ())):
            try:
                found = speed.session_time(here, here.provider(provider), model, {"batch": batch, "sequence": tokens}, 1, [*flags, "--threads", count])
                row[label] = batch * tokens * 1000 / found["median_time_ms"]
            except (installed.Unavailable, RuntimeError) as error:
                row[label] = str(error)
        try:
            row["plain ONNX Runtime"] = plain_rate(here, speed.onnx_file(here, model, "fp32"), count, batch, tokens)
        except installed.Unavailable as error:
            row["plain ONNX Runtime"] = str(error)
        say_rates(say, "MiniLM tokens/s", count, row, first)


def say_rates(say, what, count, row, first):
    numbers = {label: rate for label, rate in row.items() if isinstance(rate, float)}
    for label, rate in numbers.items():
        first.setdefault(label, rate)
    say(what=what, threads=count, **{label: round(rate) if isinstance(rate, float) else rate for label, rate in row.items()},
        share_of_linear={label: share(rate, first[label], count) for label, rate in numbers.items()})


def decoder(here, say):
    """SmolLM2-135M with random weights: prompt and answer, of 1 and 8 users."""
    model = here.imported("smollm2-135m", outputs.written_decoder(here))
    first = {}
    for count in counts_here():
        row = {}
        for provider in ("decoder", "cpu"):
            for users in (1, 8):
                answer = here.gpux("bench", model, "--prompt-tokens", "64", "--generate-tokens", "24", "--users", users, "--runs", "1", "--warmup", "1",
                                   "--threads", count, "--json", provider=here.provider(provider), seconds=60)
                label = f"{provider}, {users} users"
                row[label] = float(generated_rate(answer.output)) if answer.code == 0 else answer.last_error
        say_rates(say, "SmolLM2-135M tokens/s", count, row, first)


def generated_rate(output):
    found = json.loads(output)
    return (found[0] if isinstance(found, list) else found)["generate_tokens_per_second"]


def server(here, say):
    """MiniLM over HTTP, 32 texts of a request: workers of one thread each."""
    counts = counts_here()
    for name in ("encoder", "cpu"):
        served.requests(here, say, name, seconds=2, steps=[(f"{count} workers", ["--workers", str(count), "--threads", "1"]) for count in counts])
