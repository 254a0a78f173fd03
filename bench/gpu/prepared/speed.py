"""Rates with their limit beside them: images and texts of gpux, and of torch and ONNX Runtime alone on the same device, by turns."""

import json
import pathlib
import random
import re
import select
import statistics
import subprocess
import sys
import time

from prepared import installed, outputs, random_models, served

LENGTHS = (32, 128, 8)  # tokens, the two special ones among them; the most usual one first
TOKENS_OF_A_ROUND = 1_000_000
ROUNDS = 2
SECONDS_OF_A_RUN = 3

# Answers a line "FILE BATCH" with the seconds that the texts of the file took.
SENTENCE_TRANSFORMERS = """
import sys, time, torch, sentence_transformers
folder, device, precision = sys.argv[1:]
model = sentence_transformers.SentenceTransformer(folder, device=device)
if precision == "fp16": model = model.half()
print("ready", flush=True)
for line in sys.stdin:
    file, batch = line.split()
    texts = open(file).read().splitlines()
    model.encode(texts[: int(batch)], batch_size=int(batch))
    begin = time.monotonic()
    model.encode(texts, batch_size=int(batch))
    if device == "cuda": torch.cuda.synchronize()
    print(time.monotonic() - begin, flush=True)
"""

# The same for ONNX Runtime's own loop: ids that are made once, on the device, and outputs that stay there.
BOUND_LOOP = """
import sys, time, numpy, onnxruntime
file, provider, graph = sys.argv[1:]
first = (provider, {"enable_cuda_graph": "1"}) if graph == "graph" else provider
session = onnxruntime.InferenceSession(file, providers=[first, "CPUExecutionProvider"] if provider != "CPUExecutionProvider" else [first])
if session.get_providers()[0] != provider: sys.exit(f"it runs on {session.get_providers()[0]}")
device = "cuda" if provider.startswith("CUDA") else "cpu"
print("ready", flush=True)
for line in sys.stdin:
    batch, tokens, seconds = (float(word) for word in line.split())
    shape = (int(batch), int(tokens))
    binding = session.io_binding()
    for one in session.get_inputs():
        value = numpy.ones(shape, numpy.int64) if "mask" in one.name else numpy.full(shape, 2000, numpy.int64) if "type" not in one.name else numpy.zeros(shape, numpy.int64)
        binding.bind_ortvalue_input(one.name, onnxruntime.OrtValue.ortvalue_from_numpy(value, device, 0))
    for one in session.get_outputs(): binding.bind_output(one.name, device)
    for _ in range(5): session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    begin, runs = time.monotonic(), 0
    while time.monotonic() < begin + seconds:
        for _ in range(10): session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        runs += 10
    print((time.monotonic() - begin) / runs, flush=True)
"""


class Peer:
    """A process that answers lines, and is kept between its turns."""

    def __init__(self, code, *arguments, environment=None, seconds=90):
        self.process = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=environment)
        self.seconds = seconds
        if self.answer() != "ready":
            raise installed.Unavailable("it printed something else than that it is ready")

    def answer(self):
        if not select.select([self.process.stdout], [], [], self.seconds)[0]:
            self.process.kill()
            raise installed.Unavailable(f"it did not answer within {self.seconds} s")
        line = self.process.stdout.readline().strip()
        if not line:
            lines = self.process.stderr.read().strip().splitlines()
            raise installed.Unavailable(lines[-1][:300] if lines else "it ended")
        return line

    def ask(self, question):
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return float(self.answer())

    def close(self):
        self.process.kill()
        self.process.wait(10)


def words_of(here):
    """Words that are one token each."""
    vocabulary = json.loads((here.home / "minilm/tokenizer.json").read_text())["model"]["vocab"]
    return sorted(word for word in vocabulary if re.fullmatch("[a-z]{3,8}", word))


def texts_of(here, tokens, count, repeated=1):
    """A file of so many texts of so many tokens; a longer one has them several times."""
    file = here.work / f"texts-{tokens}-{count}-{repeated}.txt"
    if not file.exists():
        source, words = random.Random(tokens), words_of(here)
        lines = "\n".join(" ".join(source.choices(words, k=tokens - 2)) for _ in range(count)) + "\n"
        file.write_text(lines * repeated)
    return file


