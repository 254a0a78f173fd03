"""ONNX files and folders with random weights, written where they are needed: shapes decide the speed."""

import pathlib
import sys

import numpy

FLOAT, INTEGER_KIND, INTEGERS_KIND = 1, 2, 7
SPREAD_OF_RELU = 2.0


def number(value):
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(tag, value):
    """One field of a protocol buffer: a number, a text, or the bytes of a message."""
    if isinstance(value, int):
        return number(tag << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(tag << 3 | 2) + number(len(data)) + data


def attribute(name, value):
    if isinstance(value, int):
        return field(1, name) + field(3, value) + field(20, INTEGER_KIND)
    return field(1, name) + b"".join(field(8, one) for one in value) + field(20, INTEGERS_KIND)


def value_info(name, shape):
    dimensions = b"".join(field(1, field(2, size) if isinstance(size, str) else field(1, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, FLOAT) + field(2, dimensions)))


class Graph:
    """Nodes and weights in the order in which they are added."""

    def __init__(self, seed=1):
        self.source, self.nodes, self.weights_written, self.count = numpy.random.default_rng(seed), [], [], 0

    def weights(self, shape):
        """Normal numbers that keep the spread of what they are multiplied with."""
        self.count += 1
        inner = int(numpy.prod(shape[1:])) if len(shape) > 1 else 1
        spread = (SPREAD_OF_RELU / inner) ** 0.5 if len(shape) > 1 else 0.0
        values = (self.source.standard_normal(shape, numpy.float32) * numpy.float32(spread)).astype("<f4")
        name = f"w{self.count}"
        self.weights_written.append(b"".join(field(1, size) for size in shape) + field(2, FLOAT) + field(8, name) + field(9, values.tobytes()))
        return name

    def node(self, operator, inputs, **attributes):
        self.count += 1
        name = f"v{self.count}"
        self.nodes.append(b"".join(field(1, one) for one in inputs) + field(2, name) + field(3, f"n{self.count}") + field(4, operator)
                          + b"".join(field(5, attribute(key, value)) for key, value in attributes.items()))
        return name

    def write(self, file, inputs, output, shape):
        """inputs: name to shape; a size may be a name."""
        graph = (b"".join(field(1, node) for node in self.nodes) + field(2, "graph") + b"".join(field(5, one) for one in self.weights_written)
                 + b"".join(field(11, value_info(name, sizes)) for name, sizes in inputs.items()) + field(12, value_info(output, shape)))
        pathlib.Path(file).write_bytes(field(1, 8) + field(2, "gpux") + field(7, graph) + field(8, field(1, "") + field(2, 13)))
        return file


def convolution(graph, value, channels, wide, size, stride):
    return graph.node("Conv", [value, graph.weights([wide, channels, size, size]), graph.weights([wide])], kernel_shape=[size, size],
                      pads=[size // 2] * 4, strides=[stride, stride])


def bottleneck(graph, value, channels, width, stride):
    inner = graph.node("Relu", [convolution(graph, value, channels, width, 1, 1)])
    inner = graph.node("Relu", [convolution(graph, inner, width, width, 3, stride)])
    inner = convolution(graph, inner, width, 4 * width, 1, 1)
    same = value if channels == 4 * width and stride == 1 else convolution(graph, value, channels, 4 * width, 1, stride)
    return graph.node("Relu", [graph.node("Add", [inner, same])])


def write_resnet50(file):
    graph = Graph()
    value = graph.node("Relu", [convolution(graph, "data", 3, 64, 7, 2)])
    value = graph.node("MaxPool", [value], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    channels = 64
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for block in range(blocks):
            value = bottleneck(graph, value, channels, width, 2 if block == 0 and width != 64 else 1)
            channels = 4 * width
    value = graph.node("Flatten", [graph.node("GlobalAveragePool", [value])], axis=1)
    value = graph.node("Gemm", [value, graph.weights([1000, channels]), graph.weights([1000])], transB=1)
    return graph.write(file, {"data": ["images", 3, 224, 224]}, value, ["images", 1000])


def write_product(file, size):
    """One matrix product, whose error tells the precision that was computed in. Returns the matrix."""
    graph = Graph()
    name = graph.weights([size, size])
    matrix = numpy.frombuffer(graph.weights_written[-1][-4 * size * size :], "<f4").reshape(size, size)
    graph.write(file, {"x": ["rows", size]}, graph.node("MatMul", ["x", name]), ["rows", size])
    return matrix


def write_bert_base(root, tokenizer, folder):
    """As bench/encoder writes it."""
    sys.path.insert(0, str(root / "bench/encoder"))
    import random_encoder

    random_encoder.write("bert-base", tokenizer, folder)
    return folder
