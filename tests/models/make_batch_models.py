#!/usr/bin/env python3
"""Writes the models that tests/cli/batching_test.cpp serves: no_batch holds those whose first axis is no batch, though
their signatures look like one, and batch_first those whose requests may share runs. They are committed, with the
requests for each in requests.json: run it only to change them.

Needs the Python packages onnx (1.23 or newer) and numpy; looks for them in .deps/python as well.
"""

import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.append(str(FOLDER.parents[1] / ".deps" / "python"))

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
REQUESTS = 12  # for each model

made_models = {"no_batch": {}, "batch_first": {}}


def constant(name, values, dtype=np.float32):
    return numpy_helper.from_array(np.asarray(values, dtype=dtype), name)


def weights(name, shape, seed, scale=1.0):
    return constant(name, np.random.default_rng(seed).normal(size=shape) * scale)


def info(name, element, shape):
    return helper.make_tensor_value_info(name, element, shape)


def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def opsets(nodes, opset):
    others = sorted({made.domain for made in nodes} - {""})
    return [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in others)]


def save(folder, name, nodes, inputs, outputs, initializers, requests, opset=20):
    """`requests(random)` is one request, as its JSON object."""
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=opsets(nodes, opset), producer_name="gpux-tests",
                              producer_version="1")
    model.ir_version = 9
    path = FOLDER / folder / f"{name}.onnx"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(model.SerializeToString(deterministic=True))
    onnx.checker.check_model(str(path))
    random = np.random.default_rng(sum(name.encode()))
    made_models[folder][name] = [requests(random) for _ in range(REQUESTS)]


def listed(array):
    return np.round(array, 4).tolist()


def floats(shape, name="x", rows=(1, 5)):
    """Requests of some rows: of magnitudes that differ, so that one request shows in another's answer."""
    def make(random):
        count = int(random.integers(rows[0], rows[1] + 1))
        return {name: listed(random.normal(size=(count, *shape)) * random.choice([0.5, 1, 4]))}
    return make


def no_batch(*arguments, **more):
    save("no_batch", *arguments, **more)


def batch_first(*arguments, **more):
    save("batch_first", *arguments, **more)


def recurrent():
    for operator, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        no_batch(f"{operator.lower()}_time_major", [node(operator, "x w r", "y", hidden_size=4)],
                 [info("x", FLOAT, ["time", "batch", 3])], [info("y", FLOAT, ["time", 1, "batch", 4])],
                 [weights("w", (1, gates * 4, 3), 1), weights("r", (1, gates * 4, 4), 2)], floats((1, 3), rows=(2, 5)))
    no_batch("tagger", [node("Gather", "table ids", "embedded"), node("Unsqueeze", "embedded one", "columns"),
                        node("LSTM", "columns w r", "hidden", hidden_size=4, direction="bidirectional"),
                        node("Squeeze", "hidden two", "both"), node("Transpose", "both", "turned", perm=[0, 1, 2]),
                        node("Reshape", "turned flat", "rows"), node("MatMul", "rows head", "tags")],
             [info("ids", INT64, ["sequence"])], [info("tags", FLOAT, ["sequence", 3])],
             [weights("table", (10, 4), 3), weights("w", (2, 16, 4), 4), weights("r", (2, 16, 4), 5),
              weights("head", (8, 3), 6), constant("one", [1], np.int64), constant("two", [2], np.int64),
              constant("flat", [-1, 8], np.int64)],
             lambda random: {"ids": random.integers(0, 10, size=random.integers(2, 6)).tolist()})
    add = helper.make_graph([node("Add", "state row", "sum"), node("Identity", "sum", "seen")], "step",
                            [info("state", FLOAT, [3]), info("row", FLOAT, [3])],
                            [info("sum", FLOAT, [3]), info("seen", FLOAT, [3])])
    no_batch("scan", [helper.make_node("Scan", ["start", "x"], ["end", "y"], num_scan_inputs=1, body=add)],
             [info("x", FLOAT, ["n", 3])], [info("y", FLOAT, ["n", 3])], [constant("start", [0, 0, 0])], floats((3,)))


