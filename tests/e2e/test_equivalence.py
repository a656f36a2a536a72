"""`cupel check` beyond the tolerance: kernels that are within it, but compute something else."""
import unittest

from support import CupelTest, ci_share

# The reference computes in bfloat16, which makes the tolerance loose.
LOOSE = """
import torch
import torch.nn as nn


def forward_fn(x):
    b = x.bfloat16()
    inner = 0.7978845608 * (b + 0.044715 * b * b * b)
    return (0.5 * b * (1 + torch.tanh(inner)) + 0.0005 * b.sum(-1, keepdim=True)).float()


class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)


def get_inputs(rows=16, columns=256):
    return [torch.randn(rows, columns)]
"""

NORM = """
import torch
import torch.nn as nn


def forward_fn(x, eps=1e-8):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x, 1e-8)


def get_inputs(rows=16, columns=256):
    return [torch.randn(rows, columns)]
"""

SUM = """
import torch
import torch.nn as nn


def forward_fn(x):
    return x.sum(-1)


class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)


def get_inputs(rows=40, columns=256):
    return [torch.randn(rows, columns)]
"""

# @FUNCTION@ of each element.
ELEMENTWISE = """
import torch
import torch.nn as nn
import torch.nn.functional as F


def forward_fn(x):
    return @FUNCTION@


class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)


def get_inputs(rows=16, columns=256):
    return [torch.randn(rows, columns)]
"""

# One block reduces one row into sums[0]; then @WRITE@ writes the results.
KERNEL = r"""
#include <cuda_fp16.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

@GLOBALS@

__global__ void kernel(const float* x, float* y, int columns) {
  __shared__ float sums[256];
  const float* row = x + blockIdx.x * columns;
  const int t = threadIdx.x;
  float sum = 0;
  for (int i = t; i < @COLUMNS@; i += 256) sum += @TERM@;
  sums[t] = sum;
  __syncthreads();
  for (int d = 128; d > 0; d /= 2) {
    if (t < d) sums[t] += sums[t + d];
    __syncthreads();
  }
  @WRITE@
}

torch::Tensor forward(torch::Tensor x@ARGUMENTS@) {
  auto y = torch::empty(@SHAPE@, x.options());
  const int rows = x.size(0), columns = x.size(1);
  kernel<<<rows, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(),
                                                              y.data_ptr<float>(), columns);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "f"); }
"""

GELU = """for (int i = t; i < columns; i += 256) {
    const float b = row[i];
    const float inner = 0.7978845608f * (b + 0.044715f * b * b * b);
    y[blockIdx.x * columns + i] = 0.5f * b * (2 - 2 / (__expf(2 * inner) + 1)) + 0.0005f * sums[0];
  }"""

HALF_GELU = """for (int i = t; i < columns; i += 256) {
    const __half b = __float2half(row[i]);
    const __half cube = __hmul(__hmul(__hmul(__float2half(0.044715f), b), b), b);
    const __half inner = __hmul(__float2half(0.7978845608f), __hadd(b, cube));
    const __half half = __hmul(__float2half(0.5f), b);
    const __half gate = __hadd(__float2half(1.f), __float2half(tanhf(__half2float(inner))));
    y[blockIdx.x * columns + i] = __half2float(__hmul(half, gate)) + 0.0005f * sums[0];
  }"""

SCALED = """for (int i = t; i < columns; i += 256) {
    y[blockIdx.x * columns + i] = row[i] * rsqrtf(sums[0] / columns + 1e-8f);
  }"""

ALONE = "if (t == 0) y[blockIdx.x] = sums[0];"


def source(write, columns="columns", term="row[i]", shape="{x.size(0), x.size(1)}", arguments="",
           declarations=""):
    text = KERNEL
    for key, value in {"GLOBALS": declarations, "COLUMNS": columns, "TERM": term, "WRITE": write,
                       "SHAPE": shape, "ARGUMENTS": arguments}.items():
        text = text.replace(f"@{key}@", value)
    return text


def norm(write):
    return source(write, term="row[i] * row[i]", arguments=", double eps")


