#!/usr/bin/env python3
"""Writes encoder.onnx and encoder_answers.json, beside this script, for the tests of texts' vectors. They are committed:
run it only to change them.

encoder.onnx: one layer of masked attention over the vocabulary of tests/text/data/wordpiece.json, with positions and
token types. encoder_variant.onnx: the same with inputs of int32 and outputs of float16, and
a sentence_embedding of undeclared width, the largest of the tokens' vectors.
encoder_answers.json: for each text its ids (by the Python package tokenizers), its tokens' vectors pooled by numpy in
the six ways of sentence-transformers, all before normalising.

Needs the Python packages onnx, onnxruntime, numpy and tokenizers.
"""

import json
import pathlib

import numpy as np
import onnx
import onnxruntime
import tokenizers
from onnx import TensorProto, helper, numpy_helper

FOLDER = pathlib.Path(__file__).resolve().parent
TOKENIZER = FOLDER.parent / "text" / "data" / "wordpiece.json"
WIDTH = 16
MAX_TOKENS = 32
TEXTS = ["", "a", "the model runs on the processor", "Provider, provider: PROVIDER!", "naïve café\t😀 タ",
         "one line says what really ran and why " * 8]


def weights():
    random = np.random.default_rng(7)
    vocabulary = len(json.loads(TOKENIZER.read_text())["model"]["vocab"])
    arrays = {"words": (vocabulary, WIDTH), "places": (64, WIDTH), "types": (2, WIDTH), "query": (WIDTH, WIDTH),
              "key": (WIDTH, WIDTH), "value": (WIDTH, WIDTH)}
    return {name: (random.normal(size=shape) / (3 if name in ("words", "places", "types") else 4)).astype(np.float32)
            for name, shape in arrays.items()}


def constant(name, values, dtype):
    return numpy_helper.from_array(np.asarray(values, dtype=dtype), name)


def make(name, variant=False):
    node = helper.make_node
    nodes = [
        node("Cast", ["input_ids"], ["ids"], to=TensorProto.INT64),
        node("Cast", ["attention_mask"], ["mask"], to=TensorProto.INT64),
        node("Cast", ["token_type_ids"], ["type_ids"], to=TensorProto.INT64),
        node("Gather", ["words", "ids"], ["word_vectors"]),
        node("CumSum", ["mask", "axis"], ["counted"], exclusive=1),
        node("Gather", ["places", "counted"], ["place_vectors"]),
        node("Gather", ["types", "type_ids"], ["type_vectors"]),
        node("Sum", ["word_vectors", "place_vectors", "type_vectors"], ["x"]),
        node("MatMul", ["x", "query"], ["q"]),
        node("MatMul", ["x", "key"], ["k"]),
        node("MatMul", ["x", "value"], ["v"]),
        node("Transpose", ["k"], ["k_turned"], perm=[0, 2, 1]),
        node("MatMul", ["q", "k_turned"], ["scores"]),
        node("Cast", ["mask"], ["mask_float"], to=TensorProto.FLOAT),
        node("Sub", ["mask_float", "one"], ["mask_less"]),
        node("Mul", ["mask_less", "much"], ["mask_cost"]),
        node("Unsqueeze", ["mask_cost", "axis"], ["mask_row"]),
        node("Add", ["scores", "mask_row"], ["masked"]),
        node("Softmax", ["masked"], ["shares"], axis=-1),
        node("MatMul", ["shares", "v"], ["mixed"]),
        node("Add", ["x", "mixed"], ["sum"]),
        node("Tanh", ["sum"], ["hidden"]),
    ]
    element = TensorProto.FLOAT16 if variant else TensorProto.FLOAT
    nodes.append(node("Cast", ["hidden"], ["last_hidden_state"], to=element))
    outputs = [helper.make_tensor_value_info("last_hidden_state", element, ["batch", "sequence", WIDTH])]
    if variant:
        nodes.append(node("ReduceMax", ["last_hidden_state", "axis"], ["sentence_embedding"], keepdims=0))
        outputs.append(helper.make_tensor_value_info("sentence_embedding", element, ["batch", "width"]))
    integer = TensorProto.INT32 if variant else TensorProto.INT64
    inputs = [helper.make_tensor_value_info(each, integer, ["batch", "sequence"])
              for each in ("input_ids", "attention_mask", "token_type_ids")]
    initializers = [numpy_helper.from_array(values, each) for each, values in weights().items()]
    initializers += [constant("axis", [1], np.int64), constant("one", 1, np.float32), constant("much", 1e4, np.float32)]
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], producer_name="gpux-tests")
    model.ir_version = 10
    path = FOLDER / f"{name}.onnx"
    path.write_bytes(model.SerializeToString(deterministic=True))
    onnx.checker.check_model(str(path))
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def poolings(hidden):
    count = len(hidden)
    order = np.arange(1, count + 1, dtype=np.float32)[:, None]
    return {"cls": hidden[0], "max": hidden.max(0), "mean": hidden.sum(0) / count,
            "mean_sqrt_len_tokens": hidden.sum(0) / np.sqrt(count),
            "weightedmean": (hidden * order).sum(0) / order.sum(), "lasttoken": hidden[-1]}


def main():
    session = make("encoder")
    make("encoder_variant", variant=True)
    tokenizer = tokenizers.Tokenizer.from_file(str(TOKENIZER))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    answers = []
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        row = np.asarray([ids], dtype=np.int64)
        hidden, = session.run(["last_hidden_state"], {"input_ids": row, "attention_mask": np.ones_like(row),
                                                      "token_type_ids": np.zeros_like(row)})
        vectors = {name: [float(f"{x:.7g}") for x in vector] for name, vector in poolings(hidden[0]).items()}
        answers.append({"text": text, "ids": ids, "vectors": vectors})
    lines = ",\n".join(json.dumps(answer, ensure_ascii=False) for answer in answers)
    (FOLDER / "encoder_answers.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
