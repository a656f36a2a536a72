"""Judges Python programs with kernels of Triton, on the emulator. Skipped without PyTorch or Triton."""
import pathlib
import subprocess
import unittest

import support

ANSWERS = pathlib.Path(__file__).parent / "triton"
HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
# KernelBench problems, by the name of the answer.
PROBLEMS = {
    "softmax": """
class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
def get_inputs():
    return [torch.randn(300, 781)]
def get_init_inputs():
    return []
""",
    "matmul": """
class Model(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.linear = nn.Linear(inside, outside)
    def forward(self, x):
        return F.leaky_relu(self.linear(x))
def get_inputs():
    return [torch.randn(100, 96)]
def get_init_inputs():
    return [96, 200]
""",
    "attention": """
class Model(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
def get_inputs():
    return [torch.randn(1, 2, 256, 64).half() for _ in range(3)]
def get_init_inputs():
    return []
""",
    "layer_norm": """
class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)
    def forward(self, x):
        return self.norm(x)
def get_inputs():
    return [torch.randn(4, 8, 1000)]
def get_init_inputs():
    return [1000]
""",
    "dropout": """
def product(a, b):  # upper and lower half of the product of numbers of 32 bits
    low, high = (a & 0xffff) * b, (a >> 16) * b
    return (high + (low >> 16)) >> 16, (low + (high << 16)) & 0xffffffff
def uniform(seed, counters):  # Philox, with ten rounds
    numbers, keys = [counters] + [torch.zeros_like(counters)] * 3, [seed, 0]
    for _ in range(10):
        (b_high, b_low), (a_high, a_low) = product(numbers[2], 0xCD9E8D57), product(numbers[0], 0xD2511F53)
        numbers = [b_high ^ numbers[1] ^ keys[0], b_low, a_high ^ numbers[3] ^ keys[1], a_low]
        keys = [(keys[0] + 0x9E3779B9) & 0xffffffff, (keys[1] + 0xBB67AE85) & 0xffffffff]
    number = numbers[0]
    return torch.where(number >= 1 << 31, 0xffffffff - number, number) * 4.6566127342e-10
class Model(nn.Module):
    def forward(self, x):
        kept = uniform(123, torch.arange(x.numel(), device=x.device)).view(x.shape) > 0.5
        return torch.where(kept, torch.asinh(x) * 2, 0)
def get_inputs():
    return [torch.randn(10, 1000)]
def get_init_inputs():
    return []
""",
    "float8_product": """
class Model(nn.Module):
    def forward(self, a, b):
        return (a.float() @ b.float().T).bfloat16()
def get_inputs():
    return [torch.randn(96, 256).to(torch.float8_e4m3fn), torch.randn(64, 256).to(torch.float8_e4m3fn)]
def get_init_inputs():
    return []
""",
    "small_tiles": """
class Model(nn.Module):
    def forward(self, a, b):
        return a @ b.T
def get_inputs():
    return [torch.randn(64, 128).bfloat16(), torch.randn(32, 128).bfloat16()]
def get_init_inputs():
    return []
""",
    "descriptors": """
class Model(nn.Module):
    def forward(self, a, b):
        return a @ b.T
def get_inputs():
    return [torch.randn(256, 128).half(), torch.randn(128, 128).half()]
def get_init_inputs():
    return []
""",
}


class Triton(support.CupelTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if subprocess.run([support.python_with_torch(), "-c", "import triton"], stderr=subprocess.DEVNULL).returncode:
            raise unittest.SkipTest("needs Triton")

    def judge(self, answer, problem, *options):
        return self.cupel("check", self.write("answer.py", answer), "--task",
                          self.write("problem.py", HEAD + problem), "--device", "emu", *options)

    def test_answers_are_correct(self):
        for name, problem in support.ci_choice(PROBLEMS).items():
            with self.subTest(name):
                done = self.judge((ANSWERS / (name + ".py")).read_text(), problem)
                self.assertEqual(done.status, 0, done)

    def test_builds_and_extracts_kernels(self):
        answer = self.write("answer.py", (ANSWERS / "softmax.py").read_text())
        problem = self.write("problem.py", HEAD + PROBLEMS["softmax"])
        done = self.cupel("build", answer, "--task", problem)
        self.assertEqual(done.status, 0, done)
        images = done.json["images"]
        self.assertEqual({image["kind"] for image in images}, {"triton"})
        self.assertIn(f"built kernel of Triton {images[0]['name']} of", done.out)
        self.assertEqual(images[0]["kernels"][0]["name"], images[0]["name"])
        folder = self.folder / "code"
        done = self.cupel("extract", answer, "--task", problem, "-o", folder)
        self.assertEqual(done.status, 0, done)
        text = (folder / (images[0]["name"] + ".ptx")).read_text()
        self.assertIn(f".entry {images[0]['name']}(", text)
        self.assertEqual(len(list(folder.iterdir())), len(images))

    def test_finds_a_wrong_answer(self):
        answer = (ANSWERS / "softmax.py").read_text().replace("other=-float", "other=float")
        self.assertEqual(self.judge(answer, PROBLEMS["softmax"]).status, 1)

    def test_judges_all_configurations_of_an_autotuner(self):
        answer = """
import torch, triton, triton.language as tl
@triton.autotune([triton.Config({"BLOCK": b, "OFFSET": o}, num_stages=s)
                  for b, o, s in ((64, 0, 2), (128, 0, 2), (1024, 0, 2), (256, WRONG, 2))], key=["n"])
@triton.jit
def double(x, y, n, BLOCK: tl.constexpr, OFFSET: tl.constexpr):
    tl.static_assert(BLOCK < 1024)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(y + at, value * 2 + OFFSET, mask=at < n)
class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        double[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
        return y
"""
        problem = """
class Model(nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.randn(33, 100)]
def get_init_inputs():
    return []
"""
        done = self.judge(answer.replace("WRONG", "0"), problem)
        self.assertEqual(done.status, 0, done)
        self.assertIn("of 3 other configurations of its autotuners, 2 are right in a trial, and 1 do not fit",
                      " ".join(done.out.split()))
        done = self.judge(answer.replace("WRONG", "1"), problem)
        self.assertEqual(done.status, 1, done)
        self.assertEqual(done.codes, {"wrong_result"})
        self.assertIn("with another configuration of its autotuner (double: BLOCK: 256, OFFSET: 1", done.out)
        hook = "pre_hook=lambda a: torch.mul(a['x'], 2, out=a['y'])"
        done = self.judge(answer.replace("num_stages=s)", f"num_stages=s, {hook} if o else None)")
                          .replace("+ OFFSET", "").replace("WRONG", "1"), problem, "--operators", "none")
        self.assertEqual(done.codes, {"framework_operator"}, done)


if __name__ == "__main__":
    unittest.main()
