#!/usr/bin/env python3
"""A language model for tests: reads a prompt and answers with one of a few kernels, depending on the prompt.

The same prompt always has the same answer. Appends the prompt's hash to the file argv[1].
"""
import hashlib
import pathlib
import sys

import kernels

# The answer depends on every word of the prompt. If prompts have changed and one of the kinds below no longer
# occurs in a test, choose another salt.
SALT = 9
def tiled(size):
    return kernels.LINEAR.replace("kTile = 16;", f"kTile = {size};  // tune: kTile in 4, 8, 16")


START = tiled(4)
# The same kernel with larger tiles: correct, with other estimates.
RIGHT = [tiled(size) for size in (8, 16)]
WRONG = kernels.LINEAR.replace("sum + b[col]", "sum - b[col]")
BROKEN = kernels.LINEAR.replace("float sum = 0.f;", "float sum = 0.f")
COPY = START.replace("sum", "total")
# The same kernels as Python programs.
HEAD = '''import torch
from torch.utils.cpp_extension import load_inline

source = r"""
'''
TAIL = '''"""
op = load_inline(name="linear", cpp_sources="", cuda_sources=source)


class ModelNew(torch.nn.Module):
    def __init__(self, num_input_features=128, num_output_features=10, init_method="kaiming"):
        super().__init__()
        self.weights = torch.nn.Parameter(torch.randn(num_output_features, num_input_features))
        self.biases = torch.nn.Parameter(torch.randn(num_output_features))

    def forward(self, x):
        return op.forward(x, self.weights, self.biases)
'''


def program(kernel):
    return HEAD + kernel + TAIL


PROGRAM = program(START)


def fenced(name, code, language="cuda"):
    return f"NAME: {name}\nTHOUGHT: another tile\n\n```{language}\n{code}\n```\n"


def proposal(prompt):
    """One of: a correct kernel, a wrong one, one that does not compile, a copy, and text without code."""
    digest = hashlib.sha256(f"{SALT}{prompt}".encode()).digest()[0]
    if "```python\nimport torch\nfrom torch.utils" in prompt:
        name, kernel = [("tile", RIGHT[0]), ("wrong", WRONG), ("broken", BROKEN), ("copy", COPY)][digest % 4]
        return fenced(name, program(kernel), "python")
    kind = digest % 6
    if kind < 2:
        return fenced(f"tile_{kind}", RIGHT[kind])
    if kind == 2:
        return fenced("wrong", WRONG)
    if kind == 3:
        return fenced("broken", BROKEN)
    if kind == 4:
        return fenced("copy", COPY)
    return "I could do that, but I would rather talk about it."


def answer(prompt):
    if "VERDICT: fine" in prompt:
        opinion = "VERDICT: fine\nCONFIDENCE: 0.9\nLINE: none\nREASON: it was read\n"
        if "class ModelNew" in prompt and "The file is a Python program" not in prompt:
            opinion = "VERDICT: wrong\nCONFIDENCE: 1\nLINE: 1: import torch\nREASON: this is no CUDA file\n"
        checks = [check for check in ("compile", "memory", "numerics") if f"CHECK: {check}" in prompt]
        return "".join(f"CHECK: {check}\n{opinion}" for check in checks)
    if "RECOMMENDATIONS:" in prompt:
        return "RECOMMENDATIONS:\n1. Larger tiles.\n2. Fewer barriers.\n3. Vector loads.\n"
    if "HINT:" in prompt:
        return "HINT: Let every thread compute several outputs of one row.\n"
    return proposal(prompt)


def main():
    prompt = sys.stdin.read()
    with pathlib.Path(sys.argv[1]).open("a") as log:
        log.write(hashlib.sha256(prompt.encode()).hexdigest() + "\n")
    print(answer(prompt))


if __name__ == "__main__":
    main()
