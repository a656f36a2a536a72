"""The wheel: its contents, and the program and the Python package in a new virtual environment.

The wheel packages the program under test, so that nothing is compiled. CUPEL_WHEEL names another wheel to test."""
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest
import zipfile

import kernels
from support import CUPEL, SOURCE, missing, python_with_torch

WRONG = kernels.linear("sum + b[col]", "sum")
MAX_BYTES = 25_000_000


def builder():
    """A Python with the wheel's build backend, or None."""
    for python in (sys.executable, str(SOURCE / ".venv/bin/python")):
        code = "import scikit_build_core.build"
        if os.access(python, os.X_OK) and subprocess.run([python, "-c", code], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if lacking := missing():
            raise unittest.SkipTest(f"needs {lacking}")
        folder = tempfile.TemporaryDirectory(prefix="cupel-wheel-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.wheel = pathlib.Path(os.environ["CUPEL_WHEEL"]) if "CUPEL_WHEEL" in os.environ else cls.build()
        subprocess.run([sys.executable, "-m", "venv", cls.folder / "venv"], check=True)
        cls.bin = cls.folder / "venv" / "bin"
        cls.run_checked([cls.bin / "pip", "install", "--quiet", "--no-index", "--no-deps", cls.wheel])

    @classmethod
    def build(cls):
        python = builder()
        if python is None:
            raise unittest.SkipTest("needs the Python package scikit-build-core: run tools/setup test")
        cls.run_checked([python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
                         "--wheel-dir", cls.folder / "dist", "-C", f"cmake.define.CUPEL_PREBUILT={CUPEL}", SOURCE])
        return next((cls.folder / "dist").glob("*.whl"))

    @classmethod
    def run_checked(cls, command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise AssertionError(f"{command}\n{done.stdout}\n{done.stderr}")
        return done

    def environment(self, **more):
        """Without what leads to the source tree. The virtual environment is not activated, but on PATH."""
        ours = {name: value for name, value in os.environ.items()
                if name not in ("CUPEL_HOME", "CUPEL_PROGRAM", "PYTHONPATH", "VIRTUAL_ENV")}
        return {**ours, "PATH": f"{self.bin}:{os.environ['PATH']}", "CUPEL_PYTHON": python_with_torch(),
                "CUPEL_CACHE": str(self.folder / "cache"), **more}

    def run_in_venv(self, *command, **more):
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300,
                              env=self.environment(**more), cwd=self.folder)

    def python(self, code, **more):
        done = self.run_in_venv(self.bin / "python", "-c", textwrap.dedent(code), **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def test_contains_program_and_data_and_no_pytorch(self):
        self.assertLessEqual(self.wheel.stat().st_size, MAX_BYTES)
        names = zipfile.ZipFile(self.wheel).namelist()
        self.assertIn("-py3-none-", self.wheel.name)
        for name in ("cupel/bin/cupel", "cupel/py.typed", "cupel/share/cupel/shim/torch/extension.h",
                     "cupel/share/cupel/shim/cublas/cublas_v2.h", "cupel/share/cupel/tasks/mnist_linear/forward.cu",
                     "cupel/share/cupel/src/oracle/py/oracle.py", "cupel/share/cupel/src/trace/py/zygote.py",
                     "cupel/share/cupel/src/report/package/test.py", "cupel/share/cupel/share/prices.json",
                     "cupel/share/cupel/tests/mustfail/README.md"):
            self.assertIn(name, names)
        # The worker that Python loads for PyTorch's operators on a GPU; no library of PyTorch's.
        self.assertEqual([name for name in names if "libtorch" in name or name.endswith((".pyc", ".so"))],
                         ["cupel/bin/libcupel_gpu_worker.so"])

    def test_program_is_on_path(self):
        for command in (["cupel"], [self.bin / "python", "-m", "cupel"]):
            done = self.run_in_venv(*command, "--version")
            self.assertEqual((done.returncode, done.stdout.split()[0]), (0, "cupel"), done.stderr)
        self.assertEqual(self.python("import cupel; print(cupel.__version__)").strip(), done.stdout.split()[1])

    def test_checks_a_kernel(self):
        kernel = self.write("kernel.cu", kernels.LINEAR)
        done = self.run_in_venv("cupel", "check", kernel, "--task", "mnist_linear", "--settings", "single",
                                "--device", "emu")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("ACCEPTED", done.stdout)

    def test_python_functions_return_documents(self):
        right, wrong = self.write("right.cu", kernels.LINEAR), self.write("wrong.cu", WRONG)
        out = self.python(f"""
            import cupel
            verdict = cupel.check({str(right)!r}, "mnist_linear", settings="single", seed=7, device="emu")
            assert verdict.accepted and not verdict.reasons and verdict.seed == "7", verdict
            assert verdict.settings[0].passed and verdict.settings[0].estimated_us > 0
            assert 0 < verdict.settings[0].largest_error.rms_over_limit < 1
            assert verdict.raw["schema"] == "cupel.verdict/1" and "ACCEPTED" in str(verdict)
            verdict = cupel.check(source=open({str(wrong)!r}).read(), task="mnist_linear", settings="single",
                                  device="emu")
            assert verdict.decision == "rejected" and verdict.reasons[0].code == "wrong_result", verdict
            profile = cupel.profile({str(right)!r}, "mnist_linear", device="emu")
            assert profile.settings[0].launches[0].bottleneck, profile
            suite = cupel.suite("mnist_linear", output="run", settings="single", direction="forward", device="emu")
            assert suite.status == "finished" and suite.items[0].decision == "accepted", suite
            assert suite.folder == "run" and suite.items[0].settings[0].estimate_us > 0
            package = cupel.export({str(right)!r}, "mnist_linear", output="package", device="emu",
                                   options=["--trials", "1"])
            assert package.package == "mnist_linear", package
            print("done")
            """)
        self.assertEqual(out, "done\n")
        self.assertTrue((self.folder / "package" / "pyproject.toml").exists())

    def test_what_is_not_accepted_has_its_verdict(self):
        wrong, broken = self.write("wrong.cu", WRONG), self.write("broken.cu", kernels.LINEAR + "int x")
        out = self.python(f"""
            import cupel
            for call in (lambda: cupel.export({str(wrong)!r}, "mnist_linear", output="x", device="emu",
                                              options=["--trials", "1"]),
                         lambda: cupel.profile({str(broken)!r}, "mnist_linear", device="emu")):
                try:
                    call()
                except cupel.NotAccepted as error:
                    assert "REJECTED" in error.message and error.status == 1, error.message
                    print(error.verdict.decision, error.verdict.reasons[0].code)
            """)
        self.assertEqual(out.splitlines(), ["rejected wrong_result", "rejected compile_error"])

    def test_errors_are_exceptions_with_a_remedy(self):
        wrong = self.write("wrong.cu", WRONG)
        out = self.python(f"""
            import cupel
            for call in (lambda: cupel.check("no_such.cu", "mnist_linear"),
                         lambda: cupel.check({str(wrong)!r}, "no_such_task"),
                         lambda: cupel.check(task="mnist_linear"),
                         lambda: cupel.bench({str(wrong)!r}, "mnist_linear", device="emu"),
                         lambda: cupel.export({str(wrong)!r}, "mnist_linear", output="x", device="emu",
                                              options=["--trials", "1"])):
                try:
                    call()
                    print("no error")
                except cupel.CupelError as error:
                    print(error.message.splitlines()[0][:60] if error.status == 2 else error.status)
            """).splitlines()
        self.assertEqual(len(out), 5, out)
        self.assertIn("no_such.cu", out[0])
        self.assertIn("no_such_task", out[1])
        self.assertEqual(out[2], "give either a kernel's path or its source")
        self.assertNotIn("no error", out)

    def test_missing_toolkit_is_one_message_with_a_remedy(self):
        kernel = self.write("kernel.cu", kernels.LINEAR)
        done = self.run_in_venv(self.bin / "cupel", "check", kernel, "--task", "mnist_linear", "--device", "emu",
                                CUPEL_NVCC="/no/such/nvcc")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("CUPEL_NVCC", done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        message, remedy = done.stderr.strip().splitlines()[-2:]  # after the progress
        self.assertTrue(message.startswith("cupel: ") and remedy.startswith("       "), done.stderr)

    def test_python_without_pytorch_is_one_message_with_a_remedy(self):
        kernel = self.write("kernel.cu", kernels.LINEAR)
        bare = self.bin / "python"
        done = self.run_in_venv("cupel", "check", kernel, "--task", "mnist_linear", "--device", "emu",
                                CUPEL_PYTHON=str(bare))
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(f"PyTorch was not found by {bare}", done.stderr)
        self.assertIn("pip install torch", done.stderr)

    def test_finds_nvcc_of_the_pip_packages(self):
        """A toolkit on PATH goes first."""
        site = pathlib.Path(self.python("import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        packaged = site / "nvidia" / "cu13" / "bin"
        toolkit = self.folder / "toolkit" / "bin"
        for folder in (packaged, toolkit):
            folder.mkdir(parents=True)
            nvcc = folder / "nvcc"
            nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 99.1, V99.1.2'\n")
            nvcc.chmod(0o755)
            self.addCleanup(nvcc.unlink)
        for path, found in ((os.defpath, packaged), (f"{toolkit}{os.pathsep}{os.defpath}", toolkit)):
            done = self.run_in_venv(self.bin / "cupel", "doctor", PATH=path, CUDA_HOME="", CUPEL_NVCC="")
            self.assertIn(str(found / "nvcc"), done.stdout)


if __name__ == "__main__":
    unittest.main()
