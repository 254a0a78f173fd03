#!/usr/bin/env python3
"""Writes the small models that the tests run, beside this script. They are committed: run it only to change them.

Needs the Python packages onnx (1.23 or newer) and numpy; looks for them in .deps/python as well.
README.md lists what each model computes.
"""

import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.append(str(FOLDER.parents[1] / ".deps" / "python"))

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 21
IR_VERSION = 10
UNKNOWN_RANK = "unknown rank"


def tensor_info(name, element, shape, doc=""):
    if shape == UNKNOWN_RANK:
        return helper.make_tensor_value_info(name, element, None, doc)
    return helper.make_tensor_value_info(name, element, shape, doc)


def constant(name, values, dtype=np.float32):
    return numpy_helper.from_array(np.asarray(values, dtype=dtype), name)


def save(name, nodes, inputs, outputs, initializers=(), *, opset=OPSET, ir_version=IR_VERSION, ml=False, functions=(),
         extra_opsets=(), doc="", metadata=None, check=True):
    opsets = [helper.make_opsetid("", opset), *extra_opsets]
    if ml:
        opsets.append(helper.make_opsetid("ai.onnx.ml", 3))
    graph = helper.make_graph(nodes, name, inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=opsets, functions=list(functions), producer_name="gpux-tests",
                              producer_version="1", doc_string=doc)
    model.ir_version = ir_version
    if metadata:
        helper.set_model_props(model, metadata)
    path = FOLDER / f"{name}.onnx"
    path.write_bytes(model.SerializeToString(deterministic=True))
    if check:
        onnx.checker.check_model(str(path))


def add():
    save("add", [helper.make_node("Add", ["x", "offset"], ["y"])],
         [tensor_info("x", TensorProto.FLOAT, ["batch", 3], "three numbers")],
         [tensor_info("y", TensorProto.FLOAT, ["batch", 3])],
         [constant("offset", [1, 2, 3])],
         doc="adds 1, 2, 3", metadata={"author": "gpux", "licence": "Apache-2.0"})


# Each element type, how it goes from x to y on ORT's processor provider, and the opset and IR version that takes.
IDENTITIES = {
    **{name: ("Identity", OPSET, IR_VERSION) for name in (
        "float", "double", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
        "uint64", "bool", "string", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "complex64")},
    **{name: ("Transpose", OPSET, IR_VERSION) for name in ("int4", "uint4")},
    **{name: ("Transpose", 25, 13) for name in ("int2", "uint2")},
    # No operator of that provider moves these: the input is the output.
    "float4e2m1": (None, 23, 11), "float8e8m0": (None, 24, 12),
}


def identities():
    gpux_names = {"float": "float32", "double": "float64"}
    for name, (operator, opset, ir_version) in IDENTITIES.items():
        element = TensorProto.DataType.Value(name.upper())
        nodes = [helper.make_node(operator, ["x"], ["y"])] if operator else []
        save(f"identity_{gpux_names.get(name, name)}", nodes, [tensor_info("x", element, ["n"])],
             [tensor_info("y" if operator else "x", element, ["n"])], opset=opset, ir_version=ir_version)


def matmul_chain():
    random = np.random.default_rng(1)
    nodes, weights, previous = [], [], "x"
    for layer in range(4):
        weights.append(constant(f"w{layer}", random.normal(size=(16, 16)) / 4))
        output = "y" if layer == 3 else f"h{layer}"
        nodes.append(helper.make_node("MatMul", [previous, f"w{layer}"], [output], name=f"matmul_{layer}"))
        previous = output
    save("matmul_chain", nodes, [tensor_info("x", TensorProto.FLOAT, [1, 16])],
         [tensor_info("y", TensorProto.FLOAT, [1, 16])], weights)


def maps():
    for suffix, key, labels in (("int64", TensorProto.INT64, {"classlabels_int64s": [10, 20, 30]}),
                                ("string", TensorProto.STRING, {"classlabels_strings": ["cat", "dog", "eel"]})):
        save(f"zipmap_{suffix}", [helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", **labels)],
             [tensor_info("x", TensorProto.FLOAT, ["batch", 3])],
             [helper.make_value_info("y", helper.make_sequence_type_proto(helper.make_map_type_proto(
                 key, helper.make_tensor_type_proto(TensorProto.FLOAT, []))))], ml=True)
    save("map_input", [helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml",
                                        string_vocabulary=["cat", "dog", "eel"])],
         [helper.make_value_info("x", helper.make_map_type_proto(
             TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, [])))],
         [tensor_info("y", TensorProto.FLOAT, [1, 3])], ml=True)


