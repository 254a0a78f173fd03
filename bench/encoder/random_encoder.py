"""Encoders of well-known shapes with random weights, as Hugging Face folders: drawn as a training would begin."""

import json
import pathlib
import shutil
import struct

import numpy as np

SPREAD = 0.02
BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "hidden_act": "gelu"}
SHAPES = {
    "bert-base": {"model_type": "bert", "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0},
    "mpnet-base": {"model_type": "mpnet", "max_position_embeddings": 514, "relative_attention_num_buckets": 32, "layer_norm_eps": 1e-5,
                   "pad_token_id": 1},
    "xlm-roberta-base": {"model_type": "xlm-roberta", "max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5,
                         "pad_token_id": 1},
}


def tensors(config):
    """Name to shape, in the order of the file."""
    width, wide, is_mpnet = config["hidden_size"], config["intermediate_size"], config["model_type"] == "mpnet"
    found = {}

    def add_norm(name):
        found.update({f"{name}.weight": [width], f"{name}.bias": [width]})

    def add_linear(name, columns, inner):
        found.update({f"{name}.weight": [columns, inner], f"{name}.bias": [columns]})

    found["embeddings.word_embeddings.weight"] = [config["vocab_size"], width]
    found["embeddings.position_embeddings.weight"] = [config["max_position_embeddings"], width]
    if "type_vocab_size" in config:
        found["embeddings.token_type_embeddings.weight"] = [config["type_vocab_size"], width]
    add_norm("embeddings.LayerNorm")
    if is_mpnet:
        found["encoder.relative_attention_bias.weight"] = [config["relative_attention_num_buckets"], config["num_attention_heads"]]
    parts = ("attn.q", "attn.k", "attn.v", "attn.o") if is_mpnet else ("self.query", "self.key", "self.value", "output.dense")
    for layer in (f"encoder.layer.{i}" for i in range(config["num_hidden_layers"])):
        for part in parts:
            add_linear(f"{layer}.attention.{part}", width, width)
        add_norm(f"{layer}.attention.LayerNorm" if is_mpnet else f"{layer}.attention.output.LayerNorm")
        add_linear(f"{layer}.intermediate.dense", wide, width)
        add_linear(f"{layer}.output.dense", width, wide)
        add_norm(f"{layer}.output.LayerNorm")
    return found


def values(name, shape, source):
    if name.endswith(".bias"):
        return np.zeros(shape, np.float32)
    if name.endswith("LayerNorm.weight"):
        return np.ones(shape, np.float32)
    return source.standard_normal(shape, np.float32) * np.float32(SPREAD)


def write_safetensors(file, shapes):
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    text, source = json.dumps(header).encode(), np.random.default_rng(1)
    with open(file, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for name, shape in shapes.items():
            stream.write(values(name, shape, source).astype("<f4").tobytes())


def write(shape, tokenizer, folder):
    """A folder of that shape with the vocabulary of a tokenizer.json."""
    folder = pathlib.Path(folder)
    folder.mkdir()
    vocabulary = json.loads(pathlib.Path(tokenizer).read_text(encoding="utf-8"))["model"]["vocab"]
    config = {**BASE, **SHAPES[shape], "vocab_size": len(vocabulary)}
    shutil.copy(tokenizer, folder / "tokenizer.json")
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    write_safetensors(folder / "model.safetensors", tensors(config))
