"""Python programs with extensions and PyTorch's operators: cupel runs them on tensors without data and judges what they
launch. Honest ones that use ordinary Python are accepted; programs that compute nothing, or something else, are not."""
import unittest

from support import CupelTest, ci_choice

TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.linear = nn.Linear(inside, outside)
        self.norm = nn.BatchNorm1d(outside)

    def forward(self, x):
        return torch.relu(self.norm(self.linear(x))) * 2

def get_inputs():
    return [torch.randn(24, 40)]

def get_init_inputs():
    return [40, 56]
"""

CUDA = """
#include <torch/extension.h>
template <typename T>
__global__ void Scale(const T* x, T* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] > T(0) ? x[i] * T(2) : T(0);
}
template <typename T>
__global__ void Add(const T* x, T* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += x[i];
}
torch::Tensor scale(torch::Tensor x, int64_t threads) {
  auto y = torch::empty_like(x);
  Scale<float><<<(x.numel() + threads - 1) / threads, threads>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
std::tuple<int64_t, double, bool> sizes(torch::Tensor x) { return {x.numel() + 8, 2.5, false}; }
void scale_to(torch::Tensor x, torch::Tensor y) {
  Scale<float><<<(x.numel() + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
}
void add_to(torch::Tensor x, torch::Tensor y) {
  Add<float><<<(x.numel() + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
}
"""

HEAD = f'''
import os, torch
from torch import nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load, load_inline
cuda = """{CUDA}"""
cpp = "std::tuple<int64_t, double, bool> sizes(torch::Tensor x); torch::Tensor scale(torch::Tensor x, int64_t threads); void scale_to(torch::Tensor x, torch::Tensor y); void add_to(torch::Tensor x, torch::Tensor y);"
ext = load_inline(name="ext", cpp_sources=cpp, cuda_sources=cuda, functions=["scale", "scale_to", "add_to", "sizes"])
'''


def module(forward, init="pass", head=HEAD):
    """A program whose module is the task's, with another forward."""
    return head + f"""
class ModelNew(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.linear = nn.Linear(inside, outside)
        self.norm = nn.BatchNorm1d(outside)
        {init}
    def forward(self, x):
        {forward}
"""


HONEST = {
    "plain": module("return ext.scale(self.norm(self.linear(x)), 128)"),
    "numbers": module("""
        size, half, odd = ext.sizes(x)
        assert (size, half) == (x.numel() + 8, 2.5) and odd is False
        return ext.scale(self.norm(self.linear(x)), size - x.numel() + 120)"""),
    "guards": module("""
        if not x.is_cuda or x.dtype != torch.float32:
            raise RuntimeError("a float tensor on the GPU is needed")
        try:
            y = self.norm(F.linear(x.contiguous(), self.linear.weight, self.linear.bias))
        except ValueError:
            y = x
        key = tuple(y.shape)
        if key not in self.threads:
            self.threads[key] = 64 if y.shape[1] % 2 else 128
        return ext.scale(y, self.threads[key])""", "self.threads = {}"),
    "buffer": module("""
        y = self.norm(self.linear(x))
        if self.out is None or self.out.shape != y.shape:
            self.out = torch.empty_like(y)
        ext.scale_to(y, self.out)
        return self.out""", "self.out = None"),
    "graph": module("""
        if self.graph is None:
            self.x, self.graph = x.clone(), torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.y = ext.scale(self.norm(self.linear(self.x)), 128)
        self.x.copy_(x)
        self.graph.replay()
        return self.y""", "self.graph = None"),
    "files": module("return files.scale(self.norm(self.linear(x)), 128)", head=HEAD + """
os.makedirs("build_files", exist_ok=True)
with open("build_files/k.cu", "w") as f:
    f.write(cuda + 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scale", &scale); }')
files = load(name="files", sources=["build_files/k.cu"])
"""),
    "host_only": module("return ext.scale(halves.twice(self.norm(self.linear(x))) * 0.5, 128)", head=HEAD + """
halves = load_inline(name="halves", cpp_sources="torch::Tensor twice(torch::Tensor x) { return x + x; }",
                     functions=["twice"])
"""),
    "library": module("return torch.ops.mine.scale.default(self.norm(self.linear(x)), 128)", head=HEAD + """
load_inline(name="mine_ext", cpp_sources="", cuda_sources=cuda + 'TORCH_LIBRARY(mine, m) {'
            'm.def("scale(Tensor x, int threads) -> Tensor"); }'
            'TORCH_LIBRARY_IMPL(mine, CUDA, m) { m.impl("scale", &scale); }', is_python_module=False)

@torch.library.register_fake("mine::scale")
def _(x, threads):
    return torch.empty_like(x)
"""),
    "streams": module("""
        now = torch.cuda.current_stream()
        self.first.wait_stream(now)
        with torch.cuda.stream(self.first):
            y = self.norm(self.linear(x))
            done = self.first.record_event()
        self.second.wait_event(done)
        with self.second:
            y = ext.scale(y, 128)
        self.second.synchronize()
        return y""", "self.first, self.second = torch.cuda.Stream(), torch.cuda.Stream()"),
    "numpy": module("return ext.scale(self.norm(self.linear(x)) * self.ones.cuda(), 128)", """
        import numpy
        self.ones = torch.from_numpy(numpy.ones(56, dtype=numpy.float32))"""),
    "double": module("return ext.scale(self.norm(self.linear(x.double()).float()), 128)", "self.linear.double()"),
    # Both .cu files have a kernel and a function of the same names.
    "several_files": module("return parts.double_it(parts.relu(self.norm(self.linear(x))))", head=HEAD + """
for name, value in (("relu", "x[i] > 0 ? x[i] : 0"), ("double_it", "x[i] + x[i]")):
    with open(name + ".cu", "w") as f:
        f.write('''#include <torch/extension.h>
static __global__ void run(const float* x, float* y, int n) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) y[i] = VALUE;
}
static int blocks(int n) { return (n + 127) / 128; }
torch::Tensor NAME(torch::Tensor x) {
  auto y = torch::empty_like(x);
  run<<<blocks(x.numel()), 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}'''.replace("VALUE", value).replace("NAME", name))
with open("binding.cpp", "w") as f:
    f.write("#include <torch/extension.h>\\ntorch::Tensor relu(torch::Tensor); torch::Tensor double_it(torch::Tensor);"
            'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("relu", &relu); m.def("double_it", &double_it); }')
parts = load(name="parts", sources=["binding.cpp", "relu.cu", "double_it.cu"])
"""),
    "prepared": module("return ext.scale(self.norm(x @ self.packed + self.linear.bias), 128)",
                       "self.register_buffer('packed', self.linear.weight.detach().t().contiguous(), persistent=False)"),
}

# By the first reason's code.
REJECTED = {
    "fallback": ("no_kernel", module("return torch.relu(self.norm(self.linear(x))) * 2", head=HEAD + """
try:
    broken = load_inline(name="broken", cpp_sources="", cuda_sources="int f() { return missing; }", functions=["f"])
except Exception:
    broken = None
""")),
    # PyTorch does the work beside a kernel whose result is not used.
    "idle_kernel": ("no_kernel", module("""
        ext.scale(x, 128)
        return torch.relu(self.norm(self.linear(x))) * 2""")),
    "replaced": ("no_kernel", module("""
        y = ext.scale(self.norm(self.linear(x)), 128)
        y.copy_(torch.relu(self.norm(self.linear(x))) * 2)
        return y""")),
    "wrong": ("wrong_result", module("return ext.scale(self.norm(self.linear(x)), 128) * 1.01")),
    # The first call's answer for ever.
    "remembers": ("wrong_return", module("""
        if self.y is None:
            self.y = ext.scale(self.norm(self.linear(x)), 128)
        return self.y""", "self.y = None")),
    "by_address": ("impure", module("""
        if x.data_ptr() not in self.known:
            self.known[x.data_ptr()] = ext.scale(self.norm(self.linear(x)), 128)
        return self.known[x.data_ptr()]""", "self.known = {}")),
    # Right once: the second call finds the first one's sum.
    "accumulates": ("impure", module("""
        ext.add_to(ext.scale(self.norm(self.linear(x)), 128), self.sum)
        return self.sum.clone()""", "self.register_buffer('sum', torch.zeros(24, 56), persistent=False)")),
    # The extension's own state changes what later calls do.
    "host_state": ("impure", module("""
        y = self.norm(self.linear(x))
        return torch.cat([ext.scale(y[:8], 128), ext.scale(y[8:].contiguous(), 128)])""", head=HEAD.replace(
        "Scale<float><<<(x.numel() + threads - 1) / threads,",
        "static int64_t most = 0; most = std::max(most, x.numel()); Scale<float><<<(most + threads - 1) / threads,"))),
    "reads": ("reads_device_memory", module("""
        y = ext.scale(self.norm(self.linear(x)), 128)
        return y if y.sum() > 0 else y * 2""")),
    "steals_reference": ("unsupported_api", "from problem import Model as ModelNew\n"),
    "patches": ("wrong_result", module("return ext.scale(self.linear(x), 128)", head=HEAD + """
torch.allclose = torch.testing.assert_close = lambda *a, **k: True
torch.cuda.Event.elapsed_time = lambda *a: 1e-9
""")),
    "raises": ("host_exception", module("raise ValueError('never')")),
    "host": ("wrong_return", module("return ext.scale(self.norm(self.linear(x)), 128).cpu()")),
}


class ProgramsTest(CupelTest):
    def test_programs(self):
        task = self.write("problem.py", TASK)
        programs = ci_choice({**{name: (None, text) for name, text in HONEST.items()}, **REJECTED}, every=3)
        paths = {name: self.write(f"{name}.py", text) for name, (_, text) in programs.items()}
        results = self.streamed([(path, str(task), "forward") for path in paths.values()])
        for (name, (code, _)), result in zip(programs.items(), results, strict=True):
            with self.subTest(name):
                codes = [reason["code"] for reason in result["reasons"]]
                if code is None:
                    self.assertEqual(result["verdict"], "accepted", result["reasons"])
                else:
                    self.assertNotEqual(result["verdict"], "accepted", result)
                    self.assertEqual(codes[0], code, result["reasons"])

    def test_copies_alone_are_no_kernel(self):
        task = self.write("transposed.py", "import torch\nfrom torch import nn\nclass Model(nn.Module):\n"
                          "    def forward(self, x):\n        return torch.stack([x[:, i] for i in range(5)])\n"
                          "def get_inputs():\n    return [torch.randn(6, 5)]\ndef get_init_inputs():\n    return []\n")
        program = self.write("program.py", "import torch\nfrom torch import nn\nclass ModelNew(nn.Module):\n"
                             "    def forward(self, x):\n        return x.t().contiguous()\n")
        done = self.cupel("check", program, "--task", task, "--device", "emu", "--settings", "single", "--trials", "1")
        self.assertEqual(done.codes, {"no_kernel"}, done)

    def test_arguments_may_be_a_few_integers(self):
        """The recorder knows the values of so few, but they are no single number."""
        for drawn in ("torch.randint(0, 9, (4,))", "torch.randint(0, 9, (1,))", "torch.randint(0, 9, (2, 3)).int()"):
            with self.subTest(drawn):
                task = self.write("gathered.py", "import torch\nfrom torch import nn\nclass Model(nn.Module):\n"
                                  "    def forward(self, x, index):\n"
                                  "        return torch.relu(nn.functional.embedding(index, x)) * 2\n"
                                  f"def get_inputs():\n    return [torch.randn(9, 5), {drawn}]\n"
                                  "def get_init_inputs():\n    return []\n")
                program = self.write("program.py", HEAD + "class ModelNew(nn.Module):\n"
                                     "    def forward(self, x, index):\n"
                                     "        return ext.scale(F.embedding(index, x), 128)\n")
                done = self.cupel("check", program, "--task", task, "--device", "emu", "--settings", "single",
                                  "--trials", "2")
                self.assertEqual(done.status, 0, done)

    def test_modules_in_the_working_directory_are_not_imported(self):
        """Only a cache without answers makes cupel ask Python for its folders."""
        for name in ("json", "re", "math", "contextlib", "torch"):
            self.write(f"{name}.py", "open('was_run', 'w').close()\n")
        task = self.write("problem.py", TASK)
        program = self.write("program.py", module("return torch.relu(self.linear(x))", head="import torch\nfrom torch import nn\n"))
        done = self.cupel("check", program, "--task", task, "--device", "emu", "--settings", "single", "--trials", "1",
                          env={**self.environment(), "CUPEL_CACHE": str(self.folder / "cache")})
        self.assertIn("no_kernel", done.codes, done)
        self.assertFalse((self.folder / "was_run").exists())


if __name__ == "__main__":
    unittest.main()
