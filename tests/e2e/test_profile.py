"""`cupel profile`: shows the bottleneck first, then the lines that cause it."""
import unittest

import kernels
from support import CupelTest

HEAD = """#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
"""

# Reads the first column of a shared tile without padding: all lanes use the same bank.
SLOW = HEAD + """
__global__ void slow(const float* x, const float* w, const float* b, float* y, int rows, int in, int out) {
  __shared__ float tile[32][32];
  int column = blockIdx.x, lane = threadIdx.x;
  for (int row = 0; row < rows; ++row) {
    float sum = 0;
    for (int k0 = 0; k0 < in; k0 += 32) {
      tile[lane][0] = x[row * in + k0 + lane];  // conflicts
      __syncwarp();
      sum += tile[lane][0] * w[column * in + k0 + lane];
      __syncwarp();
    }
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffff, sum, d);
    if (lane == 0) y[row * out + column] = sum + b[column];
  }
}
torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  auto y = torch::empty({x.size(0), w.size(0)}, x.options());
  slow<<<w.size(0), 32, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), x.size(0),
      x.size(1), w.size(0));
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


class Profile(CupelTest):
    def profile(self, source, *args):
        kernel = self.write("kernel.cu", source)
        report = self.folder / "profile.json"
        done = self.cupel("profile", kernel, "--task", "mnist_linear", "--device", "emu", "--json",
                          report, *args)
        return done, report

    def test_names_the_line_of_bank_conflicts(self):
        done, report = self.profile(SLOW)
        self.assertEqual(done.status, 0, done)
        line = next(n for n, text in enumerate(SLOW.splitlines(), 1) if "// conflicts" in text)
        self.assertIn(f"kernel.cu:{line}  32-way bank conflicts", done.out)
        self.assertIn("// conflicts", done.out)
        self.assertLess(done.out.index("bottleneck:"), done.out.index("bank conflicts"), done)
        self.assertIn("estimate", done.out)
        import json
        launch = json.loads(report.read_text())["settings"][0]["launches"][0]
        self.assertGreater(launch["shared_wavefronts"], 10 * launch["shared_ideal_wavefronts"])
        self.assertIn("bank_conflicts", {w["code"] for w in launch["wastes"]})

    def test_models_differ_and_are_named(self):
        h200 = self.profile(kernels.LINEAR, "--model", "h200")[0]
        a100 = self.profile(kernels.LINEAR, "--model", "a100")[0]
        self.assertIn("H200", h200.out)
        self.assertIn("A100", a100.out)
        self.assertNotEqual(h200.out, a100.out)

    def test_reports_a_wrong_kernel(self):
        done, _ = self.profile(SLOW.replace("+ b[column]", ""))
        self.assertEqual(done.status, 1, done)
        self.assertIn("wrong_result", done.out)

    def test_reports_a_missing_gpu(self):
        kernel = self.write("kernel.cu", kernels.LINEAR)
        for device in ("gpu:4096", "gpus"):
            done = self.cupel("profile", kernel, "--task", "mnist_linear", "--device", device)
            self.assertEqual(done.status, 2, done)
            self.assertRegex(done.err, "use --device emu|there is no GPU 4096")
            self.assertEqual(done.out, "")

    def test_keep_needs_a_gpu(self):
        done, _ = self.profile(kernels.LINEAR, "--keep", self.folder / "kept")
        self.assertEqual(done.status, 2, done)
        self.assertIn("--device gpu", done.err)


if __name__ == "__main__":
    unittest.main()
