"""`cupel prove`: equal as functions of real numbers, told apart, or not proved with the reason."""
import json
import unittest

import kernels
import proof_kernels
from support import SOURCE, CupelTest


def problem(reference, *shapes):
    names = ", ".join("xyz"[:len(shapes)])
    return f"""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, {names}):
        return {reference}


def get_inputs():
    return [{", ".join("torch.randn%r" % (shape,) for shape in shapes)}]


def get_init_inputs():
    return []
"""


MAP = """
#include <torch/extension.h>
__global__ void Map(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float v = x[i];
  y[i] = %s;
}
torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  const int n = x.numel();
  Map<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


ROW_SUM = """
#include <torch/extension.h>
__global__ void Rows(const float* x, float* y, int columns) {
  __shared__ float part[8];
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += 256) sum += x[blockIdx.x * columns + i];
  __syncthreads();  // orders nothing
  for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float all = 0;
    for (int w = 0; w < 8; ++w) all += part[w];
    y[blockIdx.x] = all;
  }
  __syncthreads();  // orders nothing
}
torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  Rows<<<x.size(0), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


class Prove(CupelTest):
    def prove(self, source, *args, task="mnist_linear"):
        record = self.folder / "proof.json"
        kernel = self.write("kernel.cu", source)
        done = self.cupel("prove", kernel, "--task", task, "--seed", "3", "--json", record, *args, timeout=300)
        return done, json.loads(record.read_text()) if record.exists() else None

    def changed(self, old, new):
        self.assertIn(old, kernels.LINEAR)
        return kernels.LINEAR.replace(old, new)

    def test_an_honest_kernel_is_proved(self):
        done, proof = self.prove(kernels.LINEAR)
        self.assertEqual(done.status, 0, done)
        self.assertEqual(proof["outcome"], "proved")
        for setting in proof["settings"]:
            output, = setting["outputs"]
            self.assertEqual((output["proved"], output["differing"]), (output["elements"], 0), setting)
        self.assertEqual([setting["inputs"] for setting in proof["settings"]], ["usual", "heavy"])

    def test_a_term_below_rounding_differs(self):
        done, proof = self.prove(self.changed("+ b[", "+ 9.094947e-13f * x[0] + b["))
        self.assertEqual(done.status, 1, done)
        self.assertEqual(proof["outcome"], "differs")
        self.assertIn("DIFFERS", done.out)
        self.assertEqual(proof["settings"][0]["outputs"][0]["first"]["index"], [0, 0])

    def test_a_constant_of_its_own_is_named_with_its_line(self):
        source = self.changed("+ b[", "+ 1.0000001f * b[")
        line = next(i for i, text in enumerate(source.splitlines(), 1) if "1.0000001f" in text)
        done, proof = self.prove(source)
        self.assertEqual(done.status, 3, done)
        self.assertEqual(proof["outcome"], "not proved")
        reasons = " ".join(proof["settings"][0]["outputs"][0]["reasons"])
        self.assertIn("no number of the reference", reasons)
        self.assertIn("kernel.cu:%d" % line, reasons)

    def test_a_wrong_kernel_differs(self):
        done, proof = self.prove(self.changed("+ b[", "+ 2 * b["))
        self.assertEqual(done.status, 1, done)
        self.assertIn("wrong", proof["settings"][0]["reason"])

    def test_functions_of_the_library_are_recognised(self):
        functions = {
            "torch.nn.functional.gelu(x)": "0.5f * v * (1.0f + erff(v * 0.70710678f))",
            "torch.nn.functional.elu(x)": "v > 0 ? v : expm1f(v)",
            "torch.log1p(torch.exp(x))": "log1pf(expf(v))",
            "torch.log2(x.abs() + 2) + torch.log(x * x + 1)": "log2f(fabsf(v) + 2) + logf(v * v + 1)",
        }
        for reference, formula in functions.items():
            with self.subTest(reference):
                task = self.write("problem.py", problem(reference, (16, 128)))
                done, proof = self.prove(MAP % formula, task=task)
                self.assertEqual(done.status, 0, done)
                self.assertEqual(proof["outcome"], "proved")
        task = self.write("problem.py", problem("torch.nn.functional.gelu(x)", (16, 128)))
        done, _ = self.prove(MAP % "0.5f * v * (1.0f + tanhf(0.7978846f * (v + 0.044715f * v * v * v)))", task=task)
        self.assertNotEqual(done.status, 0, done)

    def test_other_ways_to_compute_a_function_are_proved(self):
        pairs = {
            "conv2d, Winograd": (problem("torch.nn.functional.conv2d(x, y)", (2, 4, 10, 10), (3, 4, 3, 3)),
                                 proof_kernels.WINOGRAD),
            "variance, Welford": (problem("x.var(1)", (16, 77)), proof_kernels.WELFORD),
            "layer norm": (problem("torch.nn.functional.layer_norm(x, (64,))", (16, 64)), proof_kernels.LAYER_NORM),
            "split-K": (problem("x @ y", (12, 64), (64, 20)), proof_kernels.SPLIT_K),
            "online softmax": (problem("torch.softmax(x, 1)", (8, 300)), proof_kernels.ONLINE_SOFTMAX),
        }
        for name, (reference, kernel) in pairs.items():
            with self.subTest(name):
                done, proof = self.prove(kernel, task=self.write("problem.py", reference))
                self.assertEqual(done.status, 0, done)
                self.assertEqual({setting["outcome"] for setting in proof["settings"]}, {"proved"})

    def test_infinite_numbers_tables_and_cancelled_scalars(self):
        cases = {
            "torch.sigmoid(x.masked_fill(x > 0.3, float('-inf')))": ("v > 0.3f ? 0.f : 1.f / (1.f + __expf(-v))", 0),
            "0.9999 * x + (1 - 0.9999) * x * x": ("0.9999f * v + 1e-4f * v * v", 0),
            # exp2f gives other elements than a table that PyTorch computes: no difference is claimed.
            "x - 2.0 ** (-torch.arange(128) / 16)": ("v - exp2f(-(i % 128) / 16.f)", 3),
            # The sign of a root may escape fields, but not if the numbers are others, too.
            "x * 3": ("sqrtf(9.f * v * v)", 1),
        }
        for reference, (formula, status) in cases.items():
            with self.subTest(reference):
                task = self.write("problem.py", problem(reference, (16, 128)))
                done, _ = self.prove(MAP % formula, task=task)
                self.assertEqual(done.status, status, done)

    def test_planted_differences_are_reported(self):
        norm = problem("torch.nn.functional.layer_norm(x, (64,))", (16, 64))
        softmax = problem("torch.softmax(x, 1)", (8, 300))
        conv = problem("torch.nn.functional.conv2d(x, y)", (2, 4, 10, 10), (3, 4, 3, 3))
        gelu = problem("torch.nn.functional.gelu(x, approximate='tanh')", (16, 128))
        formula = "0.5f * v * (1.0f + tanhf(0.7978846f * (v + 0.044715f * v * v * v)))"
        cases = {
            "no eps": (norm, proof_kernels.LAYER_NORM.replace("1e-5f", "0.f")),
            "another eps": (norm, proof_kernels.LAYER_NORM.replace("1e-5f", "1.0001e-5f")),
            "a coefficient in 10^4": (conv, proof_kernels.WINOGRAD.replace(
                "float m[4][4] = {};", "float m[4][4] = {{i == 7 ? 1e-9f : 0.f}};")),
            "a dropped tail": (softmax, proof_kernels.ONLINE_SOFTMAX.replace(
                "= weight / sum", "= row[i] - largest < -4.f ? 0.f : weight / sum")),
            "a constant truncated": (gelu, MAP % formula.replace("0.7978846f", "0.79788447f")),
            "an approximation": (gelu, MAP % formula.replace("0.044715f", "0.044715001f * 1.0000001f")),
        }
        for name, (reference, kernel) in cases.items():
            with self.subTest(name):
                done, proof = self.prove(kernel, task=self.write("problem.py", reference))
                self.assertIn(done.status, (1, 3), done)
                outputs = [output for setting in proof["settings"] for output in setting["outputs"]]
                self.assertTrue(any(output["proved"] < output["elements"] for output in outputs), done)

    def test_check_has_a_section(self):
        def check(source, *more):
            record = self.folder / "verdict.json"
            kernel = self.write("kernel.cu", source)
            done = self.cupel("check", kernel, "--task", "mnist_linear", "--settings", "single", "--seed", "3", "--json",
                              record, *more, timeout=300)
            return done, json.loads(record.read_text())
        done, verdict = check(kernels.LINEAR)
        self.assertEqual(verdict["proof"]["outcome"], "proved")
        self.assertIn("proved equal to the task", " ".join(done.out.split()))
        done, verdict = check(self.changed("+ b[", "+ 9.094947e-13f * x[0] + b["), "--no-exact")
        self.assertEqual((verdict["verdict"], verdict["proof"]["outcome"]), ("accepted", "differs"))
        self.assertIn("other_function", [limit["code"] for limit in verdict["exploration"]["limits"]])
        self.assertIn("limit: computes another function of real numbers", " ".join(done.out.split()[:40]))
        done, verdict = check(kernels.LINEAR, "--no-prove")
        self.assertNotIn("proof", verdict)

    def test_wrong_integers_differ(self):
        for kernel, status in (("mustfail/wrong_second_output.cu", 1), ("mustpass/row_max_packed_atomics.cu", 0)):
            done = self.cupel("prove", SOURCE / "tests" / kernel, "--task", SOURCE / "tests/mustpass/tasks/row_max",
                              "--seed", "3", timeout=300)
            self.assertEqual(done.status, status, done)

    def test_operators_of_the_host_code_are_followed(self):
        host = """
#include <torch/extension.h>
__global__ void Add(const float* a, float* b, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] += a[i] * 0.1f;
}
torch::Tensor forward(torch::Tensor x, torch::Tensor y) {
  auto a = torch::matmul(x, y), b = torch::softmax(a, 1);
  const int n = b.numel();
  Add<<<(n + 127) / 128, 128>>>(a.data_ptr<float>(), b.data_ptr<float>(), n);
  b.mul_(3.0);
  return b;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""
        task = self.write("problem.py", problem("3 * torch.softmax(x @ y, 1) + x @ y * 0.3", (8, 32), (32, 16)))
        done, proof = self.prove(host, "--operators", "allowed", task=task)
        self.assertEqual(done.status, 0, done)
        done, proof = self.prove(host.replace("3.0", "3.00000001"), "--operators", "allowed", task=task)
        self.assertNotEqual(done.status, 0, done)

    def test_names_barriers_that_order_nothing(self):
        barriers = [i for i, text in enumerate(ROW_SUM.splitlines(), 1) if "__syncthreads" in text]
        done, proof = self.prove(ROW_SUM, task=SOURCE / "tests/mustpass/tasks/row_sum")
        self.assertEqual(done.status, 0, done)
        usual = proof["settings"][0]
        self.assertEqual(usual["removable_barriers"], ["kernel.cu:%d" % line for line in (barriers[0], barriers[2])])
        self.assertTrue(usual["any_order"])
        self.assertIn("hint: ", done.out)
        atomic = ROW_SUM.replace("y[blockIdx.x] = all;", "atomicAdd(y + blockIdx.x, all);").replace("empty", "zeros")
        _, proof = self.prove(atomic, task=SOURCE / "tests/mustpass/tasks/row_sum")
        self.assertFalse(proof["settings"][0]["any_order"])

    def test_lists_the_decisions(self):
        task = self.write("problem.py", problem("torch.relu(x) + x.clamp(max=100)", (16, 128)))
        _, proof = self.prove(MAP % "fmaxf(v, 0.f) + (v < 100.f ? v : 100.f)", task=task)
        usual = proof["settings"][0]
        self.assertEqual(usual["varying_decisions"], 1)
        self.assertEqual(len(usual["fixed_decisions"]), 1)
        self.assertIn("always", usual["fixed_decisions"][0])

    def test_says_what_is_not_covered(self):
        done, _ = self.prove("int main() { return 0; }")
        self.assertEqual(done.status, 3, done)
        done, _ = self.prove(kernels.LINEAR, "--device", "gpu")
        self.assertEqual(done.status, 2, done)


if __name__ == "__main__":
    unittest.main()
