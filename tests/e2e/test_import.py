"""cupel task import and Python answers: an imported folder and its problem file are the same task."""
import contextlib
import json
import sqlite3
import unittest

from support import CupelTest, ci_share, codes_of

PROBLEM = '''import torch
import torch.nn as nn

class Model(nn.Module):
    """A linear layer, scaled, and ReLU."""
    def __init__(self, in_features, out_features, scale):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scale = scale

    def forward(self, x):
        return torch.relu(self.linear(x) * self.scale)

batch_size, in_features = 16, 64
out_features = in_features - 16
scale = 2.0

def get_inputs():
    return [torch.randn(batch_size, in_features)]

def get_init_inputs():
    return [in_features, out_features, scale]
'''
KERNEL = '''
#include <torch/extension.h>
__global__ void linear(const float* x, const float* w, const float* b, float* y, int rows, int in,
                       int out, float scale) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * out) return;
  float sum = 0;
  for (int k = 0; k < in; ++k) sum += x[i / out * in + k] * w[i % out * in + k];
  y[i] = fmaxf((sum + b[i % out]) * scale, 0.0f);
}
torch::Tensor fused(torch::Tensor x, torch::Tensor w, torch::Tensor b, double scale) {
  auto y = torch::empty({x.size(0), w.size(0)}, x.options());
  linear<<<(y.numel() + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(),
      b.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1), w.size(0), scale);
  return y;
}
'''
CANDIDATE = KERNEL + '''
torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) { return fused(x, w, b, 2); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
'''
ANSWER = '''open("was_run", "w").close()
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline
source = """''' + KERNEL + '''"""
op = load_inline(name="op", cpp_sources="torch::Tensor fused(torch::Tensor x, torch::Tensor w, "
                 "torch::Tensor b, double scale);", cuda_sources=source, functions=["fused"])

class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, scale):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features))
        self.bias = nn.Parameter(torch.randn(out_features))
        self.scale = scale

    def forward(self, x):
        if not x.is_cuda:
            raise ValueError("CUDA alone")
        return op.fused(x, self.weight, self.bias, SCALE)
'''
FAST = ["--device", "emu", "--settings", "single", "--trials", "1", "--distributions", "none",
        "--seed", "3"]