def mixing_rows():
    x, y = info("x", FLOAT, ["n", 4]), info("y", FLOAT, ["n", 4])
    no_batch("similarity", [node("Transpose", "x", "t"), node("MatMul", "x t", "y")], [info("x", FLOAT, [None, 4])],
             [info("y", FLOAT, [None, None])], [], floats((4,)))
    no_batch("similarity_named", [node("Transpose", "x", "t"), node("MatMul", "x t", "y")], [x],
             [info("y", FLOAT, ["n", "n"])], [], floats((4,)))
    no_batch("self_attention", [node("MatMul", "x wq", "q"), node("MatMul", "x wk", "k"), node("MatMul", "x wv", "v"),
                                node("Transpose", "k", "kt"), node("MatMul", "q kt", "scores"),
                                node("Softmax", "scores", "weights", axis=-1), node("MatMul", "weights v", "y")],
             [x], [y], [weights(f"w{which}", (4, 4), seed) for seed, which in enumerate("qkv")], floats((4,)))
    no_batch("transpose_matmul", [node("Transpose", "x", "t"), node("MatMul", "t x", "gram"),
                                  node("MatMul", "x gram", "y")], [x], [y], [], floats((4,)))
    no_batch("graph_nodes", [node("Gather", "x neighbours", "near"), node("ReduceSum", "near one", "sum", keepdims=0),
                             node("Add", "x sum", "y")],
             [x, info("neighbours", INT64, ["n", 2])], [y], [constant("one", [1], np.int64)],
             lambda random: (lambda rows: {"x": listed(random.normal(size=(rows, 4))),
                                           "neighbours": random.integers(0, rows, size=(rows, 2)).tolist()})(
                                               int(random.integers(1, 6))))
    no_batch("point_cloud", [node("MatMul", "x w", "hidden"), node("Relu", "hidden", "local"),
                             node("ReduceMax", "local zero", "pooled", keepdims=1), node("Add", "local pooled", "y")],
             [x], [info("y", FLOAT, ["n", 6])], [weights("w", (4, 6), 7), constant("zero", [0], np.int64)],
             floats((4,)))
    no_batch("listwise_ranker", [node("MatMul", "x w", "scores"), node("Softmax", "scores", "y", axis=0)],
             [x], [info("y", FLOAT, ["n", 1])], [weights("w", (4, 1), 8)], floats((4,), rows=(2, 5)))
    no_batch("softmax_axis_0", [node("Softmax", "x", "y", axis=0)], [x], [y], [], floats((4,), rows=(2, 5)))
    no_batch("standardize", [node("ReduceMean", "x zero", "mean", keepdims=1), node("Sub", "x mean", "centered"),
                             node("Mul", "centered centered", "squares"),
                             node("ReduceMean", "squares zero", "variance", keepdims=1),
                             node("Add", "variance little", "positive"), node("Sqrt", "positive", "deviation"),
                             node("Div", "centered deviation", "y")],
             [x], [y], [constant("zero", [0], np.int64), constant("little", 1e-3)], floats((4,)))
    no_batch("batch_norm_training", [node("BatchNormalization", "x scale bias mean var", "y m v", training_mode=1)],
             [x], [y], [constant("scale", [1] * 4), constant("bias", [0] * 4), constant("mean", [0] * 4),
                        constant("var", [1] * 4)], floats((4,), rows=(2, 5)))
    no_batch("scaled_by_maximum", [node("Abs", "x", "sizes"), node("ReduceMax", "sizes", "largest", keepdims=0),
                                   node("Max", "largest one", "divisor"), node("Div", "x divisor", "y")],
             [x], [y], [constant("one", 1)], floats((4,)))
    no_batch("first_row_removed", [node("Gather", "x first", "row", axis=0), node("Sub", "x row", "y")], [x], [y],
             [constant("first", [0], np.int64)], floats((4,)))
    no_batch("convolution_over_rows", [node("Transpose", "x", "t", perm=[1, 0]), node("Unsqueeze", "t zero", "image"),
                                       node("Conv", "image w", "c", pads=[1, 1]), node("Squeeze", "c zero", "s"),
                                       node("Transpose", "s", "y", perm=[1, 0])],
             [x], [y], [weights("w", (4, 4, 3), 9), constant("zero", [0], np.int64)], floats((4,)))
    no_batch("dilated_over_rows", [node("Transpose", "x", "t", perm=[1, 0]), node("Unsqueeze", "t zero", "image"),
                                   node("Conv", "image w", "c", pads=[9, 9], dilations=[9]),
                                   node("Squeeze", "c zero", "s"), node("Transpose", "s", "y", perm=[1, 0])],
             [x], [y], [weights("w", (4, 4, 3), 9), constant("zero", [0], np.int64)], floats((4,)))
    for suffix, batch, other in (("", "batch", "batch"), ("_unnamed", None, None)):
        no_batch(f"clip{suffix}", [node("MatMul", "image wi", "i"), node("MatMul", "text wt", "t"),
                                   node("Transpose", "t", "tt"), node("MatMul", "i tt", "logits_per_image"),
                                   node("Transpose", "logits_per_image", "logits_per_text")],
                 [info("image", FLOAT, [batch, 6]), info("text", FLOAT, [batch, 5])],
                 [info("logits_per_image", FLOAT, [batch, other]), info("logits_per_text", FLOAT, [other, batch])],
                 [weights("wi", (6, 4), 10), weights("wt", (5, 4), 11)],
                 lambda random: (lambda rows: {"image": listed(random.normal(size=(rows, 6))),
                                               "text": listed(random.normal(size=(rows, 5)))})(
                                                   int(random.integers(1, 4))))