def sequences_and_optionals():
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"])
    save("sequence_output", [helper.make_node("SequenceConstruct", ["a", "b"], ["y"])],
         [tensor_info("a", TensorProto.FLOAT, ["n"]), tensor_info("b", TensorProto.FLOAT, ["n"])],
         [helper.make_value_info("y", helper.make_sequence_type_proto(tensor))])
    save("sequence_input", [helper.make_node("ConcatFromSequence", ["x"], ["y"], axis=0)],
         [helper.make_value_info("x", helper.make_sequence_type_proto(tensor))],
         [tensor_info("y", TensorProto.FLOAT, ["total"])])
    optional = helper.make_optional_type_proto(tensor)
    has = helper.make_node("OptionalHasElement", ["x"], ["has"])
    present = helper.make_graph([helper.make_node("OptionalGetElement", ["x"], ["given"])], "present", [],
                                [tensor_info("given", TensorProto.FLOAT, ["n"])])
    absent = helper.make_graph([helper.make_node("Constant", [], ["fallback"], value=constant("", [-1]))], "absent", [],
                               [tensor_info("fallback", TensorProto.FLOAT, [1])])
    choose = helper.make_node("If", ["has"], ["y"], then_branch=present, else_branch=absent)
    save("optional_input", [has, choose], [helper.make_value_info("x", optional)],
         [tensor_info("y", TensorProto.FLOAT, ["m"])])
    save("optional_output", [helper.make_node("Optional", ["x"], ["y"])], [tensor_info("x", TensorProto.FLOAT, ["n"])],
         [helper.make_value_info("y", optional)])
    save("optional_none", [helper.make_node("Optional", [], ["y"], type=tensor)],
         [tensor_info("x", TensorProto.FLOAT, ["n"])], [helper.make_value_info("y", optional)])


def defaults():
    mul = [helper.make_node("Mul", ["x", "scale"], ["y"])]
    x, y = tensor_info("x", TensorProto.FLOAT, ["n"]), tensor_info("y", TensorProto.FLOAT, ["n"])
    scale = tensor_info("scale", TensorProto.FLOAT, [1])
    save("scale_default", mul, [x, scale], [y], [constant("scale", [2])])
    # Before IR 4 every initializer had to be listed as an input.
    save("scale_ir3", mul, [x, scale], [y], [constant("scale", [2])], opset=8, ir_version=3)


def shapes():
    save("dynamic_unnamed", [helper.make_node("Relu", ["x"], ["y"])], [tensor_info("x", TensorProto.FLOAT, [None, None])],
         [tensor_info("y", TensorProto.FLOAT, [None, None])])
    save("unknown_rank", [helper.make_node("Relu", ["x"], ["y"])], [tensor_info("x", TensorProto.FLOAT, UNKNOWN_RANK)],
         [tensor_info("y", TensorProto.FLOAT, UNKNOWN_RANK)], check=False)  # the checker wants a shape, ORT does not
    save("scalar", [helper.make_node("Neg", ["x"], ["y"])], [tensor_info("x", TensorProto.FLOAT, [])],
         [tensor_info("y", TensorProto.FLOAT, [])])
    save("divide", [helper.make_node("Div", ["a", "b"], ["y"])],
         [tensor_info("a", TensorProto.FLOAT, ["n"]), tensor_info("b", TensorProto.FLOAT, ["n"])],
         [tensor_info("y", TensorProto.FLOAT, ["n"])])
    save("gather", [helper.make_node("Gather", ["table", "index"], ["y"])],
         [tensor_info("index", TensorProto.INT64, ["n"])],
         [tensor_info("y", TensorProto.FLOAT, ["n"])], [constant("table", [10, 20, 30])])


def failing_on_values():
    save("reshape", [helper.make_node("Reshape", ["x", "shape"], ["y"], name="fold")],
         [tensor_info("x", TensorProto.FLOAT, ["n"]), tensor_info("shape", TensorProto.INT64, ["rank"])],
         [tensor_info("y", TensorProto.FLOAT, UNKNOWN_RANK)], check=False)
    save("any", [helper.make_node("ReduceMax", ["x"], ["y"], name="largest", keepdims=0)],
         [tensor_info("x", TensorProto.BOOL, ["n"])], [tensor_info("y", TensorProto.BOOL, [])])


