"""Trains a small convolutional net on 8x8 handwritten digits, in plain NumPy, and writes what this folder holds.

Run it as README.md says; it needs numpy, onnx and scikit-learn (whose copy of the UCI digits is the data).
"""

import json
import pathlib
import platform
import struct
import zlib

import numpy as np
import onnx
import sklearn
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = pathlib.Path(__file__).parent
SEED = 7
EPOCHS = 60
BATCH = 64
LEARNING_RATE = 2e-3


def windows(x):
    """[N,C,H,W] to the 3x3 neighbourhood of each pixel, zero outside: [N,H,W,C*9]."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    view = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    n, c, h, w = x.shape
    return view.transpose(0, 2, 3, 1, 4, 5).reshape(n, h, w, c * 9)


class Convolution:
    def __init__(self, rng, inputs, outputs):
        self.weight = rng.normal(0, np.sqrt(2 / (inputs * 9)), (outputs, inputs, 3, 3)).astype(np.float32)
        self.bias = np.zeros(outputs, np.float32)

    def forward(self, x):
        self.shape, self.columns = x.shape, windows(x)
        y = self.columns @ self.weight.reshape(len(self.bias), -1).T + self.bias
        return y.transpose(0, 3, 1, 2)

    def backward(self, gradient):
        g = gradient.transpose(0, 2, 3, 1)
        flat = g.reshape(-1, len(self.bias))
        self.gradients = [
            (flat.T @ self.columns.reshape(len(flat), -1)).reshape(self.weight.shape),
            flat.sum(0),
        ]
        n, c, h, w = self.shape
        columns = (g @ self.weight.reshape(len(self.bias), -1)).reshape(n, h, w, c, 3, 3)
        padded = np.zeros((n, c, h + 2, w + 2), np.float32)
        for i in range(3):
            for j in range(3):
                padded[:, :, i : i + h, j : j + w] += columns[..., i, j].transpose(0, 3, 1, 2)
        return padded[:, :, 1:-1, 1:-1]

    def parameters(self):
        return [self.weight, self.bias]


class Relu:
    def forward(self, x):
        self.positive = x > 0
        return x * self.positive

    def backward(self, gradient):
        return gradient * self.positive

    def parameters(self):
        return []


class MaxPool:
    def forward(self, x):
        n, c, h, w = x.shape
        blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
        y = blocks.max((3, 5))
        # where two pixels tie, both get the gradient
        self.chosen = blocks == y[:, :, :, None, :, None]
        return y

    def backward(self, gradient):
        g = self.chosen * gradient[:, :, :, None, :, None]
        n, c, h, _, w, _ = g.shape
        return g.reshape(n, c, h * 2, w * 2)

    def parameters(self):
        return []


class Linear:
    def __init__(self, rng, inputs, outputs):
        self.weight = rng.normal(0, np.sqrt(1 / inputs), (outputs, inputs)).astype(np.float32)
        self.bias = np.zeros(outputs, np.float32)

    def forward(self, x):
        self.shape, self.flat = x.shape, x.reshape(len(x), -1)
        return self.flat @ self.weight.T + self.bias

    def backward(self, gradient):
        self.gradients = [gradient.T @ self.flat, gradient.sum(0)]
        return (gradient @ self.weight).reshape(self.shape)

    def parameters(self):
        return [self.weight, self.bias]


class Adam:
    def __init__(self, parameters):
        self.parameters = parameters
        self.mean = [np.zeros_like(p) for p in parameters]
        self.square = [np.zeros_like(p) for p in parameters]
        self.steps = 0

    def step(self, gradients, rate):
        self.steps += 1
        for p, g, m, s in zip(self.parameters, gradients, self.mean, self.square):
            m += 0.1 * (g - m)
            s += 0.001 * (g * g - s)
            p -= rate * (m / (1 - 0.9**self.steps)) / (np.sqrt(s / (1 - 0.999**self.steps)) + 1e-8)


def network(rng):
    return [
        Convolution(rng, 1, 16),
        Relu(),
        MaxPool(),
        Convolution(rng, 16, 32),
        Relu(),
        MaxPool(),
        Linear(rng, 32 * 2 * 2, 10),
    ]


def forward(layers, x):
    for layer in layers:
        x = layer.forward(x)
    return x


def shifted(rng, images):
    """Every other image moved by at most one pixel each way: the net should not care."""
    moves = rng.integers(-1, 2, (len(images), 2)) * rng.integers(0, 2, (len(images), 1))
    out = np.zeros_like(images)
    for image, to, (dy, dx) in zip(images, out, moves):
        to[0] = np.roll(image[0], (dy, dx), (0, 1))
        if dy:
            to[0, 0 if dy > 0 else -1] = 0
        if dx:
            to[0, :, 0 if dx > 0 else -1] = 0
    return out


def train(images, labels):
    rng = np.random.default_rng(SEED)
    layers = network(rng)
    adam = Adam([p for layer in layers for p in layer.parameters()])
    for epoch in range(EPOCHS):
        order = rng.permutation(len(images))
        rate = LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            logits = forward(layers, shifted(rng, images[rows]))
            odds = np.exp(logits - logits.max(1, keepdims=True))
            gradient = odds / odds.sum(1, keepdims=True)
            gradient[np.arange(len(rows)), labels[rows]] -= 1
            gradient = (gradient / len(rows)).astype(np.float32)
            for layer in reversed(layers):
                gradient = layer.backward(gradient)
            adam.step([g for layer in layers if layer.parameters() for g in layer.gradients], rate)
    return layers


def export(layers, path):
    first, _, _, second, _, _, last = layers
    constants = {
        "sixteen": np.array(16, np.float32),
        "conv1.weight": first.weight,
        "conv1.bias": first.bias,
        "conv2.weight": second.weight,
        "conv2.bias": second.bias,
        "linear.weight": last.weight,
        "linear.bias": last.bias,
    }
    convolution = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Div", ["image", "sixteen"], ["scaled"], "scale"),
        helper.make_node("Conv", ["scaled", "conv1.weight", "conv1.bias"], ["c1"], "conv1", **convolution),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("MaxPool", ["r1"], ["p1"], "pool1", **pool),
        helper.make_node("Conv", ["p1", "conv2.weight", "conv2.bias"], ["c2"], "conv2", **convolution),
        helper.make_node("Relu", ["c2"], ["r2"], "relu2"),
        helper.make_node("MaxPool", ["r2"], ["p2"], "pool2", **pool),
        helper.make_node("Flatten", ["p2"], ["flat"], "flatten", axis=1),
        helper.make_node("Gemm", ["flat", "linear.weight", "linear.bias"], ["logits"], "linear", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, producer_name="gpux digits example", opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def png(pixels):
    """An 8-bit grey PNG, 16 as 255."""
    grey = np.rint(pixels * 255 / 16).astype(np.uint8)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + row.tobytes() for row in grey)
    header = struct.pack(">IIBBBBB", grey.shape[1], grey.shape[0], 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def main():
    data = load_digits()
    images = data.images.astype(np.float32).reshape(-1, 1, 8, 8)
    train_x, held_x, train_y, held_y = train_test_split(
        images, data.target, test_size=0.2, random_state=SEED, stratify=data.target
    )
    layers = train(train_x / 16, train_y)
    answers = forward(layers, held_x / 16).argmax(1)
    right = int((answers == held_y).sum())
    print(f"held-out accuracy: {right / len(held_y):.4f} ({right} of {len(held_y)}; trained on {len(train_y)})")
    print(
        f"Python {platform.python_version()}, numpy {np.__version__}, onnx {onnx.__version__},"
        f" scikit-learn {sklearn.__version__}"
    )

    export(layers, HERE / "digits.onnx")
    for label in range(10):
        # an example should show the usual case: the first that is read right
        digit = held_x[np.flatnonzero((held_y == label) & (answers == label))[0]][None]
        np.save(HERE / f"digit-{label}.npy", digit)
        (HERE / f"digit-{label}.png").write_bytes(png(digit[0, 0]))
        if label == 3:
            (HERE / "digit-3.json").write_text(json.dumps({"image": digit.astype(int).tolist()}) + "\n")


if __name__ == "__main__":
    main()
