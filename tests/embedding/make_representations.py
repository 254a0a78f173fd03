#!/usr/bin/env python3
"""Writes the models of representations/ and answers.json, beside them, for the tests of sparse vectors and of late
interaction. They are committed: run it only to change them.

The models have the vocabulary of tests/text/data/wordpiece.json and a layer that mixes the tokens' vectors:
logits.onnx: scores of the vocabulary for each token, as masked language models are exported.
splade.onnx: the sparse vectors themselves, as gpux imports them.
bge_m3.onnx: dense_vecs, sparse_vecs and colbert_vecs, as BGE-M3 is exported.
hidden.onnx: last_hidden_state, for ColBERT models with a Dense module.
answers.json: what numpy makes of each text, by the definitions of sentence-transformers' SpladePooling and
MultiVectorMask and of FlagEmbedding.

Needs the Python packages onnx, onnxruntime, numpy, safetensors and tokenizers.
"""

import json
import pathlib
import string

import numpy as np
import onnx
import onnxruntime
import tokenizers
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

FOLDER = pathlib.Path(__file__).resolve().parent / "representations"
TOKENIZER = FOLDER.parent.parent / "text" / "data" / "wordpiece.json"
WIDTH, PROJECTED, MAX_TOKENS = 8, 6, 32
QUERY_MARKER, DOCUMENT_MARKER, QUERY_LENGTH, DOCUMENT_LENGTH = "#", "$", 12, 20
TEXTS = ["a", "the model runs on the processor", "Provider, provider: PROVIDER!", "naïve café\t😀 タ",
         "one line says what really ran and why " * 8]

RANDOM = np.random.default_rng(11)
VOCABULARY = len(json.loads(TOKENIZER.read_text())["model"]["vocab"])


def weights(*shape, scale=1.0):
    return (RANDOM.normal(size=shape) * scale).astype(np.float32)


WEIGHTS = {"words": weights(VOCABULARY, WIDTH), "mix": weights(WIDTH, WIDTH), "decoder_bias": weights(VOCABULARY) - np.float32(5),
           "sparse_linear": weights(WIDTH, 1), "colbert_linear": weights(WIDTH, PROJECTED)}
PROJECTION = weights(PROJECTED, WIDTH)


def value(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def make(name, nodes, outputs):
    node = helper.make_node
    body = [
        node("Gather", ["words", "input_ids"], ["word_vectors"]),
        node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["mask", "one"], ["row"]),
        node("Unsqueeze", ["mask", "two"], ["column"]),
        node("MatMul", ["row", "word_vectors"], ["sum"]),
        node("ReduceSum", ["row", "two"], ["count"]),
        node("Div", ["sum", "count"], ["mean"]),
        node("Add", ["word_vectors", "mean"], ["x"]),
        node("MatMul", ["x", "mix"], ["mixed"]),
        node("Tanh", ["mixed"], ["hidden"]),
        *nodes,
    ]
    inputs = [helper.make_tensor_value_info(each, TensorProto.INT64, ["batch", "sequence"])
              for each in ("input_ids", "attention_mask")]
    used = {each for one in body for each in one.input}
    constants = {each: values for each, values in WEIGHTS.items() if each in used}
    numbers = {"one": np.array([1]), "two": np.array([2]), "float_one": np.float32(1), "low": np.float32(-1e9),
               "tiny": np.float32(1e-12), "zero": np.array([0]), "far": np.array([2**62])}
    constants |= {each: number for each, number in numbers.items() if each in used}
    graph = helper.make_graph(body, name, inputs, outputs,
                              [numpy_helper.from_array(values, each) for each, values in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], producer_name="gpux-tests")
    model.ir_version = 9
    path = FOLDER / f"{name}.onnx"
    path.write_bytes(model.SerializeToString(deterministic=True))
    onnx.checker.check_model(str(path))
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def make_models():
    node = helper.make_node
    logits = [node("Transpose", ["words"], ["decoder"], perm=[1, 0]), node("MatMul", ["hidden", "decoder"], ["scores"]),
              node("Add", ["scores", "decoder_bias"], ["logits"])]
    make("logits", logits, [value("logits", "batch", "sequence", VOCABULARY)])
    splade = [*logits, node("Cast", ["column"], ["is_token"], to=TensorProto.BOOL),
              node("Where", ["is_token", "logits", "low"], ["counted"]),
              node("ReduceMax", ["counted", "one"], ["largest"], keepdims=0), node("Relu", ["largest"], ["positive"]),
              node("Add", ["positive", "float_one"], ["above"]), node("Log", ["above"], ["sparse_embedding"])]
    make("splade", splade, [value("sparse_embedding", "batch", VOCABULARY)])
    normalized = [node("ReduceL2", ["projected", "two"], ["length"]), node("Max", ["length", "tiny"], ["at_least"]),
                  node("Div", ["projected", "at_least"], ["colbert_vecs"])]
    bge = [node("Slice", ["hidden", "zero", "one", "one"], ["first"]), node("Squeeze", ["first", "one"], ["cls"]),
           node("ReduceL2", ["cls", "one"], ["cls_length"]), node("Div", ["cls", "cls_length"], ["dense_vecs"]),
           node("MatMul", ["hidden", "sparse_linear"], ["weights"]), node("Relu", ["weights"], ["sparse_vecs"]),
           node("Slice", ["hidden", "one", "far", "one"], ["others"]),
           node("MatMul", ["others", "colbert_linear"], ["projected"]), *normalized]
    make("bge_m3", bge, [value("dense_vecs", "batch", WIDTH), value("sparse_vecs", "batch", "sequence", 1),
                         value("colbert_vecs", "batch", "shorter", PROJECTED)])
    hidden = [node("Identity", ["hidden"], ["last_hidden_state"])]
    make("hidden", hidden, [value("last_hidden_state", "batch", "sequence", WIDTH)])