def external_tensor(name, shape, location, offset, length):
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def external_data():
    gemm = [helper.make_node("Gemm", ["x", "weight", "bias"], ["y"])]
    x, y = tensor_info("x", TensorProto.FLOAT, ["batch", 3]), tensor_info("y", TensorProto.FLOAT, ["batch", 2])
    weight, bias = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([100, 200], dtype=np.float32)
    (FOLDER / "external_weight.bin").write_bytes(bytes(64) + weight.tobytes())
    (FOLDER / "external_bias.bin").write_bytes(bias.tobytes())
    save("external_data", gemm, [x], [y], [external_tensor("weight", [3, 2], "external_weight.bin", 64, 24),
                                           external_tensor("bias", [2], "external_bias.bin", 0, 8)])
    for name, location in (("external_missing", "no_such_file.bin"), ("external_outside", "../outside.bin"),
                           ("external_absolute", "/etc/passwd")):
        save(name, gemm, [x], [y], [external_tensor("weight", [3, 2], "external_weight.bin", 64, 24),
                                    external_tensor("bias", [2], location, 0, 8)], check=False)


def strings():
    save("string_concat", [helper.make_node("StringConcat", ["x", "mark"], ["y"])],
         [tensor_info("x", TensorProto.STRING, ["n"])], [tensor_info("y", TensorProto.STRING, ["n"])],
         [helper.make_tensor("mark", TensorProto.STRING, [1], ["!"])])


def branch():
    def side(name, op):
        return helper.make_graph([helper.make_node(op, ["x", "two"], [name])], name, [],
                                 [tensor_info(name, TensorProto.FLOAT, ["n"])])
    save("branch", [helper.make_node("If", ["double"], ["y"], then_branch=side("doubled", "Mul"),
                                     else_branch=side("halved", "Div"))],
         [tensor_info("x", TensorProto.FLOAT, ["n"]), tensor_info("double", TensorProto.BOOL, [])],
         [tensor_info("y", TensorProto.FLOAT, ["n"])], [constant("two", [2])])


def local_function():
    domain = "gpux.test"
    function = helper.make_function(domain, "MulAdd", ["a", "b", "c"], ["r"],
                                    [helper.make_node("Mul", ["a", "b"], ["product"]),
                                     helper.make_node("Add", ["product", "c"], ["r"])],
                                    [helper.make_opsetid("", OPSET)])
    save("local_function", [helper.make_node("MulAdd", ["x", "x", "one"], ["y"], domain=domain)],
         [tensor_info("x", TensorProto.FLOAT, ["n"])], [tensor_info("y", TensorProto.FLOAT, ["n"])],
         [constant("one", [1])], functions=[function], extra_opsets=[helper.make_opsetid(domain, 1)])


def refused():
    io = [tensor_info("x", TensorProto.FLOAT, ["n"])], [tensor_info("y", TensorProto.FLOAT, ["n"])]
    save("opset_too_new", [helper.make_node("Relu", ["x"], ["y"])], *io, opset=999, check=False)
    save("unknown_operator", [helper.make_node("NoSuchOperator", ["x"], ["y"])], *io, check=False)
    save("unknown_domain", [helper.make_node("Mystery", ["x"], ["y"], domain="com.example")], *io,
         extra_opsets=[helper.make_opsetid("com.example", 1)], check=False)


def custom_operators():
    """What tests/custom_operators/hostile_operators.cpp computes, and what onnxruntime-extensions does."""
    save("string_upper", [helper.make_node("StringUpper", ["x"], ["y"], domain="ai.onnx.contrib")],
         [tensor_info("x", TensorProto.STRING, ["n"])], [tensor_info("y", TensorProto.STRING, ["n"])],
         extra_opsets=[helper.make_opsetid("ai.onnx.contrib", 1)], check=False)
    save("attempt", [helper.make_node("Attempt", ["what"], ["result"], domain="gpux.test")],
         [tensor_info("what", TensorProto.STRING, ["n"])], [tensor_info("result", TensorProto.STRING, ["n"])],
         extra_opsets=[helper.make_opsetid("gpux.test", 1)], check=False)


def slow():
    body = helper.make_graph(
        [helper.make_node("Identity", ["go_on"], ["go_on_out"]),
         helper.make_node("MatMul", ["state", "rotation"], ["turned"]),
         helper.make_node("Tanh", ["turned"], ["state_out"])],
        "body",
        [tensor_info("iteration", TensorProto.INT64, []), tensor_info("go_on", TensorProto.BOOL, []),
         tensor_info("state", TensorProto.FLOAT, [16, 16])],
        [tensor_info("go_on_out", TensorProto.BOOL, []), tensor_info("state_out", TensorProto.FLOAT, [16, 16])])
    rotation = np.linalg.qr(np.random.default_rng(2).normal(size=(16, 16)))[0]
    save("slow", [helper.make_node("Loop", ["iterations", "", "x"], ["y"], body=body)],
         [tensor_info("x", TensorProto.FLOAT, [16, 16]), tensor_info("iterations", TensorProto.INT64, [])],
         [tensor_info("y", TensorProto.FLOAT, [16, 16])], [constant("rotation", rotation)])