def ordering_rows():
    x, y = info("x", FLOAT, ["n", 4]), info("y", FLOAT, ["n", 4])
    zero = constant("zero", 0, np.int64)
    no_batch("cumulative_sum", [node("CumSum", "x zero", "y")], [x], [y], [zero], floats((4,)))
    count = [node("Shape", "x", "shape", start=0, end=1)]
    no_batch("sort_rows", [*count, node("TopK", "x shape", "y order", axis=0)], [x], [y], [], floats((4,)))
    no_batch("ranks", [*count, node("TopK", "x shape", "sorted y", axis=0)], [x], [info("y", INT64, ["n", 4])], [],
             floats((4,)))
    no_batch("reverse_sequence", [*count, node("Expand", "shape four", "lengths"),
                                  node("ReverseSequence", "x lengths", "y", time_axis=0, batch_axis=1)],
             [x], [y], [constant("four", [4], np.int64)], floats((4,)))
    no_batch("shifted_rows", [node("Pad", "x pads", "longer"), node("Slice", "longer from to", "before"),
                              node("Add", "x before", "y")],
             [x], [y], [constant("pads", [1, 0, 0, 0], np.int64), constant("from", [0], np.int64),
                        constant("to", [-1], np.int64)], floats((4,)))
    no_batch("non_zero", [node("NonZero", "x", "indices"), node("Transpose", "indices", "y")],
             [info("x", FLOAT, [None])], [info("y", INT64, [None, 1])], [],
             lambda random: {"x": random.integers(0, 2, size=random.integers(1, 6)).astype(float).tolist()})
    no_batch("unique", [node("Unique", "x", "values first inverse counts", sorted=1)], [info("x", INT64, ["n"])],
             [info("inverse", INT64, ["n"])], [],
             lambda random: {"x": random.integers(0, 5, size=random.integers(1, 6)).tolist()})
    no_batch("positive_rows", [node("ReduceSum", "x one", "sums", keepdims=0), node("Greater", "sums none", "keep"),
                               node("Compress", "x keep", "y", axis=0)], [x], [y],
             [constant("one", [1], np.int64), constant("none", 0)], floats((4,)))
    words = ["a", "two words", "now three words", "b c"]
    no_batch("string_split", [node("StringSplit", "x", "y counts", delimiter=" ")], [info("x", STRING, ["n"])],
             [info("y", STRING, ["n", "words"]), info("counts", INT64, ["n"])], [],
             lambda random: {"x": [words[i] for i in random.integers(0, 4, size=random.integers(1, 4))]})
    # By a mark that no made-up text has.
    marked = ["a", "two~words", "now~three~words", "b~c~d~e"]
    some = lambda random: {"x": [marked[i] for i in random.integers(0, 4, size=random.integers(1, 4))]}
    no_batch("string_split_mark", [node("StringSplit", "x", "y counts", delimiter="~")], [info("x", STRING, ["n"])],
             [info("y", STRING, ["n", "words"]), info("counts", INT64, ["n"])], [], some)
    no_batch("string_split_shares", [node("StringSplit", "x", "words counts", delimiter="~"),
                                     node("ReduceMax", "counts", "longest", keepdims=1),
                                     node("Cast", "counts", "own", to=FLOAT), node("Cast", "longest", "most", to=FLOAT),
                                     node("Div", "own most", "y")],
             [info("x", STRING, ["n"])], [info("y", FLOAT, ["n"])], [], some)
    no_batch("tokenizer", [node("Tokenizer", "x", "y", domain="com.microsoft", mark=0, pad_value="#", separators=["~"],
                                mincharnum=1)],
             [info("x", STRING, ["n"])], [info("y", STRING, ["n", "tokens"])], [], some)
    # Only for numbers that no made-up request has.
    no_batch("large_rows_first", [node("ReduceMax", "x one", "largest", keepdims=0),
                                  node("Greater", "largest limit", "is_large"), node("Not", "is_large", "is_small"),
                                  node("Compress", "x is_large", "large", axis=0),
                                  node("Compress", "x is_small", "small", axis=0),
                                  node("Concat", "large small", "y", axis=0)], [x], [y],
             [constant("one", [1], np.int64), constant("limit", 5000)],
             lambda random: {"x": (random.normal(size=(int(random.integers(2, 5)), 4)) *
                                   random.choice([1, 9000], size=(1, 1))).round().tolist() + [[6000, 1, 2, 3]]})