def hidden_of(ids, mask):
    words = WEIGHTS["words"][ids]
    mean = (words * mask[:, None]).sum(0) / mask.sum()
    return np.tanh((words + mean) @ WEIGHTS["mix"])


def listed(array):
    return [float(f"{x:.7g}") for x in np.asarray(array).ravel()]


def sparse(weights):
    found = np.nonzero(weights)[0]
    return {"indices": found.tolist(), "values": listed(weights[found])}


def normalized(vectors):
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def of_late_interaction(tokenizer, text, marker, length, query):
    ids = tokenizer.encode(text).ids
    ids = ids[:length - 2] + ids[-1:] if len(ids) > length - 1 else ids
    ids = [ids[0], tokenizer.token_to_id(marker), *ids[1:]]
    mask = [1] * len(ids)
    counts = [1] * len(ids)
    if query:
        more = length - len(ids)
        ids += [tokenizer.token_to_id("[MASK]")] * more
        mask += [0] * more
        counts += [1] * more
    else:
        skipped = {tokenizer.token_to_id(each) for each in string.punctuation}
        counts = [0 if each in skipped else 1 for each in ids]
    vectors = normalized(hidden_of(np.array(ids), np.array(mask, dtype=np.float32)) @ PROJECTION.T)
    return vectors[np.array(counts) == 1]


def main():
    FOLDER.mkdir(exist_ok=True)
    make_models()
    save_file({"linear.weight": PROJECTION}, str(FOLDER / "dense.safetensors"))
    tokenizer = tokenizers.Tokenizer.from_file(str(TOKENIZER))
    tokenizer.no_padding()
    special = {tokenizer.token_to_id(each) for each in ("[CLS]", "[SEP]", "[PAD]", "[UNK]")}
    answers = []
    for text in TEXTS:
        tokenizer.enable_truncation(MAX_TOKENS)
        ids = tokenizer.encode(text).ids
        hidden = hidden_of(np.array(ids), np.ones(len(ids), dtype=np.float32))
        logits = hidden @ WEIGHTS["words"].T + WEIGHTS["decoder_bias"]
        weights = np.log1p(np.maximum(logits, 0))
        lexical = np.zeros(VOCABULARY, dtype=np.float32)
        for each, weight in zip(ids, np.maximum(hidden @ WEIGHTS["sparse_linear"], 0).ravel()):
            if each not in special:
                lexical[each] = max(lexical[each], weight)
        tokenizer.no_truncation()
        query = of_late_interaction(tokenizer, text, QUERY_MARKER, QUERY_LENGTH, True)
        document = of_late_interaction(tokenizer, text, DOCUMENT_MARKER, DOCUMENT_LENGTH, False)
        answers.append({
            "text": text, "max": sparse(weights.max(0)), "sum": sparse(weights.sum(0)),
            "twice": sparse(np.log1p(weights).max(0)), "dense": listed(normalized(hidden[0])),
            "lexical": sparse(lexical), "tokens": listed(normalized(hidden[1:] @ WEIGHTS["colbert_linear"])),
            "query": listed(query), "document": listed(document)})
    documents = [np.array(answer["document"]).reshape(-1, PROJECTED) for answer in answers]
    queries = [np.array(answer["query"]).reshape(-1, PROJECTED) for answer in answers]
    for answer, query in zip(answers, queries):
        answer["max_sim"] = listed([(query @ document.T).max(1).sum() for document in documents])
    lines = ",\n".join(json.dumps(answer, ensure_ascii=False) for answer in answers)
    (FOLDER / "answers.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
