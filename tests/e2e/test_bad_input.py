"""Wrong usage and broken environments: one clear message, the correct exit status, nothing left behind."""
import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

import kernels
from support import CUPEL, CupelTest


def children_of(pid):
    """Processes whose parent is `pid`."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def descendants_of(pid):
    found = children_of(pid)
    for child in list(found):
        found += descendants_of(child)
    return found


class BrokenEnvironment(CupelTest):
    def test_no_nvcc(self):
        env = {**self.environment(), "CUPEL_NVCC": "/nonexistent/nvcc", "CUPEL_CACHE": str(self.folder / "cache")}
        done = self.cupel("check", self.write("k.cu", kernels.LINEAR), "--task", "mnist_linear", env=env)
        self.assertEqual(done.status, 2, done)
        self.assertIn("nvcc", done.err)
        self.assertIn("set it to", done.err)

    def test_no_pytorch(self):
        env = {**self.environment(), "CUPEL_PYTHON": "/bin/false", "CUPEL_CACHE": str(self.folder / "cache")}
        done = self.cupel("check", self.write("k.cu", kernels.LINEAR), "--task", "mnist_linear", env=env)
        self.assertEqual(done.status, 2, done)
        self.assertIn("CUPEL_PYTHON is /bin/false: /bin/false does not work as Python", done.err)
        self.assertIn("set it to a Python that has PyTorch", done.err)

    def test_full_disk(self):
        mount = self.folder / "small"
        mount.mkdir()
        if os.geteuid() != 0 or subprocess.run(
                ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", mount], capture_output=True).returncode:
            self.skipTest("needs the right to mount a small file system")
        try:
            env = {**self.environment(), "CUPEL_CACHE": str(mount)}
            done = self.cupel("check", self.write("k.cu", kernels.LINEAR), "--task", "mnist_linear",
                              "--settings", "single", env=env)
            self.assertEqual(done.status, 2, done)
            self.assertIn("space", (done.err + done.out).lower())
        finally:
            subprocess.run(["umount", mount], check=True)


class KilledCompiler(CupelTest):
    def test_a_killed_compiler_is_an_error_not_a_rejection(self):
        kernel = self.write("k.cu", kernels.LINEAR + "// compiled here for the first time")
        env = {**self.environment(), "CUPEL_CACHE": str(self.folder / "cache")}
        process = subprocess.Popen([CUPEL, "check", str(kernel), "--task", "mnist_linear", "--settings", "single"],
                                   env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        killed = False
        while not killed and process.poll() is None:
            for pid in descendants_of(process.pid):
                try:
                    name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
                    if name == "cicc":
                        os.kill(pid, signal.SIGKILL)
                        killed = True
                        break
                except OSError:
                    continue
            time.sleep(0.005)
        out, err = process.communicate(timeout=120)
        self.assertTrue(killed)
        self.assertEqual(process.returncode, 2, out + err)
        self.assertIn("not by cupel", err)


class BadTasks(CupelTest):
    def folder_task(self, **files):
        task = self.folder / "task"
        task.mkdir(exist_ok=True)
        for name, text in files.items():
            (task / name.replace("_json", ".json").replace("_py", ".py")).write_text(text)
        return task

    def refuse(self, task, *words):
        done = self.cupel("check", self.write("k.cu", kernels.LINEAR), "--task", task, "--settings", "single")
        self.assertEqual(done.status, 2, done)
        for word in words:
            self.assertIn(word, done.err)
        self.assertNotIn("Traceback", done.err)

    def test_no_such_task(self):
        self.refuse("no_such_task", "no_such_task", "known tasks")

    def test_a_folder_without_configs(self):
        self.refuse(self.folder_task(func_forward_py="x = 1"), "config_forward.json")

    def test_malformed_json(self):
        self.refuse(self.folder_task(func_forward_py="x = 1", config_forward_json='{"single_input_configs": [}'),
                    "config_forward.json", "line 1")

    def test_task_code_that_does_not_load(self):
        self.refuse(self.folder_task(func_forward_py="import does_not_exist", config_forward_json="{}"),
                    "does_not_exist")


class Usage(CupelTest):
    def test_an_error_report_replaces_an_earlier_report(self):
        facts = self.write("facts.json", '{"verdict": "accepted"}')
        done = self.cupel("check", self.folder / "nowhere.cu", "--task", "mnist_linear", "--json", facts)
        self.assertEqual(done.status, 2, done)
        report = json.loads(facts.read_text())
        self.assertEqual((report["schema"], report["status"]), ("cupel.error/1", 2))
        self.assertIn("nowhere.cu", report["error"])

    def test_a_reference_larger_than_memory_is_an_error(self):
        problem = self.write("huge.py", """import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.ones(1 << 44)]

