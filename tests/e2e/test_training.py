"""examples/training: the script distinguishes packages that train like PyTorch from slightly wrong ones. The
tests use Python functions on the CPU instead of the exported packages, which need a GPU."""
import os
import pathlib
import subprocess
import tempfile
import unittest

from support import SOURCE, CupelTest, python_with_torch

STANDINS = {
    "mnist_conv_relu_pool": "return F.max_pool2d(F.relu(F.conv2d(x, w, b)), 2)",
    # Correct, in another precision than PyTorch's.
    "mnist_linear_relu": "return F.relu(x.double() @ w.double().t() + b.double()).float()",
    "mnist_linear": "return F.linear(x, w, b)",
    "mnist_cross_entropy": "return F.cross_entropy(x, w)",
}
# The gradient of the weights is wrong by a thousandth.
OFF = "return F.linear(x, w * 0.999 + (w * 0.001).detach(), b)"


class TrainingTest(CupelTest):
    def train(self, standins):
        with tempfile.TemporaryDirectory() as folder:
            for name, body in standins.items():
                pathlib.Path(folder, name + ".py").write_text(
                    "import torch.nn.functional as F\n\ndef forward(x, w, b=None):\n    %s\n" % body)
            return subprocess.run(
                [python_with_torch(), str(SOURCE / "examples/training/train.py"), "--device", "cpu", "--steps", "100"],
                env=dict(os.environ, PYTHONPATH=folder, OMP_WAIT_POLICY="PASSIVE"), capture_output=True, text=True,
                timeout=300)

    def test_reports_whether_the_packages_train_like_pytorch(self):
        same = self.train(STANDINS)
        self.assertEqual(same.returncode, 0, same.stdout + same.stderr)
        self.assertIn("train like PyTorch", same.stdout)
        off = self.train(dict(STANDINS, mnist_linear=OFF))
        self.assertEqual(off.returncode, 1, off.stdout + off.stderr)
        self.assertIn("DIFFERENTLY", off.stdout)

    def test_names_a_missing_package(self):
        missing = self.train({k: v for k, v in STANDINS.items() if k != "mnist_linear"})
        self.assertEqual(missing.returncode, 2)
        self.assertIn("mnist_linear", missing.stderr)


if __name__ == "__main__":
    unittest.main()
