"""The steps in order of worth: what each must find out, the parts that it needs, the seconds that it takes and may take."""

import dataclasses
import functools

from prepared import cores, faults, generated, outputs, speed, truth
from prepared.runner import Step


def on(function, name, **more):
    return functools.partial(function, name=name, **more)


def spare(*steps):
    return [dataclasses.replace(step, spare=True) for step in steps]


def with_names(function, names):
    return functools.partial(function, names=names)


BASE, WEBGPU, TEXT = ("gpux",), ("gpux", "webgpu"), ("gpux", "minilm")
WEBGPU_TEXT, CUDA, CUDA_TEXT = ("gpux", "webgpu", "minilm"), ("gpux", "cuda"), ("gpux", "cuda", "minilm")
RTX, RTX_TEXT = ("gpux", "tensorrt-rtx"), ("gpux", "tensorrt-rtx", "minilm")


def for_provider(name, base, text, scale=1.0):
    """What is asked of each provider."""
    def step(kind, question, needs, expected, budget, function):
        return Step(f"{kind}-{name}", question, needs, expected * scale, budget * scale, on(function, name))

    return {
        "providers": Step(f"providers-{name}", f"Does gpux find {name}, and its device as nvidia-smi does?", base, 3, 20, with_names(truth.listed, [name])),
        "strict": Step(f"strict-{name}", "--strict: exit 5 unless the provider runs", base, 6, 40, with_names(truth.strict, [name])),
        "placement": step("placement", "Are the verdict's numbers of nodes those of ONNX Runtime's profile?", base, 3, 30, truth.placement),
        "precision": step("precision", "Is the precision that gpux names the one that was computed in?", base, 6, 40, truth.precision),
        "digits": step("digits", "digits: the CPU's outputs", base, 4, 30, outputs.digits),
        "cases": step("cases", "The ONNX project's node cases (a sample): which operators differ from the CPU's?", (*base, "cases"), 20, 70, outputs.node_cases),
        "minilm": step("minilm", "MiniLM: the CPU's outputs", text, 15, 60, outputs.minilm),
        "resnet50": step("resnet50", "ResNet-50 with random weights: the CPU's outputs", base, 12, 50, outputs.resnet50),
        "decoder": step("decoder", "A decoder with random weights: the CPU's outputs and tokens", base, 8, 40, outputs.decoder),
        "images": step("images", "ResNet-50: images per second", base, 25, 70, speed.images),
        "texts": step("texts", "MiniLM through `gpux embed`: tokens per second; goal: 2 million, 1.5 times sentence-transformers in fp16", text, 75, 130, speed.texts),
        "first": step("first", "From the start to the first vector; goal: 3 s", text, 6, 30, speed.first_vector),
        "serving": step("serving", "MiniLM through `gpux serve`", text, 30, 60, speed.serving),
        "bert": step("bert", "BERT base with random weights: tokens per second", text, 30, 80, speed.bert_base),
    }


def table():
    webgpu, cuda, rtx = for_provider("webgpu", WEBGPU, WEBGPU_TEXT), for_provider("cuda", CUDA, CUDA_TEXT), for_provider("tensorrt-rtx", RTX, RTX_TEXT)
    parts_of_cuda = (*CUDA_TEXT, "cuda-python")
    return [
        Step("machine", "What is this machine, and what does gpux report?", BASE, 8, 45, truth.machine),
        *(webgpu[kind] for kind in ("providers", "strict", "digits", "placement", "cases", "precision")),
        Step("limits", "What does the device do at best?", BASE, 12, 45, speed.limits),
        Step("lying-library", "A library that fails on command: is the verdict true?", BASE, 8, 60, faults.lying_library),
        Step("cores-decoder", "More threads for the decoder, without the accelerator", BASE, 30, 80, cores.decoder),
        webgpu["minilm"],
        Step("cores-encoder", "More threads for the encoder, without the accelerator", TEXT, 30, 80, cores.encoder),
        Step("cores-server", "More workers of a server, without the accelerator", TEXT, 25, 80, cores.server),
        *(cuda[kind] for kind in ("providers", "strict", "digits", "placement", "precision", "cases", "minilm", "texts", "resnet50", "decoder", "first")),
        Step("without-cudnn", "A provider whose library lacks cuDNN: refused with the file's name?", CUDA, 4, 30, on(truth.without_cudnn, "cuda")),
        Step("one-core", "Has any process two ONNX Runtime libraries?", CUDA, 6, 30, on(truth.one_core, "cuda")),
        cuda["images"],
        Step("sessions-cuda", "Runs alone beside ONNX Runtime's own bound loop; goal: 0.95 of it", parts_of_cuda, 40, 100, on(speed.sessions, "cuda")),
        Step("bridge-and-plugin", "The library as a plugin (bound, pinned memory) and as a bridge", CUDA_TEXT, 10, 40, speed.bridge_and_plugin),
        cuda["serving"],
        *(rtx[kind] for kind in ("providers", "strict", "digits", "placement", "cases", "minilm")),
        Step("sessions-tensorrt-rtx", "Runs alone; the CUDA loop of sessions-cuda is their limit", RTX_TEXT, 30, 80, on(speed.sessions, "tensorrt-rtx")),
        Step("generation-cuda", "Generation: tokens per second of 1, 16 and 64 users, beside transformers", CUDA, 40, 110, on(generated.rates, "cuda")),
        Step("copies-cuda", "Generation: are keys and values copied to the host?", CUDA, 6, 30, on(generated.copies, "cuda")),
        Step("killed-worker", "A worker that is killed under load", CUDA_TEXT, 12, 50, on(faults.killed_worker, "cuda")),
        Step("no-memory", "Another process holds the device's memory", CUDA_TEXT, 25, 80, on(faults.no_memory, "cuda")),
        Step("small-limit", "A memory limit that is too small", CUDA_TEXT, 6, 30, on(faults.small_limit, "cuda")),
        *spare(Step("generation-cuda-larger", "Generation with Qwen2.5-0.5B's shapes", CUDA, 60, 130, on(generated.rates, "cuda", shape="Qwen2.5-0.5B")),
               Step("recorded", "What would CUDA graphs bring?", parts_of_cuda, 20, 60, speed.recorded), webgpu["resnet50"], webgpu["decoder"], rtx["resnet50"], cuda["bert"], rtx["images"],
               Step("all-cases-cuda", "All node cases on CUDA", (*CUDA, "cases"), 100, 170, on(outputs.node_cases, "cuda", which="all"))),
    ]
