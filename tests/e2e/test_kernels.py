"""The kernels in kernels/: each is correct at every setting of its task, with the emulator's sizes. In CI (CI=true)
a sample of them, and only at the single settings; `make nightly` tries all."""
import json
import os
import shutil
import unittest

from support import SOURCE, CupelTest, ci_sample

KERNELS = sorted(SOURCE.glob("kernels/*/*/kernel.cu"))
SETTINGS = "single" if os.environ.get("CI") == "true" else "all"


class Kernels(CupelTest):
    def test_each_has_a_task_and_a_note(self):
        self.assertGreater(len(KERNELS), 20)
        for kernel in KERNELS:
            with self.subTest(kernel=str(kernel.relative_to(SOURCE))):
                task, direction = kernel.parts[-3:-1]
                self.assertTrue((SOURCE / "tasks" / task / f"func_{direction}.py").exists())
                self.assertTrue(kernel.with_name("README.md").exists())

    def test_each_is_correct(self):
        self.assert_right([(kernel, *kernel.parts[-3:-1]) for kernel in ci_sample(KERNELS)],
                          "--settings", SETTINGS, "--trials", 1, "--distributions", "normal")

    def other_settings(self, task, direction, inputs, init, shared):
        """A copy of the task with only these settings."""
        folder = self.folder / f"{task}_{direction}"
        shutil.copytree(SOURCE / "tasks" / task, folder)
        (folder / "task.json").unlink()
        (folder / f"config_{direction}.json").write_text(json.dumps({
            "single_input_configs": inputs, "single_init_configs": [init], "single_shared_configs": [shared]}))
        return folder

    def varied(self, kernel, inputs, init, shared, *changes):
        """The kernel, and a copy of its task with only this setting and with changes in its code."""
        task, direction = kernel.split("/")
        folder = self.other_settings(task, direction, [inputs], init, shared)
        code = folder / f"func_{direction}.py"
        for was, now in changes:
            self.assertIn(was, code.read_text())
            code.write_text(code.read_text().replace(was, now))
        return SOURCE / "kernels" / kernel / "kernel.cu", str(folder), direction

    def test_fixed_bugs_at_sizes_that_no_setting_has(self):
        drawn, targets = "torch.randn(batch_size, num_classes),", "torch.randint(num_classes, (batch_size,)),"
        sure = "torch.randn(batch_size, num_classes) + 12 * F.one_hot(torch.arange(batch_size) % num_classes) + 700,"
        saved = "        x, weights = ctx.saved_tensors\n"
        shifted = ("        behind_one = torch.cat([grad_output.new_zeros(1), grad_output.flatten()])\n"
                   "        grad_output = behind_one[1:].view(grad_output.shape)\n")
        self.assert_right([
            self.varied("mnist_cross_entropy/forward", {"batch_size": 4000, "num_classes": 100}, {}, {},
                        (drawn, sure), (targets, "torch.arange(batch_size) % num_classes,")),
            self.varied("mnist_linear/backward", {"batch_size": 4},
                        {"num_output_features": 52, "init_method": "kaiming"}, {"num_input_features": 132},
                        (saved, saved + shifted)),
            self.varied("mnist_linear/forward", {"batch_size": 64},
                        {"num_output_features": 1024, "init_method": "kaiming"}, {"num_input_features": 0}),
            self.varied("unet_conv2d/forward", {"batch_size": 1, "height": 9, "width": 9},
                        {"out_channels": 2, "kernel_size": 9, "stride": 1, "padding": 0, "init_method": "xavier"},
                        {"in_channels": 4096}),
            self.varied("batched_gemm/forward", {"batch_size": 2, "num_rows": 33, "num_columns": 72, "num_inner": 0,
                                                 "dtype": "float16"}, {}, {}),
        ], "--settings", "single", "--trials", 1, "--distributions", "constant")

    def test_layer_norm_row_by_row(self):
        """Usually only rows of millions of numbers take this path. The test makes its blocks smaller."""
        source = (SOURCE / "kernels/layernorm/forward/kernel.cu").read_text()
        for was, now in [("} else if (!TryOnChip<128, 1>",
                          "} else if (!TryRowByRow<64, kLargest>(call) && !TryOnChip<128, 1>"),
                         ("4 * chunks < 3 * Processors()", "chunks < 2")]:
            self.assertEqual(source.count(was), 1)
            source = source.replace(was, now)
        task = self.other_settings("layernorm", "forward", [{"batch_size": rows} for rows in (1, 2, 3, 6)],
                                   {"init_method": "random"}, {"num_features": 4, "dim1": 64, "dim2": 64})
        plan = self.folder / "plan.json"
        done = self.check(source, "--trials", 2, "--schedules", 2, "--plan", plan,
                          "--distributions", "offset,infinity,heavy", task=task)
        self.assertEqual(done.status, 0, done)
        self.assertIn("RowByRow", plan.read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
