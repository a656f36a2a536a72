"""`cupel translate`: asks a model, sends it findings, survives being killed, and writes the kernel."""
import signal
import subprocess
import sys
import time
import unittest

import kernels
import scripted_model
from support import CUPEL, SOURCE, CupelTest, ci_share

# A program as the model. The number of earlier answers in the prompt selects its answer. It stores each
# prompt, and hangs at a question if the test requests it.
MODEL = r"""
import pathlib, sys, time
here = pathlib.Path(__file__).parent
prompt = sys.stdin.read()
number = prompt.count("# Your earlier answer\n")
with open(here / "asked.log", "a") as log:
    log.write(f"{number}\n")
(here / f"prompt-{number}.txt").write_text(prompt)
if (here / f"hang-{number}").exists():
    (here / "hanging").touch()
    time.sleep(600)
answers = sorted(here.glob("answer-*.txt"))
print(answers[min(number, len(answers) - 1)].read_text())
"""


def answer(source, name="A kernel"):
    return f"NAME: {name}\nTHOUGHT: as it is\n\n```cuda\n{source}\n```\n"


# Reads one row past the end of x: out of bounds at the last tile of rows.
OUT_OF_BOUNDS = kernels.linear("(row < rows && k < depth) ? x[row * depth + k]",
                               "(row <= rows && k < depth) ? x[(row + 1) * depth + k]")


@ci_share(2)
class Translate(CupelTest):
    def model(self, *answers):
        script = self.write("model.py", MODEL)
        for number, text in enumerate(answers):
            self.write(f"answer-{number}.txt", text)
        return f"command:{sys.executable} {script}"

    def translate(self, *args, **kwargs):
        return self.cupel("translate", *args, "--json", self.folder / "report.json", **kwargs)

    def asked(self):
        return (self.folder / "asked.log").read_text().split()

    def prompt(self, number):
        return (self.folder / f"prompt-{number}.txt").read_text()

    def arguments(self, model, run):
        return ["mnist_linear", "--model", model, "--settings", "single", "--trials", "2", "--run", run, "--seed", "5"]

    def test_fixes_a_kernel_from_findings_and_survives_being_killed(self):
        model = self.model("I would rather not.", answer(OUT_OF_BOUNDS, "Off by a row"),
                           answer(kernels.LINEAR, "Tiles"))
        run = self.folder / "run"
        self.write("hang-2", "")
        argv = [CUPEL, "translate", *map(str, self.arguments(model, run))]
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=self.environment(), cwd=self.folder)
        deadline = time.monotonic() + 300
        while not (self.folder / "hanging").exists():
            self.assertIsNone(process.poll(), "cupel ended before the third question")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        (self.folder / "hang-2").unlink()

        done = self.translate("--resume", run, "-o", self.folder / "linear.cu", timeout=600)
        self.assertEqual(done.status, 0, done)
        self.assertEqual(self.asked(), ["0", "1", "2", "2"])  # answered questions are not asked again
        self.assertEqual((self.folder / "linear.cu").read_text().strip(), kernels.LINEAR.strip())
        attempts = done.json["attempts"]
        self.assertEqual([a["accepted"] for a in attempts], [False, False, True])
        self.assertIsNone(attempts[0]["candidate"])
        self.assertEqual(attempts[1]["name"], "Off by a row")
        self.assertTrue(done.json["accepted"])
        self.assertIn("correct:", done.out)

        first, repair = self.prompt(0), self.prompt(2)
        self.assertIn("def forward_fn(x, weights, biases)", first)
        self.assertIn("x: float32[64, 128]", first)
        self.assertIn("PYBIND11_MODULE", first)
        self.assertIn("could not be used", repair)
        self.assertIn("out_of_bounds", repair)
        self.assertIn("| xs[threadIdx.y][threadIdx.x] = (row <= rows", repair)
        self.assertIn("batch_size=64", repair)
        for text in (first, repair):
            self.assertNotIn(str(self.folder), text)

        report = self.cupel("report", run)
        self.assertEqual(report.status, 0, report)

    def test_shows_the_model_the_lines_of_compile_errors(self):
        broken = kernels.linear("const int rows = x.size(0)", "const int rows = x.size(0")
        model = self.model(answer(broken), answer(kernels.LINEAR))
        done = self.translate(*self.arguments(model, self.folder / "run"), timeout=600)
        self.assertEqual(done.status, 0, done)
        self.assertIn("compile_error", self.prompt(1))
        self.assertIn("| const int rows = x.size(0, depth", self.prompt(1))

    def test_stops_at_the_limit_and_resumes_with_a_higher_one(self):
        model = self.model("No.")
        run = self.folder / "run"
        done = self.translate(*self.arguments(model, run), "--attempts", "2")
        self.assertEqual(done.status, 1, done)
        self.assertFalse(done.json["accepted"])
        self.assertIn("after 2 attempts", done.out)
        self.write("answer-0.txt", "No.")
        self.write("answer-2.txt", answer(kernels.LINEAR))
        self.write("answer-1.txt", "No.")
        done = self.translate("--resume", run, "--attempts", "3", timeout=600)
        self.assertEqual(done.status, 0, done)
        self.assertEqual(self.asked(), ["0", "1", "2"])

    def test_translates_to_a_python_program(self):
        run = self.folder / "run"
        model = self.model(f"NAME: wrapped\nTHOUGHT: as it is\n\n```python\n{scripted_model.PROGRAM}```\n")
        done = self.translate(*self.arguments(model, run), "--form", "python")
        self.assertEqual(done.status, 0, done)
        self.assertEqual((run / "best.py").read_text(), scripted_model.PROGRAM)
        self.assertIn("class ModelNew", self.prompt(0))
        refused = self.translate(*self.arguments(model, self.folder / "other"), "--form", "python", "--backward")
        self.assertEqual(refused.status, 3, refused)

    def test_translates_backward(self):
        source = (SOURCE / "tasks/mnist_cross_entropy/backward.cu").read_text()
        model = self.model(answer(source))
        done = self.translate("mnist_cross_entropy", "--backward", "--model", model, "--settings", "single",
                              "--trials", "2", "--run", self.folder / "run", timeout=600)
        self.assertEqual(done.status, 0, done)
        self.assertIn("backward_fn", self.prompt(0))

    def test_wrong_usage_says_what_to_do(self):
        done = self.translate("mnist_linear", "--run", self.folder / "run")
        self.assertEqual(done.status, 2, done)
        self.assertIn("--model", done.err)
        self.assertFalse((self.folder / "run").exists())
        done = self.translate("mnist_linear", "--model", "nobody:x", "--run", self.folder / "run")
        self.assertEqual(done.status, 2, done)
        done = self.translate("--model", "command:true")
        self.assertEqual(done.status, 2, done)
        self.assertIn("--resume", done.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
