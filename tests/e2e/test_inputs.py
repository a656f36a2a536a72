"""`cupel check` on inputs that the task does not draw itself: rejections and limits."""
import json
import unittest

from support import CupelTest, ci_share

JUDGED = {"normal", "uniform", "extremes", "offset", "negative", "heavy", "constant", "zeros"}

TASK = """
import torch
import torch.nn as nn


def forward_fn(x):
    return @WHAT@


class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)


def get_inputs(rows=8, columns=128):
    return [@INPUT@]
"""

# The parameters of a fresh LayerNorm are ones and zeros.
PROBLEM = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(128)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(8, 128)]


def get_init_inputs():
    return []
"""

# One warp sums one row, in tiles of 32 columns. The last tile reaches into the next row.
TAIL = """
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

__global__ void Sum(const float* x, float* y, int columns, long long count) {
  float sum = 0;
  for (int c = threadIdx.x; c < (columns + 31) / 32 * 32; c += 32) {
    const long long at = (long long)blockIdx.x * columns + c;
    @ADD@
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
torch::Tensor forward(torch::Tensor x) {
  x = x.contiguous();
  auto y = torch::empty({x.size(0)}, x.options());
  Sum<<<(unsigned)x.size(0), 32, 0, c10::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(),
                                                                      (int)x.size(1), x.numel());
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""

# One warp computes one row, four columns per lane.
KERNEL = r"""
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

__device__ float sum(float v) {
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  return v;
}

__device__ float largest(float v) {
  for (int d = 16; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, d));
  return v;
}

__global__ void kernel(const float* x, const float* w, const float* b, float* y) {
  const int t = threadIdx.x;
  float v[4], r[4];
  for (int i = 0; i < 4; ++i) v[i] = x[blockIdx.x * 128 + t + 32 * i];
  @BODY@
  for (int i = 0; i < 4; ++i) y[blockIdx.x * 128 + t + 32 * i] = r[i];
}

torch::Tensor forward(torch::Tensor x@ARGUMENTS@) {
  @CHECK@
  auto y = torch::empty({x.size(0), x.size(1)}, x.options());
  kernel<<<x.size(0), 32, 0, c10::cuda::getCurrentCUDAStream()>>>(@POINTERS@, y.data_ptr<float>());
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "f"); }
"""

NORM = """const float mean = sum(v[0] + v[1] + v[2] + v[3]) / 128;
  float squares = 0;
  for (int i = 0; i < 4; ++i) squares += (v[i] - mean) * (v[i] - mean);
  const float scale = rsqrtf(sum(squares) / 128 + 1e-5f);
  for (int i = 0; i < 4; ++i) r[i] = (v[i] - mean) * scale@AFFINE@;"""

SOFTMAX = """const float top = @TOP@;
  float all = 0;
  for (int i = 0; i < 4; ++i) all += r[i] = __expf(v[i] - top);
  all = sum(all);
  for (int i = 0; i < 4; ++i) r[i] /= all;"""

RELU = "for (int i = 0; i < 4; ++i) r[i] = @RELU@;"


def source(body, check="", arguments="", pointers="x.data_ptr<float>(), nullptr, nullptr", **words):
    text = KERNEL.replace("@BODY@", body).replace("@CHECK@", check)
    text = text.replace("@ARGUMENTS@", arguments).replace("@POINTERS@", pointers)
    for word, value in words.items():
        text = text.replace("@%s@" % word.upper(), value)
    return text


def norm(affine):
    return source(NORM, affine=affine, arguments=", torch::Tensor w, torch::Tensor b",
                  pointers="x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>()")


@ci_share(2)
class OtherInputs(CupelTest):
    def task(self, what, name="task", drawn="torch.randn(rows, columns)", domain=None):
        folder = self.folder / name
        folder.mkdir()
        code = TASK.replace("@WHAT@", what).replace("@INPUT@", drawn)
        (folder / "func_forward.py").write_text(code)
        (folder / "config_forward.json").write_text("{}")
        if domain:
            (folder / "task.json").write_text(json.dumps({"domain": domain}))
        return folder

    def not_tried(self, done):
        other = done.json["settings"][0]["distributions"]["not_tried"]
        return {entry["kind"]: entry["why"] for entry in other}

    def run_kernel(self, kernel, task, *args):
        return self.check(kernel, "--seed", "5", *args, task=str(task))

    def test_parameters_are_not_only_ones_and_zeros(self):
        problem = self.write("norm.py", PROBLEM)
        honest = self.run_kernel(norm(" * w[t + 32 * i] + b[t + 32 * i]"), problem)
        self.assertEqual(honest.status, 0, honest)
        setting = honest.json["settings"][0]
        self.assertLessEqual(JUDGED - {"constant", "zeros"}, set(setting["distributions"]["tried"]))
        used = [case["kind"] for case in setting["cases"]]
        self.assertEqual(used.count("usual"), 5)
        self.assertIn("normal", used)
        self.assertEqual([t["kind"] for t in setting["trials"]].count("normal"), 1)
        for affine in ("", " * w[t + 32 * i]"):
            lazy = self.run_kernel(norm(affine), problem, "--no-exact", "--no-shadow")
            self.assertEqual(lazy.status, 1, lazy)
            self.assertIn("single-0 trial 5 (normal) output 0", lazy.json["reasons"][0]["where"])
            usual_only = self.run_kernel(norm(affine), problem, "--no-exact", "--no-shadow",
                                         "--distributions", "none")
            self.assertEqual(usual_only.status, 0, usual_only)

    def test_finds_an_overflow_that_usual_inputs_do_not_show(self):
        task = self.task("torch.softmax(x, -1)")
        top = "largest(fmaxf(fmaxf(v[0], v[1]), fmaxf(v[2], v[3])))"
        honest = self.run_kernel(source(SOFTMAX, top=top), task)
        self.assertEqual(honest.status, 0, honest)
        self.assertLessEqual(JUDGED, set(honest.json["settings"][0]["distributions"]["tried"]))
        naive = self.run_kernel(source(SOFTMAX, top="0"), task)
        self.assertEqual(naive.status, 1, naive)
        self.assertRegex(naive.json["reasons"][0]["where"], r"\((extremes|heavy)\)")

    def test_shifts_one_tensor_alone(self):
        code = TASK.replace("def forward_fn(x)", "def forward_fn(x, mean)").replace("return fn(x)", "return fn(x, self.mean)")
        code = code.replace("class Model(nn.Module):", "class Model(nn.Module):\n    def __init__(self):\n"
                            "        super().__init__()\n        self.mean = nn.Parameter(torch.randn(128))\n")
        folder = self.folder / "centred"
        folder.mkdir()
        (folder / "func_forward.py").write_text(
            code.replace("@WHAT@", "(x - mean) * 0.5").replace("@INPUT@", "torch.randn(rows, columns)"))
        (folder / "config_forward.json").write_text("{}")
        # The clamp does nothing if both tensors are shifted alike.
        body = "for (int i = 0; i < 4; ++i) r[i] = 0.5f * fminf(fmaxf(v[i] - w[t + 32 * i], -@BOUND@), @BOUND@);"
        arguments = {"arguments": ", torch::Tensor w",
                     "pointers": "x.data_ptr<float>(), w.data_ptr<float>(), nullptr"}
        kinds = ["--distributions", "offset,one_offset", "--no-exact", "--no-shadow", "--no-explore"]
        wrong = self.run_kernel(source(body, bound="8.f", **arguments), folder, "--trials", "1", *kinds)
        self.assertEqual(wrong.status, 1, wrong)
        self.assertIn("(one_offset)", wrong.json["reasons"][0]["where"])
        right = self.run_kernel(source(body, bound="1e30f", **arguments), folder, *kinds)
        self.assertEqual(right.status, 0, right)
        self.assertIn("one_offset", right.json["settings"][0]["distributions"]["tried"])

    def test_tests_inputs_outside_the_usual_range(self):
        positive = self.task("torch.relu(x)", drawn="torch.rand(rows, columns)")
        copy = self.run_kernel(source(RELU, relu="v[i]"), positive, "--no-exact")
        self.assertEqual(copy.status, 1, copy)
        self.assertIn("(normal)", copy.json["reasons"][0]["where"])
        limited = self.task("torch.relu(x)", name="limited", drawn="torch.rand(rows, columns)",
                            domain={"exclude": ["normal", "heavy", "constant", "negative", "integers"]})
        copy = self.run_kernel(source(RELU, relu="v[i]"), limited)
        self.assertEqual(copy.status, 0, copy)
        skipped = self.not_tried(copy)
        self.assertIn("domain excludes", skipped["normal"])
        root = self.task("torch.log(x)", name="log", drawn="0.5 + torch.rand(rows, columns)")
        log = self.run_kernel(source(RELU, relu="logf(v[i])"), root)
        self.assertEqual(log.status, 0, log)
        skipped = self.not_tried(log)
        self.assertIn("not finite", skipped["normal"])
        self.assertNotIn("uniform", skipped)

    def test_limits_are_reported_and_reject_inside_the_domain(self):
        task = self.task("torch.relu(x)")
        relu = source(RELU, relu="fmaxf(v[i], 0.f)")
        done = self.run_kernel(relu, task)
        self.assertEqual(done.status, 0, done)
        limits = {limit["kind"]: limit["message"] for limit in done.json["limits"]}
        self.assertEqual(limits["nan"], "drops NaN")
        self.assertIn("reads non-contiguous tensors as if they were", limits["strided"])
        self.assertNotIn("shifted", limits)
        self.assertIn("limit: drops NaN (single-0)", done.out)
        done = self.run_kernel(relu, task, "--strict-layouts")
        self.assertEqual(done.status, 1, done)
        self.assertIn("(strided)", done.json["reasons"][0]["where"])
        careful = source(RELU, relu="v[i] < 0 ? 0 : v[i]",
                         check='TORCH_CHECK(x.is_contiguous(), "x must be contiguous");')
        strict = self.task("torch.relu(x)", name="strict", domain={"include": ["nan", "infinity"]})
        done = self.run_kernel(careful, strict)
        self.assertEqual(done.status, 0, done)
        limits = {limit["kind"]: limit["message"] for limit in done.json["limits"]}
        self.assertEqual(limits, {"strided": "refuses non-contiguous tensors"})
        done = self.run_kernel(relu, strict)
        self.assertEqual(done.status, 1, done)
        self.assertIn("(nan)", done.json["reasons"][0]["where"])

    def test_zeros_do_not_hide_the_next_row(self):
        """Zero times NaN is NaN. A NaN near the beginning of a row shows what the tile before it takes."""
        task = self.task("x.sum(dim=1)", name="tail", drawn="torch.randn(24, 100)",
                         domain={"include": ["nan", "infinity"]})
        for add, accepted in (("sum += (at < count ? x[at] : 0) * (c < columns ? 1.f : 0.f);", False),
                              ("if (c < columns) sum += x[at];", True)):
            with self.subTest(add=add):
                done = self.run_kernel(TAIL.replace("@ADD@", add), task, "--distributions", "nan,infinity")
                self.assertEqual(done.status == 0, accepted, done)

    def test_wide_loads_need_alignment(self):
        wide = source(RELU, relu="fmaxf(v[i], 0.f)").replace(
            "for (int i = 0; i < 4; ++i) v[i] = x[blockIdx.x * 128 + t + 32 * i];",
            "const float4 f = reinterpret_cast<const float4*>(x)[blockIdx.x * 32 + t];\n"
            "  v[0] = f.x, v[1] = f.y, v[2] = f.z, v[3] = f.w;").replace(
            "y[blockIdx.x * 128 + t + 32 * i]", "y[blockIdx.x * 128 + 4 * t + i]")
        done = self.run_kernel(wide, self.task("torch.relu(x)"), "--distributions", "shifted")
        self.assertEqual(done.status, 0, done)
        self.assertIn("misaligned", done.json["limits"][0]["message"], done)

    def test_rejects_unknown_distributions(self):
        relu = source(RELU, relu="fmaxf(v[i], 0.f)")
        done = self.run_kernel(relu, self.task("torch.relu(x)"), "--distributions", "normal,bogus")
        self.assertEqual(done.status, 2, done)
        self.assertIn("bogus", done.err)
        broken = self.task("torch.relu(x)", name="broken", domain={"include": ["everything"]})
        done = self.run_kernel(relu, broken)
        self.assertEqual(done.status, 2, done)
        self.assertIn("everything", done.err)


if __name__ == "__main__":
    unittest.main()
