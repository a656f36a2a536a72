"""Candidates whose host code lets PyTorch compute a part of the result."""
import unittest

from support import CupelTest, ci_share

TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x, w):
        values, order = torch.sort(torch.relu((2 * x) @ w.t()), dim=1)
        return values.mean(1, keepdim=True) + 1.0

def get_inputs():
    return [torch.randn(32, 48), torch.randn(24, 48)]

def get_init_inputs():
    return []
"""

KERNEL = """
#include <torch/extension.h>
__global__ void Double(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * FACTOR;
}
torch::Tensor forward(torch::Tensor x, torch::Tensor w) {
  auto y = torch::empty_like(x);
  int n = x.numel();
  Double<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  auto z = torch::empty({x.size(0), w.size(0)}, x.options());
  torch::mm_out(z, y, w.t());
  z.relu_();
  auto [values, order] = torch::sort(z, 1);
  torch::Tensor sum = at::sum(values, {1}, true);
  sum /= (double)z.size(1);
  return sum + 1.0;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""

NO_KERNEL = """
#include <torch/extension.h>
torch::Tensor forward(torch::Tensor x, torch::Tensor w) {
  auto z = torch::relu(torch::matmul(2 * x, w.transpose(0, 1)));
  return torch::mean(z, {1}, true) + 1.0;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""

RANDOM = """
#include <torch/extension.h>
torch::Tensor forward(torch::Tensor x, torch::Tensor w) {
  return torch::dropout(x.mm(w.t()), 0.5, true);
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""

FILL = """
__global__ void Fill(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * 2;
}
void fill(const float* x, float* y, int n) { Fill<<<(n + 255) / 256, 256>>>(x, y, n); }
"""
# Compiled by the host's compiler, whose messages about unknown names are not nvcc's.
BINDING = """
#include <torch/extension.h>
void fill(const float* x, float* y, int n);
torch::Tensor forward(torch::Tensor x, torch::Tensor w) {
  namespace F = torch::nn::functional;
  auto y = torch::empty_like(x);
  fill(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  auto z = F::pad(y.matmul(w.t()).relu(), F::PadFuncOptions({0, 8})).slice(1, 0, w.size(0));
  return CALL(z, {1}, true) + 1.0;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


@ci_share(2)
class OperatorsTest(CupelTest):
    def judge(self, source, *options):
        kernel = self.write("kernel.cu", source)
        task = self.write("problem.py", TASK)
        run = self.cupel("check", kernel, "--task", task, "--settings", "single", "--trials", "2", "--seed", "7",
                         "--device", "emu", *options)
        return run, run.json

    def test_allowed_beside_kernels_of_ones_own(self):
        run, verdict = self.judge(KERNEL.replace("FACTOR", "2"))
        self.assertEqual(run.status, 0, run)
        note = [note for note in verdict["notes"] if note.startswith("PyTorch computes")]
        self.assertEqual(len(note), 1)
        for name in ("aten::mm.out", "aten::relu_", "aten::sort", "aten::sum.dim_IntList", "aten::div_.Scalar"):
            self.assertIn(name, note[0])
        exact = verdict["settings"][0]["established"]["outputs"][0]
        self.assertEqual(exact["equal"], exact["elements"])  # in float64, through the operators
        run, verdict = self.judge(KERNEL.replace("FACTOR", "2"), "--operators", "none")
        self.assertEqual(run.status, 1)
        self.assertEqual(verdict["reasons"][0]["code"], "framework_operator")

    def test_a_list_allows_them_by_name(self):
        listed = "aten::mm,aten::relu,aten::sort,aten::div,aten::add"
        run, verdict = self.judge(KERNEL.replace("FACTOR", "2"), "--operators", listed)
        self.assertEqual(run.status, 1)
        self.assertEqual([reason["code"] for reason in verdict["reasons"]], ["framework_operator"])
        self.assertIn("(aten::sum.dim_IntList)", verdict["reasons"][0]["message"])
        run, verdict = self.judge(KERNEL.replace("FACTOR", "2"), "--operators", listed + ",aten::sum")
        self.assertEqual(run.status, 0, run)
        run, verdict = self.judge(KERNEL.replace("FACTOR", "2"), "--operators", "alowed")
        self.assertEqual(run.status, 2)
        self.assertIn("give allowed, none, or names such as aten::sum,aten::mean", run.err)

    def test_a_binding_of_its_own_may_call_them(self):
        for call, status, code in (("at::mean", 0, None), ("mean", 1, "compile_error")):
            self.write("binding.cpp", BINDING.replace("CALL", call))
            run, verdict = self.judge(FILL, "--sources", "binding.cpp")
            self.assertEqual(run.status, status, run)
            self.assertEqual(code, verdict["reasons"][0]["code"] if code else None, run)

    def test_wrong_results_are_found_through_operators(self):
        run, verdict = self.judge(KERNEL.replace("FACTOR", "2.001f"))
        self.assertEqual(run.status, 1)
        self.assertIn(verdict["reasons"][0]["code"], ("wrong_result", "not_equivalent"))

    def test_a_candidate_needs_a_kernel(self):
        run, verdict = self.judge(NO_KERNEL)
        self.assertEqual(run.status, 1)
        self.assertEqual(verdict["reasons"][0]["code"], "no_kernel")

    def test_random_operators_are_refused_by_name(self):
        run, verdict = self.judge(RANDOM)
        self.assertEqual(run.status, 3)
        self.assertIn("aten::dropout", verdict["reasons"][0]["message"])


if __name__ == "__main__":
    unittest.main()
