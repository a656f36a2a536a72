"""cupel export: the package can be installed, its README is true, and its operators equal the task's
reference. They are tested on the CPU, with a Python function instead of each kernel."""
import json
import os
import pathlib
import py_compile
import shutil
import subprocess
import sys
import unittest

from support import SOURCE, CupelTest

HELPERS = pathlib.Path(__file__).parent / "export"
HOSTILE = 'Quote " and \\ and """ and \'\'\'\nimport os; os.abort() `code` | [link](x) \x7f\u202e'

MODEL = """
class Model(nn.Module):
    def __init__(self, **kwargs):
        super().__init__()
        self.arguments = kwargs
    def forward(self, *inputs, fn=forward_fn):
        return fn(*inputs, *self.arguments.values())
"""

NORM = """
import torch, torch.nn as nn, torch.nn.functional as F
def forward_fn(x, weight, eps=1e-5):
    return F.layer_norm(x, tuple(weight.shape), weight, None, eps)
""" + MODEL + """
def get_inputs(rows=3):
    return [torch.randn(rows, 8), torch.randn(8)]
"""
NORM_BACKWARD = """
class AutogradFunction(torch.autograd.Function):
    backward_fn = None
    @staticmethod
    def forward(ctx, x, weight, eps):
        shape = tuple(weight.shape)
        ctx.save_for_backward(x, weight)
        ctx.eps, ctx.shape = eps, shape
        return F.layer_norm(x, shape, weight, None, eps)
    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        a, b = AutogradFunction.backward_fn(grad, (x, weight), ctx.eps, ctx.shape)
        return a, b, None
"""
RECOMPUTED = NORM_BACKWARD.replace("save_for_backward(x, weight)", "save_for_backward(x, weight, x.mean(-1))"
                                   ).replace("x, weight = ctx", "x, weight, mean = ctx"
                                             ).replace("ctx.shape)", "mean)").replace("ctx.shape = eps, shape",
                                                                                     "ctx.other = eps, shape")
NORM_STANDIN = """
import torch, torch.nn.functional as F
def forward(x, weight, eps):
    return F.layer_norm(x, (8,), weight, None, eps)
def backward(grad, pair, eps, shape):
    assert isinstance(pair, tuple) and eps == 1e-3
    assert shape == (8,) if isinstance(shape, tuple) else shape.shape == (pair[0].size(0),)
    x, w = pair  # custom operators run below autograd, which enable_grad does not change
    _, mean, rstd = torch.native_layer_norm(x, (8,), w, None, eps)
    return list(torch.ops.aten.native_layer_norm_backward(grad, x, (8,), mean, rstd, w, None, (True, True, False))[:2])
"""

# The backward pass gets the sum as a constant: y = x / total, and total depends on x.
SHARES = """
import torch, torch.nn as nn
def forward_fn(x):
    return x / x.sum(-1, keepdim=True)
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)
def get_inputs(rows=3, dtype="float32"):
    return [1 + torch.rand(rows, 8).to(getattr(torch, dtype))]
"""
GIVEN_SHARES = """
import torch, torch.nn as nn
def forward_fn(x, total):
    return x / total - (x / total).detach() * (x.sum(-1, keepdim=True) - x.detach().sum(-1, keepdim=True)) / total
class AutogradFunction(torch.autograd.Function):
    backward_fn = None
    @staticmethod
    def forward(ctx, x, total):
        ctx.save_for_backward(x, total)
        return x / total
    @staticmethod
    def backward(ctx, grad):
        return AutogradFunction.backward_fn(grad, *ctx.saved_tensors), None
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x, total=x.detach().sum(-1, keepdim=True))
def get_inputs(rows=3, dtype="float32"):
    return [(1 + torch.rand(rows, 8)).to(getattr(torch, dtype)).requires_grad_()]
"""
SHARES_STANDIN = """
def forward(x):
    return x / x.sum(-1, keepdim=True)
def backward(grad, x, total):
    return [grad / total - (grad * x).sum(-1, keepdim=True) / (total * total)]
"""