def texts_in(tokens, all_tokens):
    return max(64, all_tokens // tokens)


def embed_seconds(here, provider, model, file, flags):
    answer = here.gpux("embed", "-m", model, f"@{file}", "-o", here.work / "vectors.npy", *flags, provider=provider, seconds=90)
    if answer.code:
        raise installed.Unavailable(answer.last_error)
    line = installed.verdict_of(answer)
    if f"ran on {provider.id}" not in line.partition(";")[0]:
        raise installed.Unavailable(line)
    return answer.seconds, line


def repetitions(rate, tokens_of_a_file, seconds=SECONDS_OF_A_RUN):
    """How often the file is repeated, so that the run is long beside its start."""
    return max(1, min(10, round(rate * seconds / tokens_of_a_file)))


class Embedding:
    """`gpux embed` in one precision, on texts of one length: the rate without the start, which is a run of few texts."""

    def __init__(self, here, provider, model, tokens, count, precision):
        self.here, self.provider, self.model, self.tokens, self.count = here, provider, model, tokens, count
        self.flags = ["--precision", precision, "--batching", "throughput"]
        self.few = texts_in(tokens, 512)
        self.start, self.said = embed_seconds(here, provider, model, texts_of(here, tokens, self.few), self.flags)
        self.repeated = 1
        self.repeated = repetitions(self.rate(), count * tokens)

    def rate(self):
        file = texts_of(self.here, self.tokens, self.count, self.repeated)
        seconds, self.said = embed_seconds(self.here, self.provider, self.model, file, self.flags)
        return (self.count * self.repeated - self.few) * self.tokens / max(seconds - self.start, 1e-9)


def texts(here, say, name, tokens_of_a_round=TOKENS_OF_A_ROUND):
    """MiniLM: gpux in fp32 and fp16, and sentence-transformers in fp16, by turns; a ratio is the median of the rounds' ratios."""
    provider, model = here.require(name), here.minilm()
    device = "cuda" if name in ("cuda", "cuda-plugin", "tensorrt-rtx") else "cpu"
    peer = None
    try:
        peer = Peer(SENTENCE_TRANSFORMERS, here.home / "minilm", device, "fp16" if device == "cuda" else "fp32")
    except installed.Unavailable as error:
        say(model="MiniLM", peer="sentence-transformers", not_run=str(error))
    for tokens in LENGTHS:
        count = texts_in(tokens, tokens_of_a_round)
        rates, peer_rates, others = [], [], {"fp32": "not run", "start": "", "said": ""}
        try:
            embedding = Embedding(here, provider, model, tokens, count, "fp16")
            for _ in range(ROUNDS):
                rates.append(embedding.rate())
                if peer:
                    peer_rates.append(count * tokens / peer.ask(f"{texts_of(here, tokens, count)} 128"))
            others |= {"start": round(embedding.start, 2), "said": embedding.said}
            others["fp32"] = round(Embedding(here, provider, model, tokens, count, "fp32").rate())
        except installed.Unavailable as error:
            others["said"] = str(error)
        say(model="MiniLM", tokens=tokens, **{"fp16 tokens/s": middle(rates), "sentence-transformers tokens/s": middle(peer_rates),
            "ratio": ratio(rates, peer_rates), "fp32 tokens/s": others["fp32"], "start s": others["start"]}, said=others["said"])
    if peer:
        peer.close()


def middle(rates):
    return round(statistics.median(rates)) if rates else "not run"


def ratio(mine, others):
    pairs = [one / other for one, other in zip(mine, others, strict=False) if other]
    return round(statistics.median(pairs), 2) if pairs else ""


def session_time(here, provider, model, dims, seconds=1.5, flags=()):
    words = [word for key, size in dims.items() for word in ("--dim", f"{key}={size}")]
    found = here.json("bench", model, *words, "--seconds", seconds, "--warmup", "5", "--json", *flags, provider=provider, seconds=60)
    found = found[0] if isinstance(found, list) else found
    active = found["verdict"]["active"]
    if provider and provider.id not in active:
        raise installed.Unavailable(f"it ran on {', '.join(active)}")
    return found


def onnx_file(here, model, precision):
    """The file of a stored model, or of its variant."""
    listed = here.json("inspect", model, "--json")
    path = pathlib.Path(find_path(listed))
    return path.parent / "fp16/model.onnx" if precision == "fp16" else path


def find_path(value):
    """The first path of an .onnx file in what `inspect` says."""
    if isinstance(value, str):
        return value if value.startswith("/") and value.endswith(".onnx") else None
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(filter(None, map(find_path, inner)), None)


def sessions(here, say, name):
    """Runs alone: gpux's session beside ONNX Runtime's bound loop on the same file, by turns. The loop is the limit of one session."""
    provider, model = here.require(name), here.minilm()
    ort = {"cuda": "CUDAExecutionProvider", "encoder": "CPUExecutionProvider", "cpu": "CPUExecutionProvider"}.get(provider.id)
    environment = {**here.environment(provider), "PYTHONPATH": str(here.home / "cuda-python"), "LD_LIBRARY_PATH": cuda_libraries(here, provider)} if provider.id == "cuda" else None
    for precision in ("fp32", "fp16"):
        peer = None
        try:
            peer = Peer(BOUND_LOOP, onnx_file(here, model, precision), ort, "runs", environment=environment) if ort else None
        except installed.Unavailable as error:
            say(model="MiniLM", precision=precision, peer="ONNX Runtime's bound loop", not_run=str(error))
        for batch, tokens in ((1, 16), (32, 16), (128, 32), (128, 128)):
            mine, others, said = [], [], ""
            for _ in range(ROUNDS):
                try:
                    found = session_time(here, provider, model, {"batch": batch, "sequence": tokens}, flags=["--precision", precision])
                    mine.append(batch * tokens * 1000 / found["median_time_ms"])
                    said = found["verdict"]["precision"]
                except (installed.Unavailable, RuntimeError) as error:
                    said = str(error)
                try:
                    others += [batch * tokens / peer.ask(f"{batch} {tokens} 1")] if peer else []
                except installed.Unavailable as error:
                    peer, said = None, f"the bound loop ended: {error}"
            say(model="MiniLM", precision=precision, batch=batch, tokens=tokens, **{"gpux tokens/s": round(statistics.median(mine)) if mine else "not run",
                "bound loop tokens/s": round(statistics.median(others)) if others else "not run"}, ratio=ratio(mine, others), said=said)
        if peer:
            peer.close()


def recorded(here, say):
    """What a CUDA graph would bring: ONNX Runtime's bound loop with fixed addresses and one shape, with and without it. gpux refuses
    the option, because its runs have memory of their own."""
    provider = here.require("cuda")
    environment = {**here.environment(provider), "PYTHONPATH": str(here.home / "cuda-python"), "LD_LIBRARY_PATH": cuda_libraries(here, provider)}
    file = onnx_file(here, here.minilm(), "fp16")
    for batch, tokens in ((1, 16), (32, 16)):
        found = {}
        for how in ("runs", "graph"):
            try:
                peer = Peer(BOUND_LOOP, file, "CUDAExecutionProvider", how, environment=environment)
                found[how] = round(1e6 * peer.ask(f"{batch} {tokens} 1"))
                peer.close()
            except installed.Unavailable as error:
                found[how] = str(error)
        say(model="MiniLM fp16", batch=batch, tokens=tokens, **{"µs of a run": found["runs"], "µs of a recorded run": found["graph"]})


def cuda_libraries(here, provider):
    """ONNX Runtime's own Python package looks for CUDA's libraries by the loader alone."""
    return installed.joined(*installed.nvidia_libraries(), here.environment(provider).get("LD_LIBRARY_PATH"))


def bert_base(here, say, name):
    """Larger matrices: BERT base with random weights."""
    provider = here.require(name)
    folder = here.work / "bert-base"
    if not folder.exists():
        random_models.write_bert_base(here.root, here.home / "minilm/tokenizer.json", folder)
    model = here.imported("bert-base", folder, "--quantize", "fp16")
    for precision in ("fp32", "fp16"):
        for batch, tokens in ((1, 16), (32, 64), (128, 128)):
            try:
                found = session_time(here, provider, model, {"batch": batch, "sequence": tokens}, flags=["--precision", precision])
                say(model="BERT base", precision=precision, batch=batch, tokens=tokens, **{"tokens/s": round(batch * tokens * 1000 / found["median_time_ms"]),
                    "p50 ms": found["median_time_ms"], "p99 ms": found["p99_time_ms"]}, said=found["verdict"]["precision"])
            except (installed.Unavailable, RuntimeError) as error:
                say(model="BERT base", precision=precision, batch=batch, tokens=tokens, not_run=str(error))


def images(here, say, name):
    """ResNet-50 by number of images; the peak of the device is what torch's matrix product reaches."""
    provider = here.require(name)
    file = outputs.written_resnet50(here)
    for precision in ((), ("--precision", "fp32")):
        for count in (1, 8, 32, 128, 256):
            try:
                found = session_time(here, provider, file, {"images": count}, flags=precision)
                say(model="ResNet-50", asked=" ".join(precision) or "default", images=count, **{"images/s": round(count * 1000 / found["median_time_ms"], 1),
                    "p50 ms": found["median_time_ms"], "p99 ms": found["p99_time_ms"], "first run ms": found["first_run_ms"], "load ms": found["load_ms"]}, said=found["verdict"]["precision"])
            except (installed.Unavailable, RuntimeError) as error:
                say(model="ResNet-50", asked=" ".join(precision) or "default", images=count, not_run=str(error))


LIMITS = """
import time, torch
def rate(kind, size):
    a, b = (torch.randn(size, size, device="cuda", dtype=kind) for _ in range(2))
    for _ in range(3): a @ b
    torch.cuda.synchronize(); begin = time.monotonic()
    for _ in range(20): a @ b
    torch.cuda.synchronize()
    return 20 * 2 * size ** 3 / (time.monotonic() - begin) / 1e12
torch.backends.cuda.matmul.allow_tf32 = False
print("fp32", rate(torch.float32, 4096))
torch.backends.cuda.matmul.allow_tf32 = True
print("tf32", rate(torch.float32, 8192))
print("fp16", rate(torch.float16, 8192))
a = torch.empty(2 ** 30, dtype=torch.uint8, device="cuda"); b = torch.empty_like(a)
b.copy_(a); torch.cuda.synchronize(); begin = time.monotonic()
for _ in range(20): b.copy_(a)
torch.cuda.synchronize(); print("copy", 20 * 2 * 2 ** 30 / (time.monotonic() - begin) / 1e12)
for pinned in (False, True):
    host = torch.empty(2 ** 28, dtype=torch.uint8, pin_memory=pinned)
    a[: 2 ** 28].copy_(host); torch.cuda.synchronize(); begin = time.monotonic()
    for _ in range(8): a[: 2 ** 28].copy_(host, non_blocking=True)
    torch.cuda.synchronize(); print("pinned" if pinned else "pageable", 8 * 2 ** 28 / (time.monotonic() - begin) / 1e9)
"""


def limits(here, say):
    """What this device does at best, by torch: the limit beside the rates."""
    installed.require_gpu()
    units = {"copy": "TB/s, bytes read and written on the device", "pinned": "GB/s from pinned memory", "pageable": "GB/s from pageable memory"}
    done = subprocess.run([sys.executable, "-c", LIMITS], capture_output=True, text=True, check=False, timeout=60)
    for line in done.stdout.splitlines():
        name, value = line.split()
        say(limit=name, value=round(float(value), 2), unit=units.get(name, "TFLOP/s of a matrix product"))
    if done.returncode:
        raise installed.Unavailable((done.stderr.strip().splitlines() or ["it ended"])[-1])


def bridge_and_plugin(here, say):
    """The same library in two ways. As a plugin, inputs and outputs go through pinned memory and stay bound; as a bridge they do not."""
    here.require("cuda")
    for name in ("cuda", "cuda-plugin"):
        try:
            provider = here.require(name)
            model = here.minilm()
            for batch, tokens in ((32, 16), (128, 128)):
                found = session_time(here, provider, model, {"batch": batch, "sequence": tokens}, flags=["--precision", "fp32"])
                say(how=name, batch=batch, tokens=tokens, **{"tokens/s": round(batch * tokens * 1000 / found["median_time_ms"])}, notes=found["verdict"]["notes"])
        except (installed.NoDevice, installed.Unavailable, RuntimeError) as error:
            say(how=name, not_run=str(error))


def first_vector(here, say, name):
    """Seconds from the start of the process to the first vector."""
    provider, model = here.require(name), here.minilm()
    for number in range(3):
        begin = time.monotonic()
        answer = here.gpux("embed", "-m", model, "a text", "--precision", "fp16", provider=provider, seconds=60)
        say(start=number + 1, seconds=round(time.monotonic() - begin, 2), goal="3 s", said=installed.verdict_of(answer))


def serving(here, say, name):
    served.requests(here, say, name)