@ci_share(2)
class ImportTest(CupelTest):
    def setUp(self):
        super().setUp()
        self.problem = self.write("fused.py", PROBLEM)

    def imported(self, *args):
        done = self.cupel("task", "import", self.problem, "-o", self.folder / "out", *args)
        self.assertEqual(done.status, 0, done)
        return self.folder / "out" / "fused"

    def test_notes_a_forward_that_changes_its_inputs(self):
        problem = self.write("inplace.py", """import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x, scale):
        x.mul_(scale)
        return self.norm(x)

def get_inputs():
    return [torch.randn(4, 8), torch.rand(8)]

def get_init_inputs():
    return []
""")
        done = self.cupel("task", "import", problem, "-o", self.folder / "out")
        self.assertEqual(done.status, 0, done)
        text = (self.folder / "out/inplace/func_forward.py").read_text()
        self.assertIn("forward changes x in place", text)

    def test_the_folder_equals_the_problem_file(self):
        folder = self.imported()
        text = (folder / "func_forward.py").read_text()
        self.assertIn("def get_inputs(batch_size=16, in_features=64):", text)
        self.assertIn("scale = 2.0", text)
        single = json.loads((folder / "config_forward.json").read_text())
        self.assertEqual(single, {"single_input_configs": [{"batch_size": 16}],
                                  "single_shared_configs": [{"in_features": 64}]})
        kernel = self.write("kernel.cu", CANDIDATE)
        wrong = self.write("wrong.cu", CANDIDATE.replace("w, b, 2)", "w, b, 3)"))
        for task in (self.problem, folder):
            self.assertEqual(self.cupel("check", kernel, "--task", task, *FAST).status, 0)
            done = self.cupel("check", wrong, "--task", task, *FAST)
            self.assertEqual(done.codes, {"wrong_result"}, done)
        # Sizes that are not listed are derived from the keyword arguments.
        shown = self.cupel("task", "show", folder).json["forward"]["settings"]
        self.assertIn("batch_size=1", [s["derived"] for s in shown])
        again = self.cupel("task", "import", self.problem, "-o", self.folder / "out")
        self.assertEqual(again.status, 2, again)
        self.assertIn("--force", again.out)

    def test_files_written_for_a_gpu(self):
        text = PROBLEM.replace("in_features)]", "in_features).cuda()]")
        text = text.replace("nn.Linear(in_features, out_features)", 'nn.Linear(in_features, out_features).to("cuda:0")')
        text = text.replace("* self.scale", "* torch.full((1,), self.scale, device=torch.device('cuda'))")
        self.write("fused.py", text)
        folder = self.imported()
        self.assertIn("names CUDA devices", (folder / "func_forward.py").read_text())
        kernel = self.write("kernel.cu", CANDIDATE)
        for task in (self.problem, folder):
            done = self.cupel("check", kernel, "--task", task, *FAST)
            self.assertEqual(done.status, 0, done)
        report = self.folder / "all.json"
        self.cupel("task", "import", self.problem, "--report", report)
        self.assertEqual(json.loads(report.read_text())["counts"]["clean"], 1)

    def test_input_functions_on_one_line(self):
        text = PROBLEM.replace("get_inputs():\n    return", "get_inputs(\n): return")
        self.write("fused.py", text.replace("get_init_inputs():\n    return", "get_init_inputs(): return"))
        folder = self.imported()
        text = (folder / "func_forward.py").read_text()
        self.assertIn("def get_inputs(batch_size=16, in_features=64):", text)
        self.assertEqual(self.cupel("check", self.write("kernel.cu", CANDIDATE), "--task", folder, *FAST).status, 0)

    def test_rejects_files_that_cannot_be_a_task(self):
        random = self.write("random.py", PROBLEM.replace("torch.relu(", "nn.functional.dropout("))
        done = self.cupel("task", "import", random)
        self.assertEqual(done.status, 3, done)
        self.assertIn("unsupported: forward draws random numbers", done.out)
        self.assertFalse((self.folder / "random").exists())
        broken = self.write("broken.py", PROBLEM.replace("return torch.relu", "return (torch.relu", 1))
        done = self.cupel("task", "import", broken)
        self.assertRegex(done.out + done.err, r"broken\.py:\d+: ")
        other = self.write("other.py", PROBLEM.replace("class Model", "class Net").replace(
            "get_inputs", "example"))
        done = self.cupel("task", "import", other)
        self.assertIn("give its name with --module: Net", done.out)
        done = self.cupel("task", "import", other, "--module", "Net", "--inputs", "example",
                          "--name", "net")
        self.assertEqual(done.status, 0, done)
        self.assertTrue((self.folder / "net" / "problem.py").exists())

    def test_an_existing_folder_does_not_stop_other_imports(self):
        self.imported()
        other = self.write("other.py", PROBLEM)
        facts = self.folder / "facts.json"
        done = self.cupel("task", "import", self.problem, other, "-o", self.folder / "out", "--json", facts)
        self.assertEqual(done.status, 1, done)
        self.assertIn("--force", done.out)
        problems = {p["problem"]: p for p in json.loads(facts.read_text())["problems"]}
        self.assertIn("exists", problems["fused"]["refusal"])
        self.assertEqual(problems["other"]["refusal"], "")
        self.assertEqual(problems["other"]["sizes"]["batch_size"], 16)
        self.assertTrue((self.folder / "out/other/func_forward.py").exists())

    def test_an_unreadable_file_does_not_stop_a_report(self):
        tasks = self.folder / "tasks"
        tasks.mkdir()
        for name in ("1_there", "3_good"):
            (tasks / f"{name}.py").write_text(PROBLEM)
        (tasks / "2_large.py").write_text("#" * (5 << 20))
        (self.folder / "out/1_there").mkdir(parents=True)
        report = self.folder / "all.json"
        args = ("task", "import", tasks, "-o", self.folder / "out", "--jobs", "1")
        found = {}
        for extra in (("--report", report), ("--report", report, "--force"), ("--json", self.folder / "j.json", "--force")):
            self.cupel(*args, *extra)
            found[extra] = json.loads((self.folder / "j.json" if "--json" in extra else report).read_text())
        first, second, third = ([p["refusal"] for p in one["problems"]] for one in found.values())
        self.assertIn("exists", first[0])
        self.assertIn("2_large.py", first[1])
        self.assertEqual(first[2], "")
        for later in (second, third):
            self.assertEqual(later, ["", first[1], ""])

    def test_rejects_a_path_as_name(self):
        done = self.cupel("task", "import", self.problem, "--name", "../escaped", "-o", self.folder / "out")
        self.assertEqual(done.status, 2, done)
        self.assertFalse((self.folder / "escaped").exists())

    def test_reduces_the_batch_before_other_sizes(self):
        problem = self.write("attention.py", """import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, q, k):
        return torch.softmax(q @ k.transpose(-2, -1), dim=-1)

batch_size, heads, length, width = 64, 12, 64, 32

def get_inputs():
    return [torch.randn(batch_size, heads, length, width), torch.randn(batch_size, heads, length, width)]

def get_init_inputs():
    return []
""")
        done = self.cupel("task", "import", problem, "-o", self.folder / "out", "--json", self.folder / "facts.json")
        self.assertEqual(done.status, 0, done)
        reduced = json.loads((self.folder / "facts.json").read_text())["problems"][0]["reduced"]
        self.assertLess(reduced["batch_size"], 64)
        self.assertEqual(reduced["length"], 64)

    def test_a_report_resumes(self):
        tasks = self.folder / "tasks"
        tasks.mkdir()
        (tasks / "1_good.py").write_text(PROBLEM)
        (tasks / "2_none.py").write_text("x = 1\n")
        report = self.folder / "all.json"
        done = self.cupel("task", "import", tasks, "--report", report, "--jobs", "1")
        self.assertEqual(done.status, 0, done)
        first = json.loads(report.read_text())
        self.assertEqual(first["counts"], {"problems": 2, "imported": 1, "ran": 1, "ran_reduced": 0,
                                           "clean": 1, "flagged": 0})
        (tasks / "2_none.py").write_text(PROBLEM.replace("torch.relu(", "(0 * "))
        self.cupel("task", "import", tasks, "--report", report, "--jobs", "1")
        second = json.loads(report.read_text())
        self.assertEqual(second["problems"][0], first["problems"][0], "the first problem is not run again")
        self.assertEqual(second["counts"]["flagged"], 1)

    def test_counters_of_a_module_are_not_operations_of_the_task(self):
        problem = self.write("books.py", """import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        for layer in [self.norm]:
            x = layer(x)
        return torch.tanh(x) * 2

features = 64

def get_inputs():
    return [torch.randn(16, features)]

def get_init_inputs():
    return [features]
""")
        report = self.folder / "books.json"
        done = self.cupel("task", "import", problem, "--report", report)
        found = json.loads(report.read_text())["problems"][0]
        self.assertFalse(found["functional"])
        self.assertEqual(found["filter"]["verdict"], "clean", done)

    def test_imports_as_functions_or_as_a_module(self):
        tasks = self.folder / "tasks"
        tasks.mkdir()
        head, tail = PROBLEM.split("    def forward")[0], PROBLEM[PROBLEM.index("batch_size, "):]
        (tasks / "norm.py").write_text(head + """        self.norm = nn.BatchNorm1d(out_features)

    def forward(self, x):
        return self.norm(self.linear(x)) * self.scale

""" + tail)
        (tasks / "recurrent.py").write_text(head + """        self.lstm = nn.LSTM(in_features, out_features)
        self.steps = torch.arange(3.0)  # outside state_dict

    def forward(self, x):
        return self.lstm(x)[0] * self.steps[1]

""" + tail)
        report = self.folder / "all.json"
        done = self.cupel("task", "import", tasks, "--report", report, "-o", self.folder / "out")
        self.assertEqual(done.status, 0, done)
        found = {p["problem"]: p for p in json.loads(report.read_text())["problems"]}
        self.assertEqual({n: (p["functional"], p["compared"], p["oracle"]["verdict"])
                          for n, p in found.items()},
                         {"norm": (True, "its own sizes", "ran"),
                          "recurrent": (False, "its own sizes", "ran")}, done)
        text = (self.folder / "out/norm/func_forward.py").read_text()
        self.assertIn("F.batch_norm(F.linear(x, linear_weight, linear_bias), norm_running_mean", text)
        self.assertNotIn("_modules", text)

    def test_accepts_answers_in_python(self):
        answer = self.write("answer.py", ANSWER.replace("SCALE", "self.scale"))
        folder = self.imported()
        for task in (self.problem, folder):
            done = self.cupel("check", answer, "--task", task, *FAST)
            self.assertEqual(done.status, 0, done)
            self.assertIn("ACCEPTED", done.out)
        done = self.cupel("check", self.write("wrong.py", ANSWER.replace("SCALE", "3.0")), "--task", folder, *FAST)
        self.assertEqual(done.codes, {"wrong_result"}, done)
        done = self.cupel("check", self.write("math.py", ANSWER.replace("SCALE", "self.scale * x.mean()")),
                          "--task", folder, *FAST)
        self.assertEqual(done.codes, {"reads_device_memory"}, done)
        broken = self.write("broken.py", ANSWER.replace("SCALE", "2.0").replace("y[i] =", "y[i] = undefined +"))
        done = self.cupel("check", broken, "--task", folder, *FAST)
        self.assertEqual(done.codes, {"compile_error"}, done)
        self.assertIn("undefined", done.out)
        self.assertFalse((self.folder / "was_run").exists(), "an answer cannot write files")

    def test_profiles_an_answer(self):
        answer = self.write("answer.py", ANSWER.replace("SCALE", "self.scale"))
        done = self.cupel("profile", answer, "--task", self.imported(), "--device", "emu", "--settings", "single")
        self.assertEqual(done.status, 0, done)
        self.assertIn("op.cu:", done.out)

    def test_builds_what_an_answer_brings(self):
        answer = self.write("answer.py", ANSWER.replace("SCALE", "self.scale"))
        done = self.cupel("build", answer, "--task", self.problem)
        self.assertEqual(done.status, 0, done)
        self.assertIn("built extension op of", done.out)
        image, = done.json["images"]
        self.assertEqual((image["kind"], image["name"], image["file"], image["built"]),
                         ("extension", "op", "op.cu", True))
        self.assertIn("linear", image["kernels"][0]["name"])
        self.assertGreater(image["kernels"][0]["registers"], 0)
        self.assertEqual((done.json["built"], done.json["kernels"]), (True, image["kernels"]))
        without = self.cupel("build", answer)
        self.assertEqual(without.status, 2, without)
        self.assertIn("--task", without.err + without.out)

        broken = self.write("broken.py", ANSWER.replace("SCALE", "2.0").replace("y[i] =", "y[i] = undefined +"))
        done = self.cupel("build", broken, "--task", self.problem)
        self.assertEqual((done.status, done.json["built"], done.codes), (1, False, {"compile_error"}), done)
        self.assertIn("undefined", done.json["diagnostics"][0]["message"])
        # A program that reads a value ends after its extension was built.
        reads = self.write("reads.py", ANSWER.replace("SCALE", "float(x.mean())"))
        done = self.cupel("build", reads, "--task", self.problem)
        self.assertEqual((done.status, done.json["built"], done.codes), (1, False, {"reads_device_memory"}), done)
        self.assertEqual([image["built"] for image in done.json["images"]], [True])
        plain = self.write("plain.py", PROBLEM.replace("class Model", "class ModelNew"))
        done = self.cupel("build", plain, "--task", self.problem)
        self.assertEqual((done.status, done.json["built"], done.codes), (1, False, {"no_kernel"}), done)

    def test_extracts_what_an_answer_brings(self):
        answer = self.write("answer.py", ANSWER.replace("SCALE", "self.scale"))
        facts, folder = self.folder / "facts.json", self.folder / "code"
        done = self.cupel("extract", answer, "--task", self.problem, "-o", folder, "--json", facts)
        self.assertEqual(done.status, 0, done)
        text = (folder / "op.cu").read_text()
        self.assertIn(KERNEL, text)
        self.assertIn('m.def("fused", &fused)', text)
        self.assertEqual([path.name for path in folder.iterdir()], ["op.cu"])
        file, = json.loads(facts.read_text())["files"]
        self.assertEqual((file["kind"], file["name"], file["path"], file["text"]), ("extension", "op", "op.cu", text))
        self.assertEqual(self.cupel("build", folder / "op.cu").status, 0)
        # The single source is printed, and the list is not mixed with it.
        done = self.cupel("extract", answer, "--task", self.problem)
        self.assertEqual((done.status, done.out), (0, text), done)
        self.assertRegex(done.err, f"op.cu +{len(text)} +extension +op")
        again = self.cupel("extract", answer, "--task", self.problem, "-o", folder)
        self.assertEqual(again.status, 2, again)
        self.assertIn("not an empty folder", again.err + again.out)
        plain = self.write("plain.py", PROBLEM.replace("class Model", "class ModelNew"))
        done = self.cupel("extract", plain, "--task", self.problem, "-o", self.folder / "none")
        self.assertEqual(done.status, 1, done)
        self.assertIn("brings no code", done.out)
        self.assertFalse((self.folder / "none").exists())

    def test_extracts_several_extensions_of_one_name(self):
        second = ANSWER.replace("SCALE", "self.scale")
        begin, end = second.index("op = load_inline("), second.index("class ModelNew")
        another = second[begin:end].replace("op = ", "other = ", 1).replace("=source", "=source + '// another'")
        second = second[:end] + another + second[end:]
        folder = self.folder / "code"
        done = self.cupel("extract", self.write("two.py", second), "--task", self.problem)
        self.assertEqual(done.status, 0, done)
        self.assertRegex(done.out, r"op.cu .*\n.*op-2.cu ")
        reads = self.write("reads.py", second.replace("op.fused(", "x.mean().item() * op.fused("))
        done = self.cupel("extract", reads, "--task", self.problem, "-o", folder)
        self.assertEqual(done.status, 1, done)
        self.assertIn("may bring more code", done.err)
        self.assertIn("// another", (folder / "op-2.cu").read_text())

    def test_commands_that_take_one_cuda_file_say_so(self):
        answer = self.write("answer.py", ANSWER.replace("SCALE", "self.scale"))
        for command in (["export", answer, "-o", self.folder / "package"], ["confirm", answer]):
            done = self.cupel(*command, "--task", self.problem)
            self.assertEqual(done.status, 3, done)
            self.assertIn("unsupported: answer.py is a Python program, and ", done.out + done.err)
        self.assertFalse((self.folder / "package").exists())

    def test_lists_may_name_answers(self):
        answer = self.write("answer.py", ANSWER.replace("SCALE", "self.scale"))
        other = self.write("math.py", ANSWER.replace("SCALE", "self.scale * x.mean()"))
        task = self.imported()
        names = self.write("list.jsonl", "".join(
            json.dumps({"kernel": str(kernel), "task": str(task)}) + "\n" for kernel in (answer, other)))
        results = self.folder / "results.jsonl"
        done = self.cupel("stream", names, "--device", "emu", "--trials", "1", "-o", results)
        self.assertEqual(done.status, 1, done)
        found = {r["kernel"]: r for r in map(json.loads, results.read_text().splitlines())}
        self.assertEqual(found[str(answer)]["verdict"], "accepted", done)
        self.assertEqual(codes_of(found[str(other)]), {"reads_device_memory"}, done)

        run = self.folder / "run"
        done = self.cupel("suite", "run", names, "-o", run, "--device", "emu", "--settings", "single", "--trials", "1",
                          "--seed", "3", "--jobs", "1")
        self.assertEqual(done.status, 1, done)
        items = {item["kernel"]: item for item in json.loads((run / "results.json").read_text())["items"]}
        self.assertEqual(items[str(answer)]["decision"], "accepted", done)
        self.assertEqual((items[str(other)]["decision"], items[str(other)]["reasons"][0]["code"]),
                         ("rejected", "reads_device_memory"), done)
        # The record equals that of cupel check, and can be verified.
        with contextlib.closing(sqlite3.connect(run / "suite.cupel")) as store:
            verdict, = store.execute("SELECT verdict FROM outcomes WHERE decision = 'accepted'").fetchone()
        record = self.write("record.json", verdict)
        self.assertEqual(self.cupel("verify", record).status, 0)


if __name__ == "__main__":
    unittest.main()