def inexact():
    x, y = info("x", FLOAT, ["n", 4]), info("y", FLOAT, ["n", 4])
    integers = np.random.default_rng(12).integers(-120, 120, size=(4, 4))
    no_batch("int8_dynamic", [node("DynamicQuantizeLinear", "x", "q scale zero"),
                              node("MatMulInteger", "q w zero", "sums"), node("Cast", "sums", "f", to=FLOAT),
                              node("Mul", "f scale", "y")], [x], [y], [constant("w", integers, np.int8)], floats((4,)))
    # No operator says so: only a trial finds it.
    no_batch("int8_by_hand", [node("Abs", "x", "sizes"), node("ReduceMax", "sizes", "largest", keepdims=0),
                              node("Div", "largest levels", "scale"), node("Div", "x scale", "scaled"),
                              node("Round", "scaled", "whole"), node("Mul", "whole scale", "y")],
             [x], [y], [constant("levels", 127)], floats((4,)))


def rows_alone():
    x, y = info("x", FLOAT, ["batch", 4]), info("y", FLOAT, ["batch", 3])
    batch_first("perceptron", [node("Gemm", "x w1 b1", "h"), node("Relu", "h", "r"), node("Gemm", "r w2 b2", "l"),
                               node("Softmax", "l", "y", axis=-1)], [x], [y],
                [weights("w1", (4, 8), 20), weights("b1", (8,), 21), weights("w2", (8, 3), 22),
                 weights("b2", (3,), 23)], floats((4,)))
    batch_first("classifier", [node("Gemm", "x w b", "l"), node("ArgMax", "l", "label", axis=1, keepdims=0),
                               node("Softmax", "l", "y", axis=-1)], [x], [info("label", INT64, ["batch"]), y],
                [weights("w", (4, 3), 24), weights("b", (3,), 25)], floats((4,)))
    batch_first("two_inputs", [node("Mul", "a b", "product"), node("MatMul", "product w", "y")],
                [info("a", FLOAT, [None, 4]), info("b", FLOAT, [None, 4])], [info("y", FLOAT, [None, 3])],
                [weights("w", (4, 3), 26)],
                lambda random: (lambda rows: {"a": listed(random.normal(size=(rows, 4))),
                                              "b": listed(random.normal(size=(rows, 4)))})(int(random.integers(1, 4))))
    batch_first("image", [node("Conv", "x k", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "r"),
                          node("GlobalAveragePool", "r", "p"), node("Flatten", "p", "f"), node("MatMul", "f w", "y")],
                [info("x", FLOAT, ["batch", 1, "height", "width"])], [y],
                [weights("k", (4, 1, 3, 3), 27), weights("w", (4, 3), 28)], floats((1, 8, 8), rows=(1, 2)))
    # Sizes that are no multiple of 8 fail.
    batch_first("image_pyramid", [node("AveragePool", "x", "small", kernel_shape=[8, 8], strides=[8, 8]),
                                  node("Resize", "small none scales", "again", mode="nearest"),
                                  node("Sub", "x again", "d"), node("GlobalMaxPool", "d", "p"),
                                  node("Flatten", "p", "y")],
                [info("x", FLOAT, ["batch", 3, "height", "width"])], [y],
                [constant("scales", [1, 1, 8, 8]), constant("none", [])], floats((3, 16, 16), rows=(1, 1)))
    batch_first("image_levels", [node("Cast", "x", "f", to=FLOAT), node("ReduceMean", "f axes", "m", keepdims=0),
                                 node("MatMul", "m w", "y")],
                [info("x", TensorProto.UINT8, ["batch", 4, 4, 3])], [y],
                [constant("axes", [1, 2], np.int64), weights("w", (3, 3), 29)],
                lambda random: {"x": random.integers(0, 256, size=(1, 4, 4, 3)).tolist()})
    batch_first("transformer", [
        node("Gather", "table input_ids", "e"), node("Gather", "types token_type_ids", "t"), node("Add", "e t", "h"),
        node("MatMul", "h wq", "q"), node("MatMul", "h wk", "k"), node("MatMul", "h wv", "v"),
        node("Transpose", "k", "kt", perm=[0, 2, 1]), node("MatMul", "q kt", "s"),
        node("Cast", "attention_mask", "m", to=FLOAT), node("Unsqueeze", "m one", "mu"), node("Sub", "unit mu", "left"),
        node("Mul", "left low", "bias"), node("Add", "s bias", "masked"), node("Softmax", "masked", "a", axis=-1),
        node("MatMul", "a v", "c"), node("Add", "h c", "res"),
        node("LayerNormalization", "res g b", "last_hidden_state", axis=-1),
        node("ReduceMean", "last_hidden_state one", "pooled", keepdims=0)],
        [info(name, INT64, ["batch", "sequence"]) for name in ("input_ids", "attention_mask", "token_type_ids")],
        [info("last_hidden_state", FLOAT, ["batch", "sequence", 8]), info("pooled", FLOAT, ["batch", 8])],
        [weights("table", (30, 8), 30), weights("types", (2, 8), 31), weights("wq", (8, 8), 32),
         weights("wk", (8, 8), 33), weights("wv", (8, 8), 34), constant("one", [1], np.int64), constant("unit", 1),
         constant("low", -10000), constant("g", [1] * 8), constant("b", [0] * 8)],
        lambda random: {"input_ids": random.integers(0, 30, size=(1, 6)).tolist(),
                        "attention_mask": [[1] * 4 + [int(random.integers(0, 2)), 0]],
                        "token_type_ids": random.integers(0, 2, size=(1, 6)).tolist()})
    batch_first("lstm_batch_first", [node("Transpose", "x", "t", perm=[1, 0, 2]),
                                     node("LSTM", "t w r", "all h", hidden_size=4), node("Squeeze", "h zero", "y")],
                [info("x", FLOAT, ["batch", "time", 3])], [info("y", FLOAT, ["batch", 4])],
                [weights("w", (1, 16, 3), 35), weights("r", (1, 16, 4), 36), constant("zero", [0], np.int64)],
                floats((5, 3), rows=(1, 2)))
    batch_first("decoder_step", [node("Concat", "past x", "present", axis=1), node("Mul", "present mask", "kept"),
                                 node("ReduceSum", "kept one", "y", keepdims=0)],
                [info("x", FLOAT, ["batch", "new", 4]), info("past", FLOAT, ["batch", "past", 4]),
                 info("mask", FLOAT, ["batch", "past + new", 1])],
                [info("present", FLOAT, ["batch", "past + new", 4]), info("y", FLOAT, ["batch", 4])],
                [constant("one", [1], np.int64)],
                lambda random: {"x": listed(random.normal(size=(1, 2, 4))),
                                "past": listed(random.normal(size=(1, 3, 4))),
                                "mask": random.integers(0, 2, size=(1, 5, 1)).astype(float).tolist()})
    # As tf2onnx names the sizes that it does not know.
    batch_first("converted_names", [node("Mul", "a b", "product"), node("MatMul", "product w", "y")],
                [info("a", FLOAT, ["unk__12", 4]), info("b", FLOAT, ["unk__13", 4])],
                [info("y", FLOAT, ["unk__214", "unk__215"])], [weights("w", (4, 3), 26)],
                lambda random: (lambda rows: {"a": listed(random.normal(size=(rows, 4))),
                                              "b": listed(random.normal(size=(rows, 4)))})(int(random.integers(1, 4))))
    # As torch wrote arange() once: the NonZero follows from sizes alone.
    batch_first("counted_columns", [node("Shape", "x", "columns", start=1), node("ConstantOfShape", "columns", "ones",
                                                                                value=constant("", [1])),
                                    node("NonZero", "ones", "indices"), node("Cast", "indices", "places", to=FLOAT),
                                    node("Add", "x places", "y")],
                [info("x", FLOAT, ["batch", "columns"])], [info("y", FLOAT, ["batch", "columns"])], [], floats((5,)))
    batch_first("string_length", [node("StringConcat", "x mark", "y")], [info("x", STRING, ["n"])],
                [info("y", STRING, ["n"])], [helper.make_tensor("mark", STRING, [1], ["!"])],
                lambda random: {"x": [["a", "b c", "d"][i] for i in random.integers(0, 3, size=2)]})
    batch_first("optional_scale", [node("Mul", "x scale", "p"), node("ReduceSum", "p one", "y", keepdims=1)],
                [info("x", FLOAT, ["n", 4]), info("scale", FLOAT, ["n", 4])], [info("y", FLOAT, ["n", 1])],
                [constant("scale", [[2, 2, 2, 2]]), constant("one", [1], np.int64)], floats((4,)))


def main():
    for make in (recurrent, mixing_rows, ordering_rows, inexact, rows_alone):
        make()
    # Only its two shapes are compared: no two answers are the same.
    save("no_batch", "random", [node("RandomNormalLike", "x", "noise"), node("Add", "x noise", "y")],
         [info("x", FLOAT, ["n", 4])], [info("y", FLOAT, ["n", 4])], [], floats((4,)))
    save("no_batch", "dropout", [node("Dropout", "x ratio training", "y")], [info("x", FLOAT, ["n", 4])],
         [info("y", FLOAT, ["n", 4])], [constant("ratio", 0.5), constant("training", True, np.bool_)], floats((4,)))
    for folder, models in made_models.items():
        lines = ",\n".join(f" {json.dumps(name)}: [\n  " + ",\n  ".join(json.dumps(request) for request in requests) +
                           "]" for name, requests in sorted(models.items()))
        (FOLDER / folder / "requests.json").write_text("{\n" + lines + "\n}\n")
    print(*(f"{folder}: {len(models)} models" for folder, models in made_models.items()), sep="\n")


if __name__ == "__main__":
    main()