def multiply():
    save("multiply", [helper.make_node("Mul", ["a", "b"], ["product"], name="mul"),
                      helper.make_node("Relu", ["product"], ["y"], name="relu")],
         [tensor_info("a", TensorProto.FLOAT, [3]), tensor_info("b", TensorProto.FLOAT, [3])],
         [tensor_info("y", TensorProto.FLOAT, [3])], opset=17, ir_version=8)


def split():
    random = np.random.default_rng(3)
    save("split", [
        helper.make_node("Conv", ["x", "kernel", "kernel_bias"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Reshape", ["r", "matrices"], ["m"], name="reshape"),
        helper.make_node("MatMul", ["m", "mix"], ["p"], name="matmul"),
        helper.make_node("Det", ["p"], ["d"], name="det"),
        helper.make_node("Reshape", ["d", "row"], ["f"], name="flatten"),
        helper.make_node("MatMul", ["f", "head"], ["logits"], name="head_matmul"),
        helper.make_node("Softmax", ["logits"], ["y"], name="softmax")],
        [tensor_info("x", TensorProto.FLOAT, [1, 1, 4, 4])], [tensor_info("y", TensorProto.FLOAT, [1, 3])],
        [constant("kernel", random.normal(size=(4, 1, 3, 3))), constant("kernel_bias", [0.5, 0.5, 0.5, 0.5]),
         constant("matrices", [4, 4, 4], np.int64), constant("mix", 3 * np.eye(4) + random.normal(size=(4, 4))),
         constant("row", [1, 4], np.int64), constant("head", random.normal(size=(4, 3)) / 20)], opset=17, ir_version=8)


# What each row comes to where its mask is 1; values and mask of several rows may be filled up behind.
def masked_sum():
    save("masked_sum", [helper.make_node("Mul", ["values", "mask"], ["counted"]),
                        helper.make_node("ReduceSum", ["counted", "axis"], ["total"], keepdims=0),
                        helper.make_node("Mul", ["values", "two"], ["doubled"])],
         [tensor_info("values", TensorProto.FLOAT, ["batch", "seq"]),
          tensor_info("mask", TensorProto.FLOAT, ["batch", "seq"])],
         [tensor_info("total", TensorProto.FLOAT, ["batch"]),
          tensor_info("doubled", TensorProto.FLOAT, ["batch", "seq"])],
         [constant("axis", [1], np.int64), constant("two", 2)])


# Graph inputs that are graph outputs, too: ONNX Runtime answers with the memory of the input.
def pass_through():
    x = tensor_info("x", TensorProto.FLOAT, ["batch", 3])
    save("pass_through", [helper.make_node("Add", ["x", "one"], ["y"])], [x],
         [x, tensor_info("y", TensorProto.FLOAT, ["batch", 3])], [constant("one", [1])])
    floats = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"])
    strings = helper.make_tensor_type_proto(TensorProto.STRING, ["n"])
    kinds = {"sequence": helper.make_sequence_type_proto(floats),
             "sequence_string": helper.make_sequence_type_proto(strings),
             "optional": helper.make_optional_type_proto(floats),
             "optional_sequence": helper.make_optional_type_proto(helper.make_sequence_type_proto(floats))}
    # Converters of scikit-learn models declare one value of a map as a tensor of one element.
    values = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64,
              "string": TensorProto.STRING}
    for key_name, key in (("string", TensorProto.STRING), ("int64", TensorProto.INT64)):
        for value_name, value in values.items():
            one = helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, [1]))
            kinds[f"map_{key_name}_{value_name}"] = one
            if value_name == "float32":
                kinds[f"sequence_map_{key_name}"] = helper.make_sequence_type_proto(one)
    kinds["sparse"] = helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [2, 2])
    for name, kind in kinds.items():
        x = helper.make_value_info("x", kind)
        save(f"pass_through_{name}", [], [x], [x])


def main():
    for make in (add, identities, matmul_chain, maps, sequences_and_optionals, defaults, shapes, failing_on_values,
                 external_data, strings, branch, local_function, refused, custom_operators, slow, multiply, split,
                 masked_sum, pass_through):
        make()


if __name__ == "__main__":
    main()
