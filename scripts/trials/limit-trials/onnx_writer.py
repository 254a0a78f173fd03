"""Small ONNX models for the trials, as protobuf has them."""


def varint(number):
    number &= (1 << 64) - 1
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def value_info(name, element, shape):
    dimensions = b"".join(field(1, field(2, size) if isinstance(size, str) else field(1, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, element) + field(2, dimensions)))


def node(operator, inputs, outputs, attributes=()):
    text = b"".join(field(1, name) for name in inputs) + b"".join(field(2, name) for name in outputs) + field(4, operator)
    for name, kind, value in attributes:
        values = value if isinstance(value, list) else [value]
        text += field(5, field(1, name) + b"".join(field(8 if kind == 7 else 3, one) for one in values) + field(20, kind))
    return text


def onnx(nodes, inputs, outputs, initializers=()):
    graph = b"".join(field(1, one) for one in nodes) + field(2, "g")
    graph += b"".join(field(5, one) for one in initializers)
    graph += b"".join(field(11, one) for one in inputs) + b"".join(field(12, one) for one in outputs)
    return field(1, 7) + field(8, field(1, "") + field(2, 11)) + field(7, graph)


FLOAT, INT64 = 1, 7
