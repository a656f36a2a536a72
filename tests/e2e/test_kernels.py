"""The kernels in kernels/: each is right at every setting of its task, at sizes for the emulator."""
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