def get_init_inputs():
    return []
""")
        kernel = self.write("kernel.cu", kernels.LINEAR)
        done = self.cupel("check", kernel, "--task", problem, "--settings", "single", "--device", "emu")
        self.assertEqual(done.status, 2, done)
        self.assertIn("more than half of the free memory", done.out)
        self.assertIn("cupel task import", done.out)

    def test_no_such_kernel(self):
        done = self.cupel("check", self.folder / "none.cu", "--task", "mnist_linear")
        self.assertEqual(done.status, 2, done)
        self.assertIn("none.cu", done.err)

    def test_wrong_options(self):
        for args in (["check"], ["frobnicate"], ["check", "k.cu", "--task", "mnist_linear", "--device", "tpu"],
                     ["optimize"], ["check", "k.cu", "--task", "mnist_linear", "--settings", "some"]):
            with self.subTest(args=args):
                done = subprocess.run([CUPEL, *args], capture_output=True, text=True, cwd=self.folder,
                                      env=self.environment())
                self.assertEqual(done.returncode, 2, done)
                self.assertTrue(done.stderr.strip())

    def test_suggests_corrections_of_misspelt_names(self):
        for args, meant in ((["chekc", "k.cu"], "did you mean check?"), (["task", "shwo", "softmax"], "did you mean show?"),
                            (["task", "show", "sofmtax"], "did you mean softmax?"), (["task"], "import")):
            with self.subTest(args=args):
                done = subprocess.run([CUPEL, *args], capture_output=True, text=True, env=self.environment())
                self.assertEqual(done.returncode, 2, done)
                self.assertIn(meant, done.stderr)

    def test_rejects_a_forbidden_flag(self):
        done = self.check(kernels.LINEAR, "--flag=-Xcompiler=-fplugin=/tmp/x.so")
        self.assertEqual(done.status, 2, done)
        self.assertIn("-fplugin", done.err)

    def test_a_verdict_that_cannot_be_written_is_an_error(self):
        kernel = self.write("k.cu", kernels.LINEAR)
        args = [CUPEL, "check", str(kernel), "--task", "mnist_linear", "--settings", "single"]
        with open("/dev/full", "w") as full:
            done = subprocess.run(args, stdout=full, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                  env=self.environment())
        self.assertEqual(done.returncode, 2, done)
        done = subprocess.run([*args, "--json", "/dev/full"], capture_output=True, text=True, cwd=self.folder,
                              env=self.environment())
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("ACCEPTED", done.stdout)
        self.assertTrue(pathlib.Path("/dev/full").is_char_device())

    def test_reports_a_missing_gpu_in_one_sentence(self):
        # No machine has GPU number 4096.
        done = self.cupel(
            "check", self.write("k.cu", kernels.LINEAR), "--task", "mnist_linear", "--device", "gpu:4096")
        self.assertEqual(done.status, 2, done)
        self.assertRegex(done.err, "no NVIDIA driver|there is no GPU 4096")
        for device in ("gpu:", "gpu:x", "gpus", "cpu"):
            done = self.cupel(
                "check", self.write("k.cu", kernels.LINEAR), "--task", "mnist_linear", "--device", device)
            self.assertEqual(done.status, 2, done)
            self.assertIn("neither emu nor gpu", done.err)
        done = self.cupel("optimize", "mnist_linear", "--device", "gpu:4096")
        self.assertEqual(done.status, 2, done)
        self.assertIn("--device emu", done.err)


class Interrupted(CupelTest):
    def test_ctrl_c_leaves_nothing_behind(self):
        scratch = self.folder / "scratch"
        scratch.mkdir()
        kernel = self.write("k.cu", kernels.LINEAR + "// not in any cache\n")
        env = {**self.environment(), "TMPDIR": str(scratch)}
        before = set(pathlib.Path("/dev/shm").iterdir())
        process = subprocess.Popen([CUPEL, "check", str(kernel), "--task", "mnist_linear", "--settings", "single"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=self.folder)
        deadline = time.monotonic() + 10
        while not children_of(process.pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.4)  # the compiler runs and PyTorch starts; neither has finished
        started = children_of(process.pid)
        self.assertTrue(started)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130, out + err)
        self.assertIn("interrupted", err)
        time.sleep(0.2)
        self.assertFalse([p for p in started if pathlib.Path(f"/proc/{p}").exists()])
        self.assertEqual(list(scratch.iterdir()), [])
        self.assertEqual({p for p in set(pathlib.Path("/dev/shm").iterdir()) - before if p.name.startswith("cupel")},
                         set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
