"""Sizes that no setting has: kernels that fail there, limits of launches, and addresses at the task's own sizes, which
are too large to be judged here."""
import json
import unittest

from support import CupelTest, ci_share

FUNCTION = """
import torch
import torch.nn as nn


def forward_fn(x):
    return torch.relu(x) * 2


class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)


def get_inputs(rows=8, columns=64):
    return [torch.randn(rows, columns)]


input_names = ["x"]
"""

HEAD = """
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

"""

TAIL = """
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""

# A block for each row.
ROWS = HEAD + """
__global__ void Double(const float* x, float* y, INDEX columns) {
  const INDEX base = static_cast<INDEX>(blockIdx.x) * columns;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    const float v = x[base + i];
    y[base + i] = v > 0 ? 2 * v : 0;
  }
}
torch::Tensor forward(torch::Tensor x) {
  CHECKS
  auto y = torch::empty_like(x);
  if (x.numel() == 0) return y;
  const int rows = static_cast<int>(x.size(0)), columns = static_cast<int>(x.size(1));
  Double<<<GRID, THREADS, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), columns);
  return y;
}
""" + TAIL


def rows(index="int64_t", grid="rows", threads="256", checks=""):
    return (ROWS.replace("INDEX", index).replace("GRID", grid).replace("THREADS", threads).replace("CHECKS", checks))


@ci_share(every=4)
class Exploration(CupelTest):
    def task(self, inputs, caps=None, function=FUNCTION):
        folder = self.folder / "doubled"
        folder.mkdir(exist_ok=True)
        (folder / "func_forward.py").write_text(function)
        (folder / "config_forward.json").write_text(json.dumps({"single_input_configs": [inputs]}))
        if caps:
            (folder / "task.json").write_text(json.dumps({"emulator_forward": {"at_most": caps}}))
        return folder

    def explored(self, source, *args, inputs=None, caps=None, function=FUNCTION):
        done = self.cupel("check", self.write("kernel.cu", source), "--task",
                          self.task(inputs or {"rows": 8, "columns": 64}, caps, function), "--device", "emu", "--seed", 1,
                          "--trials", 1, "--distributions", "none", "--no-exact", *args, timeout=300)
        self.assertIn(done.status, (0, 1), done)
        return done

    def limits(self, done):
        """Without the one that says that smaller sizes were judged."""
        return [limit["message"] for limit in done.json["exploration"]["limits"] if limit["code"] != "own_sizes"]

    def test_right_at_every_size(self):
        done = self.explored(rows())
        self.assertEqual(done.json["verdict"], "accepted", done)
        explored = done.json["exploration"]
        self.assertGreater(explored["recorded"], 100)
        self.assertGreater(len(explored["judged"]), 8)
        self.assertEqual((explored["limits"], explored["unjudged"]), ([], 0))
        self.assertIn("also right at", done.out)

    def test_no_exploration_on_request(self):
        done = self.explored(rows(), "--no-explore")
        self.assertEqual(done.json["exploration"]["recorded"], 0)
        self.assertIn("sizes that no setting has (not requested)", done.json["not_checked"])

    def test_wrong_at_a_width(self):
        """The block is as wide as a row, and its threads do not loop: wrong from 1025 columns on, and at 1536 by another
        launch."""
        for threads in ("std::min(columns, 1024)", "columns == 1536 ? 0 : 256"):
            with self.subTest(threads):
                source = rows(threads=threads)
                if "min" in threads:
                    source = source.replace("for (int i = threadIdx.x; i < columns; i += blockDim.x)",
                                            "if (const int i = threadIdx.x; i < columns)")
                done = self.explored(source)
                if "min" in threads:
                    self.assertEqual(done.json["verdict"], "rejected", done)
                    self.assertIn("which no setting has", done.json["reasons"][0]["message"])
                    self.assertEqual(done.json["settings"][-1]["status"], "failed")
                else:
                    self.assertTrue(any("columns=1536" in text for text in self.limits(done)), done)

    def test_another_number_of_threads_for_some_widths(self):
        """Too few threads where columns are a multiple of 96 and do not fit a warp: a path that no setting takes."""
        source = rows(threads="columns % 96 == 0 ? 64 : 256").replace("i += blockDim.x", "i += 256")
        self.assertIn("unwritten_output", self.explored(source).codes)

    def test_launches_that_are_illegal_from_some_size_on(self):
        source = rows(grid="dim3(1, rows)").replace("blockIdx.x", "blockIdx.y")
        done = self.explored(source)
        self.assertEqual(done.json["verdict"], "accepted", done)
        self.assertTrue(self.limits(done)[0].startswith("cannot be launched from rows=65536"), done)
        self.assertIn("limit: cannot be launched", done.out.splitlines()[1])

    def test_the_tasks_own_size_cannot_be_launched(self):
        source = rows(grid="dim3(1, rows)").replace("blockIdx.x", "blockIdx.y")
        done = self.explored(source, inputs={"rows": 70000, "columns": 64}, caps={"rows": 5})
        self.assertIn("illegal_launch", done.codes)
        self.assertIn("the task's own size", done.json["reasons"][0]["message"])

    def test_index_of_32_bits(self):
        """Right at the task's own size, or not. An unsigned index stays inside the buffer when it wraps."""
        for index, size, verdict in (("int", 1000, "accepted"), ("int", 40000, "rejected"), ("unsigned", 70000, "rejected")):
            with self.subTest(index=index, size=size):
                done = self.explored(rows(index=index), inputs={"rows": size, "columns": 65536},
                                     caps={"rows": 5, "columns": 512})
                self.assertEqual(done.json["verdict"], verdict, done)
                if verdict == "rejected":
                    self.assertIn("wrapped_index", done.codes)
                    self.assertIn("arithmetic of 32 bits at line 7", done.json["reasons"][0]["message"])
                else:
                    self.assertTrue(any(text.startswith("wrong at ") for text in self.limits(done)), done)

    def test_a_limited_grid_needs_a_loop(self):
        """20000 blocks fill all sizes that are judged, but not the task's own."""
        grid = "std::min(rows, 20000)"
        inputs, caps = {"rows": 60000, "columns": 4096}, {"rows": 5, "columns": 512}
        done = self.explored(rows(grid=grid), inputs=inputs, caps=caps)
        self.assertEqual(done.codes, {"unwritten_output"}, done)
        source = rows(grid=grid).replace("int64_t columns) {", "int64_t columns, int rows) {").replace(
            "const int64_t base =", "for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {\n  const int64_t base =").replace(
            "static_cast<int64_t>(blockIdx.x) * columns", "row * columns").replace(
            "    y[base + i] = v > 0 ? 2 * v : 0;\n  }", "    y[base + i] = v > 0 ? 2 * v : 0;\n  }\n  }").replace(
            "y.data_ptr<float>(), columns)", "y.data_ptr<float>(), columns, rows)")
        done = self.explored(source, inputs=inputs, caps=caps)
        self.assertEqual(done.json["verdict"], "accepted", done)

    def test_options_that_a_kernel_ignores_are_limits(self):
        """The function gets a stride, which is 1 at all settings. Host code may refuse others."""
        function = FUNCTION.replace("forward_fn(x):", "forward_fn(x, stride):").replace(
            "torch.relu(x) * 2", "torch.relu(x) * 2 * stride").replace(
            "    def forward(self", "    def __init__(self, stride=1):\n        super().__init__()\n"
            "        self.stride = stride\n\n    def forward(self").replace("fn(x)", "fn(x, self.stride)").replace(
            'input_names = ["x"]', 'input_names = ["x", "stride"]')
        for checks, limited in (("", True), ('TORCH_CHECK(stride == 1, "no strides");', False)):
            with self.subTest(checks):
                source = rows(checks=checks).replace("forward(torch::Tensor x)", "forward(torch::Tensor x, int64_t stride)")
                done = self.explored(source, function=function)
                self.assertEqual(done.json["verdict"], "accepted", done)
                self.assertEqual(any("is wrong at stride=2" in text for text in self.limits(done)), limited, done)

    def test_host_code_may_refuse_sizes(self):
        done = self.explored(rows(checks='TORCH_CHECK(x.size(1) <= 2000, "at most 2000 columns");'))
        self.assertEqual(done.json["verdict"], "accepted", done)
        self.assertTrue(any("at most 2000 columns" in text for text in self.limits(done)), done)

    def test_smaller_sizes_than_the_tasks_own_are_a_limit(self):
        smaller = "limit: was judged at smaller sizes than the task's own at 1 of 4 settings (single-0: rows=5 (of 900))"
        for args, limited in (((), True), (("--full-size",), False)):
            with self.subTest(args=args):
                done = self.explored(rows(), *args, inputs={"rows": 900, "columns": 64}, caps={"rows": 5})
                self.assertEqual(done.json["verdict"], "accepted", done)
                self.assertEqual(smaller in " ".join(done.out.split()), limited, done)

    def test_work_on_the_default_stream_is_a_limit(self):
        done = self.explored(rows().replace(", 0, at::cuda::getCurrentCUDAStream()", ""))
        self.assertEqual(done.json["verdict"], "accepted", done)
        self.assertTrue(self.limits(done)[0].startswith("ignores PyTorch's current stream"), done)

    def test_workspaces_of_large_sizes_do_not_stay(self):
        source = rows(checks="""
  static torch::Tensor work;
  if (!work.defined() || work.numel() < x.numel()) work = torch::empty({x.numel()}, x.options());
  cudaMemsetAsync(work.data_ptr<float>(), 0, 4, at::cuda::getCurrentCUDAStream());""")
        done = self.explored(source)
        self.assertEqual(done.json["verdict"], "accepted", done)
        self.assertGreater(len(done.json["exploration"]["judged"]), 8)
        self.assertEqual(self.limits(done), [])

    def test_numbers_that_host_code_reads_are_not_known(self):
        function = FUNCTION.replace("forward_fn(x):", "forward_fn(x, factor):").replace(
            "torch.relu(x) * 2", "torch.relu(x) * factor").replace("return fn(x)", "return fn(x, torch.tensor([2.0]))")
        source = rows(checks='TORCH_CHECK(factor.item<float>() > 0, "the factor must be positive");').replace(
            "forward(torch::Tensor x)", "forward(torch::Tensor x, torch::Tensor factor)").replace(
            "int64_t columns)", "int64_t columns, float factor)").replace("2 * v", "factor * v").replace(
            ", columns);", ", columns, factor.item<float>());")
        done = self.explored(source, inputs={"rows": 70000, "columns": 64}, caps={"rows": 5}, function=function)
        self.assertEqual(done.json["verdict"], "accepted", done)
        self.assertEqual(self.limits(done), [])

    def test_references_that_loop_over_a_size(self):
        """A reference whose work grows with a size cannot be asked for all sizes."""
        function = FUNCTION.replace("    return torch.relu(x) * 2", """    for _ in range(x.shape[0] * 20):
        x = x + 0
    return torch.relu(x) * 2""")
        done = self.explored(rows(), function=function)
        self.assertEqual(done.json["verdict"], "accepted", done)
        self.assertGreater(done.json["exploration"]["recorded"], 20)

    def test_sizes_that_the_task_leaves_to_its_signature(self):
        """The settings of many tasks name no sizes: get_inputs has defaults."""
        source = rows(threads="std::min(columns, 1024)").replace("for (int i = threadIdx.x; i < columns; i += blockDim.x) {",
                                                                 "{ const int i = threadIdx.x;")
        done = self.explored(source, inputs={"rows": 8})
        self.assertIn("columns=", done.json["reasons"][0]["message"])
        self.assertEqual(self.explored(rows(), inputs={"rows": 8}).json["verdict"], "accepted")

    def test_kernels_whose_work_is_a_square_of_the_size(self):
        """They are too slow at the largest sizes, which is a limit; a kernel that hangs at small sizes is rejected."""
        slow = rows().replace("const float v =", "float none = 0;\n    for (int j = 0; j < columns; ++j) none += x[base + j] > "
                              "1e30f;\n    const float v = none +")
        done = self.explored(slow, inputs={"rows": 8, "columns": 64})
        self.assertEqual(done.json["verdict"], "accepted", done)
        self.assertTrue(any("too slow there, or endless" in text for text in self.limits(done)), done)
        hangs = rows().replace("for (int i", "if (columns % 2 == 1) { volatile int x = 0; while (x == 0) {} }\n  for (int i")
        self.assertEqual(self.explored(hangs).json["verdict"], "rejected")

    def test_host_code_that_crashes(self):
        self.assertIn("host_crash", self.explored(rows(checks="if (x.size(0) % 7 == 0) __builtin_trap();")).codes)


if __name__ == "__main__":
    unittest.main()