SEVERAL = """
import torch, torch.nn as nn
def forward_fn(x, pair, torch, bias, sizes, flag, word):
    y = x * pair[0] + pair[1] + (0 if bias is None else bias)
    return (y.reshape(sizes) if flag else y), None, y.argmax(-1)
""" + MODEL + """
def get_inputs(rows=4, bias=True):
    return [torch.randn(rows, 6), (torch.randn(6), torch.randn(6)), 3, torch.randn(6) if bias else None,
            (rows * 2, 3), True, "sum"]
"""
SEVERAL_STANDIN = """
def forward(x, pair, three, bias, sizes, flag, word):
    assert three == 3 and isinstance(sizes, tuple) and isinstance(pair, tuple) and flag and word == "sum"
    y = x * pair[0] + pair[1] + (0 if bias is None else bias)
    return y.reshape(sizes), None, y.argmax(-1)
"""

PROBLEM = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear, self.norm = nn.Linear(features, 5), nn.BatchNorm1d(5)
    def forward(self, x, scale):
        return self.norm(self.linear(x)) * scale
def get_inputs():
    return [torch.randn(16, 7), 2.0]
def get_init_inputs():
    return [7]
"""
PROBLEM_STANDIN = """
import torch.nn.functional as F
def forward(x, scale, w, b, nw, nb, mean, var, count):
    return F.batch_norm(F.linear(x, w, b), None, None, nw, nb, True) * scale
"""


def setting(identity="single-0", scales=(1e-6, 1e-6, 1e-6), **inputs):
    return {"id": identity, "init": inputs.pop("init", {}), "inputs": inputs, "reduced": "",
            "scales": list(scales)}


class ExportTest(CupelTest):
    def python(self):
        for python in filter(None, [os.environ.get("CUPEL_PYTHON"), sys.executable, "/usr/bin/python3"]):
            if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
                return python
        raise unittest.SkipTest("needs PyTorch")

    def run_package(self, package, name, standin):
        """Runs the package's own test, with Python functions instead of its kernels."""
        standins = self.write("standins.py", standin)
        # Packages of these tests have operators of one name with different arguments: no common cache.
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor")}
        return subprocess.run([self.python(), "-B", HELPERS / "run_package.py", package, name, standins],
                              capture_output=True, text=True, env=environment)

    def assert_well_formed(self, package):
        for path in package.rglob("*.py"):
            py_compile.compile(str(path), cfile=str(self.folder / "compiled"), doraise=True)
        try:
            import tomllib
        except ImportError:
            return
        self.assertIn("project", tomllib.loads((package / "pyproject.toml").read_text()))


