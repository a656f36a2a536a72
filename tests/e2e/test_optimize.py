"""`cupel optimize`: finds better constants, survives being killed, and reports its results."""
import random
import signal
import sqlite3
import subprocess
import time
import unittest

import kernels
from support import CUPEL, CupelTest, ci_share

# One thread sums a whole row. The gain to find is to spread the sum over the lanes of a warp.
SLOW_LINEAR = r"""
#include <torch/extension.h>

constexpr int kLanes = 1;  // tune: kLanes in 1, 8, 16, 32

__global__ void linear(const float* x, const float* w, const float* b, float* y, int cols, int depth,
                       int total) {
  const int i = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes;
  const int lane = threadIdx.x % kLanes;
  if (i >= total) return;
  const int row = i / cols, col = i % cols;
  float sum = 0.f;
  for (int k = lane; k < depth; k += kLanes) sum += x[row * depth + k] * w[col * depth + k];
  for (int d = kLanes / 2; d > 0; d /= 2) sum += __shfl_down_sync(__activemask(), sum, d, kLanes);
  if (lane == 0) y[i] = sum + b[col];
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
  const int rows = x.size(0), depth = x.size(1), cols = weights.size(0);
  auto y = torch::empty({rows, cols}, x.options());
  const int threads = rows * cols * kLanes;
  linear<<<(threads + 127) / 128, 128>>>(
      x.data_ptr<float>(), weights.data_ptr<float>(), biases.data_ptr<float>(), y.data_ptr<float>(),
      cols, depth, rows * cols);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


@ci_share()
class Optimize(CupelTest):
    def command(self, run, *args):
        return ["optimize", "mnist_linear", "--kernel", self.write("slow.cu", SLOW_LINEAR), "--settings", "single",
                "--device", "emu", "--seed", "5", "--candidates", "3", "--run", run, *args]

    def test_finds_the_better_launch_and_reports_estimates(self):
        run = self.folder / "run"
        done = self.cupel(*self.command(run))
        self.assertEqual(done.status, 0, done)
        self.assertIn("estimate", done.out)
        self.assertLess(done.json["best"]["estimated_us"], done.json["start"]["estimated_us"])
        best = (run / "best.cu").read_text()
        self.assertNotIn("constexpr int kLanes = 1;", best)
        self.assertIn(str(run / "best.cu"), done.out)
        self.assertIn(str(run / "report.html"), done.out)
        self.assertIn("mnist_linear", (run / "report.html").read_text())
        self.assertEqual([step["proposer"] for step in done.json["lineage"]][0], "baseline")
        again = self.cupel("check", run / "best.cu", "--task", "mnist_linear", "--settings", "single")
        self.assertEqual(again.status, 0, again)

    def test_variants_without_effect_are_not_judged(self):
        marked = SLOW_LINEAR.replace("__global__", "constexpr int kSpare = 1;  // tune: kSpare in 1, 2, 4\n"
                                                   "constexpr int kStride = 2;\n\n__global__", 1)
        # The name of a kernel must not matter.
        marked = marked.replace("__global__ void linear", 'extern "C" __global__ void kernel')
        marked = marked.replace("linear<<<", "kernel<<<")
        kernel, run = self.write("marked.cu", marked), self.folder / "run"
        done = self.cupel("optimize", "mnist_linear", "--kernel", kernel, "--settings", "single", "--device", "emu",
                          "--seed", "5", "--candidates", "9", "--run", run)
        self.assertEqual(done.status, 0, done)
        archive = sqlite3.connect(run / "run.cupel")
        rows = archive.execute("SELECT c.description, c.tunables, s.name, s.passed FROM candidates c "
                               "JOIN stages s ON s.candidate = c.id ORDER BY s.id").fetchall()
        archive.close()
        self.assertFalse([row for row in rows if "kStride" in row[1]], "a constant without a mark was changed")
        fates = {row[0]: row[2:] for row in rows}
        self.assertEqual(fates["kSpare 1 -> 2"], ("effect", 0), rows)
        self.assertEqual(fates["kLanes 1 -> 8"], ("judge", 1), rows)

    def test_says_how_constants_are_marked(self):
        kernel = self.write("plain.cu", SLOW_LINEAR.split("  // tune")[0] + SLOW_LINEAR.split("16, 32")[1])
        done = self.cupel("optimize", "mnist_linear", "--kernel", kernel, "--settings", "single", "--device", "emu",
                          "--run", self.folder / "run")
        self.assertEqual(done.status, 0, done)
        self.assertIn("// tune: kTile in 8, 16, 32", done.out)

    def test_a_killed_run_ends_like_an_undisturbed_one(self):
        undisturbed = self.cupel(*self.command(self.folder / "a"))
        run = self.folder / "b"
        rng = random.Random(3)
        argv = [CUPEL, *map(str, self.command(run))]
        for _ in range(6):
            process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       env=self.environment(), cwd=self.folder)
            time.sleep(rng.uniform(0.05, 2.5))
            process.send_signal(signal.SIGKILL)
            process.wait()
            if (run / "run.cupel").exists():
                report = self.cupel("report", run)
                self.assertEqual(report.status, 0, report)
                argv = [CUPEL, "optimize", "--resume", str(run)]
        done = self.cupel("optimize", "--resume", run)
        self.assertEqual(done.status, 0, done)
        self.assertEqual(done.json["best"], undisturbed.json["best"])
        self.assertEqual(done.json["counts"], undisturbed.json["counts"])

    def test_a_wrong_start_is_rejected_with_its_reasons(self):
        kernel = self.write("wrong.cu", kernels.linear("sum + b[col]", "sum"))
        done = self.cupel("optimize", "mnist_linear", "--kernel", kernel, "--settings", "single",
                          "--run", self.folder / "run")
        self.assertEqual(done.status, 1, done)
        self.assertIn("bias", done.out)

    def test_energy_is_unsupported_on_the_emulator(self):
        done = self.cupel(*self.command(self.folder / "run"), "--objective", "energy")
        self.assertEqual(done.status, 3, done)
        self.assertIn("unsupported", done.err)
        self.assertIn("--device gpu", done.err)

    def test_resuming_a_missing_run_is_an_error(self):
        done = self.cupel("optimize", "--resume", self.folder / "nothing")
        self.assertEqual(done.status, 2, done)
        self.assertIn("nothing", done.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
