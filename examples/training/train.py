#!/usr/bin/env python3
"""Trains a small network for images of digits twice, with the exported operators of kernels/ and with
PyTorch's, from the same weights on the same batches, and reports whether the losses agree. To measure how
far two correct ("honest") runs drift apart, it trains once more with PyTorch, from weights that are off by
rounding.

Needs the packages mnist_conv_relu_pool, mnist_linear_relu, mnist_linear and mnist_cross_entropy
(README.md). Exit status: 0 the losses agree, 1 they do not, 2 the GPU or a package is missing.
SPDX-License-Identifier: Apache-2.0"""
import argparse
import sys

import torch
import torch.nn.functional as F

BATCH, SIDE, CHANNELS, HIDDEN, CLASSES = 64, 28, 32, 128, 10
POOLED = CHANNELS * ((SIDE - 2) // 2) ** 2
ROUNDING = 2.0 ** -22  # relative change of the third run's weights
DRIFT = 8  # allowed multiple of the drift of two honest runs, which is itself random
LEAST_DRIFT = 2e-5  # of the loss: two runs are sometimes closer by chance


class Images:
    """Each class is a smooth pattern. An image is one of them, shifted, with noise."""

    def __init__(self, device, seed):
        self.device = device
        self.generator = torch.Generator().manual_seed(seed)
        coarse = torch.randn(CLASSES, 1, 7, 7, generator=self.generator)
        self.patterns = F.interpolate(coarse, size=(SIDE, SIDE), mode="bilinear", align_corners=False)

    def batch(self, count=BATCH):
        targets, down, right = (torch.randint(limit, (count,), generator=self.generator)
                                for limit in (CLASSES, 5, 5))
        shifted = [torch.roll(self.patterns[t], (int(d) - 2, int(r) - 2), (1, 2))
                   for t, d, r in zip(targets, down, right)]
        noise = torch.randn(count, 1, SIDE, SIDE, generator=self.generator)
        return (torch.stack(shifted) + 2.5 * noise).to(self.device), targets.to(self.device)


def weights(device, seed):
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape):
        fan_in = shape[1] if len(shape) == 2 else shape[1] * shape[2] * shape[3]
        return torch.randn(*shape, generator=generator) * (2 / fan_in) ** 0.5

    tensors = [drawn(CHANNELS, 1, 3, 3), torch.zeros(CHANNELS), drawn(HIDDEN, POOLED),
               torch.zeros(HIDDEN), drawn(CLASSES, HIDDEN), torch.zeros(CLASSES)]
    return [t.to(device).requires_grad_(True) for t in tensors]


class PyTorch:
    """The same operations, as the tasks define them."""

    @staticmethod
    def conv_relu_pool(x, w, b):
        return F.max_pool2d(F.relu(F.conv2d(x, w, b)), 2)

    @staticmethod
    def linear_relu(x, w, b):
        return F.relu(F.linear(x, w, b))

    linear = staticmethod(F.linear)
    cross_entropy = staticmethod(F.cross_entropy)


def packages():
    import mnist_conv_relu_pool
    import mnist_cross_entropy
    import mnist_linear
    import mnist_linear_relu

    class Packages:
        conv_relu_pool = staticmethod(mnist_conv_relu_pool.forward)
        linear_relu = staticmethod(mnist_linear_relu.forward)
        linear = staticmethod(mnist_linear.forward)
        cross_entropy = staticmethod(mnist_cross_entropy.forward)

    return Packages


class Run:
    def __init__(self, operators, parameters):
        self.operators, self.parameters = operators, parameters
        self.optimizer = torch.optim.SGD(parameters, lr=0.005, momentum=0.9)
        self.losses = []

    def logits(self, images):
        conv_w, conv_b, hidden_w, hidden_b, out_w, out_b = self.parameters
        x = self.operators.conv_relu_pool(images, conv_w, conv_b)
        x = self.operators.linear_relu(x.flatten(1), hidden_w, hidden_b)
        return self.operators.linear(x, out_w, out_b)

    def step(self, images, targets):
        self.optimizer.zero_grad()
        loss = self.operators.cross_entropy(self.logits(images), targets)
        loss.backward()
        self.optimizer.step()
        self.losses.append(float(loss.detach()))

    def accuracy(self, images, targets):
        with torch.no_grad():
            return float((self.logits(images).argmax(1) == targets).float().mean())


def smoothed(losses):
    return [sum(losses[i:i + 10]) / 10 for i in range(0, len(losses) - 9, 10)]


def gap(a, b):
    """The largest difference of two curves of losses, each averaged over ten steps."""
    return max(abs(x - y) for x, y in zip(smoothed(a.losses), smoothed(b.losses)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("PyTorch sees no GPU", file=sys.stderr)
        return 2
    try:
        operators = packages()
    except ImportError as error:
        print("%s: export and install the packages first (README.md)" % error, file=sys.stderr)
        return 2
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    images = Images(arguments.device, arguments.seed)
    runs = [Run(o, weights(arguments.device, arguments.seed)) for o in (operators, PyTorch, PyTorch)]
    ours, reference, off = runs
    with torch.no_grad():
        for parameter in off.parameters:
            parameter *= 1 + ROUNDING * torch.randn_like(parameter).sign()
    print("step   packages    PyTorch  PyTorch, weights off by rounding")
    for step in range(1, arguments.steps + 1):
        batch = images.batch()
        for run in runs:
            run.step(*batch)
        if step == 1 or step % max(1, arguments.steps // 10) == 0:
            print("%4d   %8.5f   %8.5f   %8.5f" % (step, *(run.losses[-1] for run in runs)))
    test = images.batch(1024)
    print("accuracy on 1024 new images: %s" %
          ", ".join("%.1f %%" % (100 * run.accuracy(*test)) for run in runs))
    apart, drift = gap(ours, reference), gap(off, reference)
    first, last = sum(ours.losses[:10]) / 10, sum(ours.losses[-10:]) / 10
    learns = last < first / 4
    same = apart <= DRIFT * max(drift, LEAST_DRIFT)
    print("curves of losses are at most %.2g apart; two honest runs %.2g; the loss fell from %.3f to %.3f" %
          (apart, drift, first, last))
    print("the packages train %s" % ("like PyTorch" if same and learns else "DIFFERENTLY"))
    return 0 if same and learns else 1


if __name__ == "__main__":
    sys.exit(main())