class Generation(ExportTest):
    """Tests report/export.py with made-up facts about the kernels."""
    kernel_code = ""

    def wire(self, request):
        done = subprocess.run([self.python(), SOURCE / "src/oracle/py/wiring.py"], input=json.dumps(request),
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def generate(self, codes, settings, name="op", title="A title", kind="folder", wiring=None, verdict=None,
                 **more):
        parts, request = {}, {}
        for direction, code in codes.items():
            reference = self.write("func_%s.py" % direction, code)
            kernel = self.write(direction + ".cu", self.kernel_code + "// " + direction)
            request[direction] = {"path": str(reference), "direction": direction, "name": "t", "hash": "h",
                                  "format": kind, "settings": settings}
            parts[direction] = {"kernel": str(kernel), "reference": str(reference), "flags": ["-O3"],
                                "verdict": verdict or {"verdict": "accepted"}, "settings": settings}
        wiring = wiring or self.wire(request)
        spec = {"version": "0", "name": name, "task": {"name": "t", "title": title, "format": kind},
                "arch": "sm_90", "include_roots": [], "wiring": wiring, "backward": None,
                "record": None, "record_name": "", "record_note": "", **parts, **more}
        folder = self.folder / "package"
        done = subprocess.run([sys.executable, "-B", SOURCE / "src/report/export.py",
                               self.write("spec.json", json.dumps(spec)), folder],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        reply = json.loads(done.stdout)
        if "name" in reply:
            self.assert_well_formed(folder)
        return folder, reply, wiring

    def assert_right(self, folder, reply, standin):
        done = self.run_package(folder, reply["name"], standin)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_values_that_derive_from_shapes(self):
        folder, reply, wiring = self.generate(
            {"forward": NORM, "backward": NORM + NORM_BACKWARD},
            [setting(init={"eps": 1e-3}), setting("multi-0", init={"eps": 1e-3}, rows=5)])
        self.assertFalse(wiring["backward"]["recompute"])
        self.assert_right(folder, reply, NORM_STANDIN)
        text = (folder / "src/op/ops.py").read_text()
        self.assertIn("float eps", text)
        self.assertIn("def call(x, weight, eps=1e-05)", text)

    def test_tensors_that_only_the_task_can_compute(self):
        folder, reply, wiring = self.generate({"forward": NORM, "backward": NORM + RECOMPUTED},
                                              [setting(init={"eps": 1e-3})])
        self.assertTrue(wiring["backward"]["recompute"])
        self.assert_right(folder, reply, NORM_STANDIN)
        self.assertIn("runs once more", (folder / "README.md").read_text())

    def test_constants_that_the_model_computes_for_the_backward_pass(self):
        folder, reply, wiring = self.generate({"forward": SHARES, "backward": GIVEN_SHARES}, [
            setting(scales=(1e-6,)), setting("multi-0", scales=(1e-14,), dtype="float64")])
        self.assertEqual(wiring["backward"]["settings"][0]["given"], 1)
        self.assert_right(folder, reply, SHARES_STANDIN)
        self.assertIn("computed once more", (folder / "README.md").read_text())
        done = self.run_package(folder, reply["name"], SHARES_STANDIN.replace("total * total", "total"))
        self.assertIn("RMS error", done.stderr)
        # A model with parameters cannot be made without the caller's.
        shutil.rmtree(folder)
        state = GIVEN_SHARES.replace("    def forward(self, x, fn", "    def __init__(self):\n        super().__init__()\n"
                                     "        self.w = nn.Parameter(torch.ones(1))\n    def forward(self, x, fn")
        _, reply, _ = self.generate({"forward": SHARES, "backward": state}, [setting(scales=(1e-6,))])
        self.assertIn("with different arguments", reply["unsupported"])

    def test_many_kinds_of_arguments_and_results(self):
        settings = [setting(), setting("multi-0", bias=False, rows=2)]
        folder, reply, _ = self.generate({"forward": SEVERAL}, settings)
        self.assert_right(folder, reply, SEVERAL_STANDIN)
        self.assertIn("(Tensor x, Tensor[] pair, SymInt arg_2, Tensor? bias, SymInt[] sizes, bool flag, "
                      "str word) -> (Tensor, Tensor)", (folder / "src/op/ops.py").read_text())
        # The test detects a kernel that computes something else.
        done = self.run_package(folder, reply["name"], SEVERAL_STANDIN.replace("+ pair[1]", "- pair[1]"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("RMS error", done.stderr)

    def test_kernels_that_call_the_driver_are_linked_with_it(self):
        def setup(code):
            self.kernel_code = code
            folder, _, _ = self.generate({"forward": SEVERAL}, [setting()])
            text = (folder / "setup.py").read_text()
            shutil.rmtree(folder)
            return text
        self.assertNotIn("libraries=", setup("cudaFuncSetAttribute(k, 0, 0);  cutlass(1); // cuBLAS, cu"))
        linked = setup("static const auto error = cuTensorMapEncodeTiled (&map);")
        self.assertIn('libraries=["cuda"], library_dirs=[STUBS]', linked)

    def test_a_module_as_problem(self):
        folder, reply, _ = self.generate({"forward": PROBLEM}, [setting()], kind="kernelbench")
        self.assert_right(folder, reply, PROBLEM_STANDIN)

    def test_escapes_untrusted_text(self):
        record = {"schema": "cupel.bench/1", HOSTILE: HOSTILE, "settings": [{"id": HOSTILE, "us": 1.5}]}
        wiring = None
        for name, expected in (("class", "class_op"), ("../../x; import os", "x__import_os"),
                               ("2 fast", "kernel_2_fast"), ("torch", "torch_op"), ("json", "json_op"),
                               (HOSTILE, None), ("", "kernel")):
            folder, reply, wiring = self.generate(
                {"forward": SEVERAL}, [setting()], name=name, title=HOSTILE, wiring=wiring, record=record,
                record_name=HOSTILE, include_roots=[HOSTILE])
            self.assertTrue(reply["name"].isidentifier(), reply)
            if expected:
                self.assertEqual(reply["name"], expected)
            self.assertNotIn("\nimport os", (folder / "README.md").read_text())
            self.assertEqual(json.loads((folder / "record.json").read_text()), record)
            shutil.rmtree(folder)

    def test_readme_lists_limits_and_smaller_sizes(self):
        smaller = dict(setting(rows=3), reduced="rows=3 (of 4096)")
        verdict = {"verdict": "accepted", "notes": ["limit: drops NaN (single-0)"], "not_checked": ["speed on a GPU"],
                   "exploration": {"limits": [{"code": "illegal_launch", "message": "cannot be launched from rows=65536 on"}]},
                   "settings": [{"id": "single-0", "description": "rows=3", "reduced": smaller["reduced"]}]}
        folder, reply, _ = self.generate({"forward": SEVERAL}, [smaller, setting("multi-0", rows=2)], verdict=verdict)
        readme = (folder / "README.md").read_text()
        self.assertLess(readme.index("- limit: cannot be launched from rows=65536 on"), readme.index("| setting |"))
        for text in ("- limit: drops NaN (single-0)", "- Not checked: speed on a GPU", "- Not tested by this",
                     "rows=3), smaller: rows=3 (of 4096) |"):
            self.assertIn(text, readme)
        done = self.run_package(folder, reply["name"], SEVERAL_STANDIN)
        self.assertIn("forward single-0 at rows=3 (of 4096): correct", done.stdout)
        self.assertIn("forward multi-0: correct", done.stdout)

    def test_rejects_tasks_that_cannot_be_exported(self):
        self.write("neighbour.py", "")
        _, reply, _ = self.generate({"forward": "import neighbour\n" + SEVERAL}, [setting()])
        self.assertIn("imports neighbour", reply["unsupported"])
        mixed = SEVERAL.replace('True, "sum"]', 'True if rows == 4 else "no", "sum"]')
        _, reply, _ = self.generate({"forward": mixed}, [setting(), setting("multi-0", rows=2)])
        self.assertIn("depending on the setting", reply["unsupported"])


class Command(ExportTest):
    def setUp(self):
        super().setUp()
        self.task = self.folder / "small"
        self.task.mkdir()
        for name in ("func_forward.py", "func_backward.py", "forward.cu", "backward.cu"):
            shutil.copy(SOURCE / "tasks/mnist_linear" / name, self.task)
        for direction in ("forward", "backward"):
            config = json.loads((SOURCE / ("tasks/mnist_linear/config_%s.json" % direction)).read_text())
            config = {k: v for k, v in config.items() if k.startswith("single")}
            (self.task / ("config_%s.json" % direction)).write_text(json.dumps(config))
        self.target = self.folder / "made"

    def export(self, *args, kernel=None):
        return self.cupel("export", kernel or self.task / "forward.cu", "--task", self.task, "-o", self.target,
                          "--device", "emu", "--trials", "1", *args)

    def test_both_directions(self):
        record = self.write("bench.json", json.dumps({"schema": "cupel.bench/1", "gpu": "Some GPU",
                                                      "settings": [{"id": "single-0", "median_us": 12.5}]}))
        report = self.folder / "export.json"
        done = self.export("--backward-kernel", self.task / "backward.cu", "--name", "My Linear",
                           "--record", record, "--json", report)
        self.assertEqual(done.status, 0, done)
        self.assertEqual(json.loads(report.read_text())["package"], "my_linear")
        self.assert_well_formed(self.target)
        self.assertEqual((self.target / "csrc/forward.cu").read_bytes(),
                         (self.task / "forward.cu").read_bytes())
        readme = (self.target / "README.md").read_text()
        self.assertIn("**Backward: accepted**", readme)
        self.assertIn("12.5", readme)
        self.assertIn("does not name the source", readme)
        standin = ("import torch.nn.functional as F\nforward = F.linear\n"
                   "def backward(g, x, w):\n    return [g @ w, g.t() @ x, g.sum(0)]\n")
        done = self.run_package(self.target, "my_linear", standin)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.run_package(self.target, "my_linear", standin.replace("g.sum(0)", "g.sum(0) * 1.001"))
        self.assertIn("gradients single-0, result 2", done.stderr)
        without_kernels = {**os.environ, "PYTHONPATH": str(self.target / "src")}
        done = subprocess.run([self.python(), "-B", "-m", "my_linear.test"], capture_output=True, text=True,
                              env=without_kernels)
        self.assertIn("ImportError: the kernels of my_linear are not built: run", done.stderr)
        if subprocess.run([self.python(), "-c", "import sys, torch; sys.exit(torch.version.cuda is None)"]).returncode:
            done = subprocess.run([self.python(), "-B", "setup.py", "build_ext"], capture_output=True, text=True,
                                  cwd=self.target)
            self.assertRegex(done.stderr, "^PyTorch .* is built without CUDA: install a CUDA build of PyTorch$")
        # cupel leaves no temporary files next to the package.
        self.assertEqual([p.name for p in self.folder.glob("cupel-*")], [])

    def test_exports_a_rejected_kernel_only_with_force(self):
        text = (self.task / "forward.cu").read_text()
        wrong = self.write("wrong.cu", text.replace("sum + biases[column]", "sum"))
        done = self.export(kernel=wrong)
        self.assertEqual(done.status, 1, done)
        self.assertIn("Not exported", done.out)
        self.assertFalse(self.target.exists())
        done = self.export("--force", kernel=wrong)
        self.assertEqual(done.status, 0, done)
        readme = (self.target / "README.md").read_text()
        self.assertIn("was **not** accepted", readme)
        self.assertIn("Not measured.", readme)

    def test_rejects_invalid_arguments_before_any_work(self):
        self.target.mkdir()
        (self.target / "mine").write_text("precious")
        done = self.export()
        self.assertEqual((done.status, "not an empty folder" in done.err), (2, True), done)
        self.assertEqual((self.target / "mine").read_text(), "precious")
        (self.target / "mine").unlink()
        other = self.write("other.json", json.dumps({"schema": "cupel.bench/1", "source_sha256": "0" * 64}))
        done = self.export("--record", other)
        self.assertEqual((done.status, "another kernel" in done.err), (2, True), done)
        done = self.export("--record", self.write("no.json", "[]"))
        self.assertEqual((done.status, "not a record" in done.err), (2, True), done)
        self.assertEqual(list(self.target.iterdir()), [])


class Confirm(CupelTest):
    def test_needs_a_gpu(self):
        if pathlib.Path("/dev/nvidiactl").exists():
            self.skipTest("this machine has a GPU")
        done = self.cupel("confirm", SOURCE / "tasks/mnist_linear/forward.cu", "--task", "mnist_linear")
        self.assertEqual(done.status, 2, done)
        self.assertIn("unsupported on this machine", done.err)
        self.assertIn("use cupel check --device emu", done.err)


if __name__ == "__main__":
    unittest.main()
