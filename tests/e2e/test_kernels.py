"""The kernels in kernels/: each is right at every setting of its task, at sizes for the emulator."""
import json
import shutil
import unittest

from support import SOURCE, CupelTest

KERNELS = sorted(SOURCE.glob("kernels/*/*/kernel.cu"))


class Kernels(CupelTest):
    def test_each_has_a_task_and_a_note(self):
        self.assertGreater(len(KERNELS), 20)
        for kernel in KERNELS:
            with self.subTest(kernel=str(kernel.relative_to(SOURCE))):
                task, direction = kernel.parts[-3:-1]
                self.assertTrue((SOURCE / "tasks" / task / f"func_{direction}.py").exists())
                self.assertTrue(kernel.with_name("README.md").exists())

    def test_each_is_right(self):
        self.assert_right([(kernel, *kernel.parts[-3:-1]) for kernel in KERNELS], "--settings", "all",
                          "--trials", 1, "--distributions", "normal")

    def test_layer_norm_of_rows_that_go_one_by_one(self):
        """Only rows of millions take that path, so that its blocks are made smaller here."""
        source = (SOURCE / "kernels/layernorm/forward/kernel.cu").read_text()
        for was, now in [("} else if (!TryOnChip<128, 1>",
                          "} else if (!TryRowByRow<64, kLargest>(call) && !TryOnChip<128, 1>"),
                         ("4 * chunks < 3 * Processors()", "chunks < 2")]:
            self.assertEqual(source.count(was), 1)
            source = source.replace(was, now)
        task = self.folder / "layernorm"
        shutil.copytree(SOURCE / "tasks/layernorm", task)
        (task / "config_forward.json").write_text(json.dumps(
            {"single_input_configs": [{"batch_size": rows} for rows in (1, 2, 3, 6)],
             "single_init_configs": [{"init_method": "random"}],
             "single_shared_configs": [{"num_features": 4, "dim1": 64, "dim2": 64}]}))
        (task / "task.json").unlink()
        plan = self.folder / "plan.json"
        done = self.check(source, "--trials", 2, "--schedules", 2, "--plan", plan,
                          "--distributions", "offset,infinity,heavy", task=task)
        self.assertEqual(done.status, 0, done)
        self.assertIn("RowByRow", plan.read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
