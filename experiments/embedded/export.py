"""Turn trained weights into the models and data that ship inside soundsmooth.

    python export.py --data DIR --weights DIR --out ../../src/soundsmooth/embedded

Reads fashion_mnist_sigma*.safetensors from the weights folder (written by train.py)
and writes one self-contained ONNX file for each, the first 1000 test images with
their labels, and the licence notice of Fashion-MNIST.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from train import CLASSES, SHIPPED, ResidualBlock, ResidualNet, load_network, load_split

OPSET = 17
IR_VERSION = 8

LICENSE = """\
fashion_mnist.npz holds the first 1000 test images of Fashion-MNIST and their labels,
unchanged, and the ONNX models in this folder were trained on its training images.
https://github.com/zalandoresearch/fashion-mnist

The MIT License (MIT)

Copyright (c) 2017 Zalando SE, https://tech.zalando.com

Permission is hereby granted, free of charge, to any person obtaining a copy of this
software and associated documentation files (the "Software"), to deal in the Software
without restriction, including without limitation the rights to use, copy, modify,
merge, publish, distribute, sublicense, and/or sell copies of the Software, and to
permit persons to whom the Software is furnished to do so, subject to the following
conditions:

The above copyright notice and this permission notice shall be included in all copies
or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED,
INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR
PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE
FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER
DEALINGS IN THE SOFTWARE.
"""


def folded(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> tuple[np.ndarray, np.ndarray]:
    """Weight and bias of one convolution that does the work of both (float64 inside)."""
    scale = norm.weight.double() / torch.sqrt(norm.running_var.double() + norm.eps)
    weight = conv.weight.double() * scale[:, None, None, None]
    bias = norm.bias.double() - norm.running_mean.double() * scale
    return weight.float().contiguous().numpy(), bias.float().numpy()


class GraphWriter:
    """Collects ONNX nodes and weights; each method returns its output's name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, name: str, value: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def conv(self, name: str, x: str, conv: nn.Conv2d, norm: nn.BatchNorm2d) -> str:
        weight, bias = folded(conv, norm)
        inputs = [x, self.weight(f"{name}.weight", weight), self.weight(f"{name}.bias", bias)]
        return self.node(
            "Conv",
            inputs,
            name,
            kernel_shape=list(conv.kernel_size),
            strides=list(conv.stride),
            pads=list(conv.padding) * 2,
        )

    def relu(self, x: str) -> str:
        return self.node("Relu", [x], f"{x}.relu")

    def block(self, name: str, x: str, block: ResidualBlock) -> str:
        inner = self.relu(self.conv(f"{name}.conv1", x, block.conv1, block.norm1))
        inner = self.conv(f"{name}.conv2", inner, block.conv2, block.norm2)
        return self.relu(self.node("Add", [x, inner], f"{name}.add"))


def to_onnx(net: ResidualNet) -> onnx.ModelProto:
    """The network as an ONNX model with a free batch axis and batch norm folded away."""
    graph = GraphWriter()
    x = graph.relu(graph.conv("stem", "image", net.stem, net.stem_norm))
    for i, block in enumerate(net.early):
        x = graph.block(f"early{i}", x, block)
    x = graph.relu(graph.conv("down", x, net.down, net.down_norm))
    for i, block in enumerate(net.late):
        x = graph.block(f"late{i}", x, block)
    x = graph.node("Flatten", [x], "flat", axis=1)
    head = graph.weight("head.weight", net.head.weight.numpy())
    bias = graph.weight("head.bias", net.head.bias.numpy())
    graph.node("Gemm", [x, head, bias], "logits", transB=1)

    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 28, 28])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", CLASSES])
    proto = helper.make_graph(graph.nodes, "fashion_mnist", [image], [logits], graph.weights)
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(proto, opset_imports=opsets, ir_version=IR_VERSION, producer_name="soundsmooth")
    onnx.checker.check_model(model, full_check=True)
    return model


def open_session(path: Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def largest_gap(path: Path, net: ResidualNet) -> float:
    """Largest difference between the logits of the ONNX file and of PyTorch."""
    images = torch.randn(7, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    (got,) = open_session(path, 1).run(["logits"], {"image": images.numpy()})
    return float(np.abs(got - net(images).numpy()).max())


def microseconds(path: Path, threads: int = 2, batch: int = 100, runs: int = 100) -> float:
    """Median time per image with onnxruntime on the CPU."""
    session = open_session(path, threads)
    images = np.random.default_rng(0).random((batch, 1, 28, 28), np.float32)
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        session.run(["logits"], {"image": images})
        seconds.append(time.perf_counter() - started)
    return float(np.median(seconds)) / batch * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    for source in sorted(args.weights.glob("fashion_mnist_sigma*.safetensors")):
        net = load_network(source)
        target = args.out / f"{source.stem}.onnx"
        onnx.save(to_onnx(net), target)
        print(
            f"{target.name}: {target.stat().st_size} bytes, "
            f"largest gap to PyTorch {largest_gap(target, net):.1e}, "
            f"{microseconds(target):.1f} us an image (2 threads, batches of 100)"
        )

    images, labels = load_split(args.data, "t10k")
    data = args.out / "fashion_mnist.npz"
    np.savez_compressed(data, x=images[:SHIPPED], y=labels[:SHIPPED])
    (args.out / "FASHION-MNIST-LICENSE.txt").write_text(LICENSE)
    print(f"{data.name}: {data.stat().st_size} bytes")


if __name__ == "__main__":
    main()
