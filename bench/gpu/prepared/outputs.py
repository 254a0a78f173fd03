"""Whether a provider computes what the CPU computes: the ONNX project's node cases, and whole models."""

import json
import subprocess
import sys

from prepared import random_models

WORDS_OF_DIFFERENCE = "differ"


def outcome_of(case, provider):
    if case["passed"]:
        return "on it" if provider in case["active"] else "on the CPU"
    if case["outcome"] == "not_supported":
        return "not supported"
    if case["outcome"] == "crashed" or "was ended by signal" in case["reason"]:
        return "crashed"
    return "differ" if WORDS_OF_DIFFERENCE in case["reason"] else "refused"


def cases_of(here, which, provider=None, seconds=300):
    flags = () if provider else ("--provider", "cpu")
    answer = here.gpux("verify", "--suite", here.home / "cases" / which, "--json", *flags, provider=provider, seconds=seconds)
    try:
        return json.loads(answer.output)["cases"]
    except (ValueError, KeyError):
        raise RuntimeError(f"gpux verify --suite: exit {answer.code}: {answer.last_error}") from None


def node_cases(here, say, name, which="sample"):
    """Counts, and each case that the CPU passes and the provider computes differently, refuses, or ends the process with."""
    provider = here.require(name)
    cpu = {case["name"]: case for case in cases_of(here, which)}
    found = cases_of(here, which, provider)
    counts = {}
    for case in found:
        outcome = outcome_of(case, provider.id)
        counts[outcome] = counts.get(outcome, 0) + 1
    say(cases=len(found), **{outcome: counts.get(outcome, 0) for outcome in ("on it", "on the CPU", "not supported", "differ", "refused", "crashed")},
        cpu_passes=sum(case["passed"] for case in cpu.values()))
    for case in found:
        if outcome_of(case, provider.id) in ("differ", "refused", "crashed") and cpu[case["name"]]["passed"]:
            say(case=case["name"], outcome=outcome_of(case, provider.id), reason=case["reason"][:300])


def verified(here, say, provider, label, model, *flags):
    answer = here.gpux("verify", model, "--json", *flags, provider=provider, seconds=180)
    try:
        found = json.loads(answer.output)
    except ValueError:
        say(model=label, flags=" ".join(map(str, flags)), exit=answer.code, passed="NO", cosine="", largest="", said=answer.last_error)
        return
    outputs = found["outputs"]
    say(model=label, flags=" ".join(map(str, flags)), exit=answer.code, passed="yes" if found["passed"] else "NO",
        cosine=min((one["cosine"] for one in outputs if one.get("cosine") is not None), default=""),
        largest=max((one["max_absolute"] for one in outputs if one.get("max_absolute") is not None), default=""),
        said=f"{found['compared']}, {found['verdict']['precision']}; {next((one['reason'] for one in outputs if one['reason']), '')}")


def digits(here, say, name):
    provider = here.require(name)
    for number in (1, 7):
        verified(here, say, provider, "digits", here.home / "gpux/digits", "-i", f"@{here.home}/gpux/digits/digit-{number}.npy")


def minilm(here, say, name):
    provider = here.require(name)
    model = here.minilm()
    for batch, tokens in ((1, 8), (4, 32), (16, 128)):
        verified(here, say, provider, "MiniLM", model, "--dim", f"batch={batch}", "--dim", f"sequence={tokens}")
    for precision in ("fp32", "fp16"):
        verified(here, say, provider, "MiniLM", model, "--dim", "batch=4", "--dim", "sequence=32", "--precision", precision)


def resnet50(here, say, name):
    provider = here.require(name)
    file = written_resnet50(here)
    for images in (1, 8):
        for flags in ((), ("--precision", "fp32")):
            verified(here, say, provider, "ResNet-50", file, "--dim", f"images={images}", *flags)


def written_resnet50(here):
    file = here.work / "resnet50.onnx"
    return file if file.exists() else random_models.write_resnet50(file)


def written_decoder(here, model="SmolLM2-135M", layers=0):
    """A Hugging Face folder with random weights, by the bench's own writer."""
    folder = here.work / f"decoders-{layers}"
    if not (folder / model / "model.safetensors").exists():
        command = [sys.executable, str(here.root / "bench/generation/make_models"), *(["--layers", str(layers)] if layers else []), str(folder), model]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"make_models: {(done.stderr.strip().splitlines() or [done.returncode])[-1]}")
    return folder / model


def decoder(here, say, name):
    """The logits of one run, and the tokens that are chosen from them."""
    provider = here.require(name)
    model = here.imported("small-decoder", written_decoder(here, layers=2))
    verified(here, say, provider, "SmolLM2-135M, 2 layers", model)
    tokens, errors = {}, {}
    for label, how in (("cpu", {}), (name, {"provider": provider})):
        flags = () if how else ("--provider", "cpu")
        answer = here.gpux("generate", model, "Once upon a time", "--max-tokens", "32", "--temperature", "0", "--json", *flags, **how)
        if answer.code == 0:
            tokens[label] = json.loads(answer.output)["tokens"]
        else:
            errors[label] = answer.last_error
    same = not errors and tokens["cpu"] == tokens[name]
    say(model="SmolLM2-135M, 2 layers", flags="generate 32 tokens", exit="", passed="yes" if same else "NO", cosine="", largest="",
        said="the same tokens" if same else errors or f"the first {common(tokens['cpu'], tokens[name])} of 32 are the same")


def common(first, second):
    """How many elements are the same before the first one that differs."""
    return next((number for number, (one, other) in enumerate(zip(first, second, strict=False)) if one != other), min(len(first), len(second)))