@ci_share(2)
class Equivalence(CupelTest):
    def judge(self, code, kernel, *args):
        task = self.folder / "task"
        task.mkdir(exist_ok=True)
        (task / "func_forward.py").write_text(code)
        (task / "config_forward.json").write_text('{"single_input_configs": [{}]}')
        return self.check(kernel, *args, task=task, timeout=300)

    def established(self, done):
        return done.json["settings"][0]["established"]

    def test_an_honest_kernel_is_established(self):
        done = self.judge(LOOSE, source(GELU))
        self.assertEqual(done.status, 0, done)
        output = self.established(done)["outputs"][0]
        self.assertEqual((output["equal_inputs"], output["reset"], output["doubtful"]), (2, 0, 0))
        self.assertFalse(output["reduced_precision"])
        self.assertIn("equal in exact arithmetic up to float32 constants on 2 inputs",
                      " ".join(done.out.split()))

    def test_rejects_wrong_kernels_within_the_tolerance(self):
        for name, kernel in [("half of the row", source(GELU, columns="columns / 2")),
                             ("a constant", source(GELU.replace("0.044715f", "0.0447f")))]:
            with self.subTest(name):
                done = self.judge(LOOSE, kernel)
                self.assertEqual(done.status, 1, done)
                self.assertEqual(done.codes, {"not_equivalent"}, done)
                # On the same inputs, the tolerance alone accepts the kernel.
                self.assertEqual(self.judge(LOOSE, kernel, "--no-shadow", "--distributions", "none").status, 0, name)

    def test_half_precision_is_equal_and_reported(self):
        done = self.judge(LOOSE, source(HALF_GELU))
        self.assertEqual(done.status, 0, done)
        output = self.established(done)["outputs"][0]
        self.assertEqual(output["equal_inputs"], 2)
        self.assertTrue(output["reduced_precision"])
        self.assertIn("it computes in a shorter format", " ".join(done.out.split()))

    def test_bit_operations_neither_hide_a_cheat_nor_reject_an_honest_kernel(self):
        # A wrong kernel (half of the row) that shuffles its result as the two words of a double.
        value = "0.5f * b * (2 - 2 / (__expf(2 * inner) + 1)) + 0.0005f * sums[0]"
        moved = GELU.replace(value, f"(float)moved({value})")
        words = """__device__ double moved(double d) {
  return __hiloint2double(__shfl_sync(~0u, __double2hiint(d), threadIdx.x % 32),
                          __shfl_sync(~0u, __double2loint(d), threadIdx.x % 32));
}"""
        done = self.judge(LOOSE, source(moved, columns="columns / 2", declarations=words))
        self.assertEqual(done.codes, {"not_equivalent"}, done)
        # An honest kernel that rounds its input to bfloat16 by integer arithmetic.
        rounded = GELU.replace("const float b = row[i];", """unsigned u = __float_as_uint(row[i]);
    u += 0x7fff + ((u >> 16) & 1);
    const float b = __uint_as_float(u & 0xffff0000u);""")
        done = self.judge(LOOSE, source(rounded))
        self.assertEqual(done.status, 0, done)
        output = self.established(done)["outputs"][0]
        self.assertEqual((output["equal_inputs"], output["reset"]), (2, 0))
        # The check cannot follow reversed bits, and reports the line.
        reverse = '    asm volatile("brev.b32 %0, %0; brev.b32 %0, %0;" : "+r"(u));'
        rounded = rounded.replace("    u += 0x7fff", reverse + "\n    u += 0x7fff")
        done = self.judge(LOOSE, source(rounded))
        self.assertEqual(done.status, 0, done)
        output = self.established(done)["outputs"][0]
        self.assertEqual((output["equal_inputs"], output["reset"]), (0, output["elements"]))
        line = 1 + source(rounded).splitlines().index(reverse)
        self.assertRegex(output["causes"][0]["what"], rf"^\S+ at \S+\.cu:{line}$")

    def test_a_dropped_epsilon_shows_on_tiny_inputs(self):
        self.assertEqual(self.judge(NORM, norm(SCALED)).status, 0)
        dropped = norm(SCALED.replace(" + 1e-8f", ""))
        done = self.judge(NORM, dropped)
        self.assertEqual(done.codes, {"not_equivalent"}, done)
        self.assertIn("scaled by 2^-10", done.out)
        usual_only = ("--no-shadow", "--no-exact", "--distributions", "none")
        self.assertEqual(self.judge(NORM, dropped, *usual_only).status, 0)
        # Without shadows, the tolerance rejects it on tiny inputs.
        done = self.judge(NORM, dropped, "--no-shadow", "--distributions", "none")
        self.assertEqual(done.codes, {"wrong_result"}, done)

    def elementwise(self, function, formula, *args):
        write = "for (int i = t; i < columns; i += 256) y[blockIdx.x * columns + i] = " + formula + ";"
        return self.judge(ELEMENTWISE.replace("@FUNCTION@", function), source(write), "--distributions", "none", *args)

    def test_cancellation_in_accurate_functions_passes_on_tiny_inputs(self):
        # Near zero these formulas lose all digits but a few, as the same kernels with fast math do.
        elu = "row[i] > 0 ? row[i] : expf(row[i]) - 1"
        for function, formula, *flags in [
                ("F.elu(x)", elu),
                ("F.elu(x)", elu, "--no-shadow"),
                ("torch.tanh(x)", "(expf(2 * row[i]) - 1) / (expf(2 * row[i]) + 1)"),
                ("torch.tanh(x)", "2 / (1 + expf(-2 * row[i])) - 1", "--no-shadow"),
                ("torch.log1p(x.abs())", "logf(1 + fabsf(row[i]))"),
                ("torch.expm1(x)", "(float)exp((double)row[i]) - 1.0f")]:
            with self.subTest(formula, flags=flags):
                done = self.elementwise(function, formula, "--flag=--no-fast-math", *flags)
                self.assertEqual(done.status, 0, done)
                if formula == elu and not flags:
                    output = self.established(done)["outputs"][0]
                    self.assertEqual((output["equal_inputs"], output["reset"], output["doubtful"]), (2, 0, 0))

    def test_says_if_fast_math_alone_makes_a_kernel_wrong(self):
        done = self.elementwise("torch.tanh(x)", "tanhf(row[i])")
        self.assertEqual(done.status, 1, done)
        self.assertEqual(done.json["reasons"][0]["code"], "fast_math")
        self.assertIn("--flag=--no-fast-math", done.json["reasons"][0]["message"])
        done = self.elementwise("torch.tanh(x)", "tanhf(row[i]) + 0.01f")
        self.assertNotIn("fast_math", done.codes)
        self.assertEqual(done.status, 1, done)
        self.assertEqual(self.elementwise("torch.tanh(x)", "tanhf(row[i])", "--flag=--no-fast-math").status, 0)

    def test_a_wrong_constant_shows_in_front_of_accurate_functions(self):
        accurate = GELU.replace("__expf", "expf")
        self.assertEqual(self.judge(LOOSE, source(accurate), "--flag=--no-fast-math").status, 0)
        done = self.judge(LOOSE, source(accurate.replace("0.044715f", "0.0447f")), "--flag=--no-fast-math")
        self.assertEqual(done.codes, {"not_equivalent"}, done)

    def test_a_dropped_epsilon_shows_behind_accurate_functions(self):
        # The epsilon of 1e-6 is 1e-6 of the usual results, but 0.1 % of the tiny ones.
        task = "torch.expm1(x) + 1e-6"
        for flags in (("--flag=--no-fast-math",), ("--flag=--no-fast-math", "--no-shadow")):
            with self.subTest(flags=flags):
                self.assertEqual(self.elementwise(task, "expf(row[i]) - 1 + 1e-6f", *flags).status, 0)
                done = self.elementwise(task, "expf(row[i]) - 1", *flags)
                self.assertEqual(done.status, 1, done)
                self.assertIn("scaled by 2^-10", done.out)
                self.assertNotIn("epsilon", done.out)

    def test_small_integers_are_summed_exactly(self):
        done = self.judge(SUM, source(ALONE, shape="{x.size(0)}"))
        self.assertEqual(done.status, 0, done)
        self.assertEqual(self.established(done)["exact_inputs"], 1)
        # A relative error of 2e-6 in every result is within the tolerance.
        off = source("if (t == 0) y[blockIdx.x] = sums[0] * 1.000002f;", shape="{x.size(0)}")
        done = self.judge(SUM, off, "--no-shadow")
        self.assertEqual(done.codes, {"not_exact"}, done)
        self.assertEqual(self.judge(SUM, off, "--no-shadow", "--no-exact").status, 0)

    def test_rejects_results_that_depend_on_the_order_of_blocks(self):
        # Each result depends slightly on the order in which blocks arrive.
        late = source("if (t == 0) y[blockIdx.x] = sums[0] + 1e-7f * (atomicAdd(&ticket, 1) % 40);",
                      shape="{x.size(0)}", declarations="__device__ int ticket;")
        done = self.judge(SUM, late, "--no-exact")
        self.assertEqual(done.codes, {"order_dependence"}, done)
        # Float atomics only round differently in another order.
        atomic = source("if (t == 0) y[blockIdx.x] = 0;\n  __syncthreads();\n"
                        "  for (int i = t; i < columns; i += 256) atomicAdd(y + blockIdx.x, row[i]);",
                        shape="{x.size(0)}")
        done = self.judge(SUM, atomic, "--schedules", "3")
        self.assertEqual(done.status, 0, done)
        self.assertEqual(self.established(done)["schedules"], 3)


if __name__ == "__main__":
    unittest.main()
