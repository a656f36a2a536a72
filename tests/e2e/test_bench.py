"""`cupel bench` without a GPU, and `cupel stream` on the emulator."""
import json
import subprocess
import unittest

import kernels
from support import SOURCE, CupelTest, python_with_torch


class Bench(CupelTest):
    def bench(self, *args):
        return self.cupel("bench", self.write("k.cu", kernels.LINEAR), "--task", "mnist_linear", "--quiet", *args)

    def test_reports_a_missing_gpu_in_one_sentence(self):
        # No machine has GPU number 4096.
        done = self.bench("--device", "gpu:4096")
        self.assertEqual(done.status, 2, done)
        self.assertRegex(done.err, "no NVIDIA driver|there is no GPU 4096")
        self.assert_one_sentence_and_a_remedy(done)

    def test_the_emulator_does_not_measure(self):
        done = self.bench("--device", "emu")
        self.assertEqual(done.status, 3, done)
        self.assertIn("unsupported: the emulator", done.err)
        self.assertIn("cupel profile --device emu", done.err)
        self.assert_one_sentence_and_a_remedy(done)

    def test_rejects_an_unknown_baseline(self):
        done = self.bench("--baselines", "eager,fast")
        self.assertEqual(done.status, 2, done)
        self.assertIn("unknown baseline fast", done.err)
        self.assertIn("max-autotune", done.err)

    def test_rejects_a_baseline_whose_file_is_missing(self):
        done = self.bench("--baseline", "absent.py:fused")
        self.assertEqual(done.status, 2, done)
        self.assertIn("there is no file absent.py", done.err)
        self.assertIn("FILE.py:FUNCTION", done.err)

    def test_operations_of_attention_count_heads_that_share_keys(self):
        python = python_with_torch()
        if python is None:
            self.skipTest("no PyTorch")
        code = ("import sys; sys.path.insert(0, sys.argv[1])\n"
                "import torch, timed_call\n"
                "attend = timed_call.attention_formulas()[torch.ops.aten._scaled_dot_product_flash_attention]\n"
                "query, key, few = (torch.empty(3, heads, 64, 32) for heads in (8, 8, 2))\n"
                "print(*(attend(query, k, k, 0.0, causal) for k in (key, few) for causal in (False, True)))")
        done = subprocess.run([python, "-c", code, SOURCE / "src/oracle/py"], capture_output=True, text=True)
        products = 2 * 2 * 3 * 8 * 64 * 64 * 32  # two products, each with a multiplication and an addition
        self.assertEqual(done.stdout.split(), [str(n) for n in 2 * (products, products // 2)], done.stderr)

    def assert_one_sentence_and_a_remedy(self, done):
        self.assertEqual(done.out, "")
        self.assertRegex(done.err, r"\Acupel: [^\n]+\n +[^\n]+\n\Z", done)


class Stream(CupelTest):
    def stream(self, *lines, args=(), output=None):
        rows = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        self.output = output or self.folder / "results.jsonl"
        return self.cupel("stream", self.write("list.jsonl", "\n".join(rows) + "\n"), "--device", "emu",
                          "--settings", "single", "--trials", 2, "--output", self.output, *args)

    def results(self):
        """The results by the kernel's name. Every line of the file is a JSON document."""
        found = [json.loads(line) for line in self.output.read_text().splitlines()]
        return {pathless(result["kernel"]): result for result in found}

    def line(self, name, source=None, **more):
        path = self.write(name, source) if source else self.folder / name
        return {"kernel": str(path), "task": "mnist_linear", **more}

    def test_reports_each_candidate_independently(self):
        done = self.stream(self.line("good.cu", kernels.LINEAR), "",
                           self.line("wrong.cu", kernels.linear("sum + b[col]", "sum")),
                           self.line("broken.cu", kernels.linear("float sum = 0.f;", "float sum = 0.f")),
                           self.line("missing.cu"),
                           self.line("again.cu", kernels.LINEAR, backward=False))
        self.assertEqual(done.status, 1, done)
        results = self.results()
        self.assertEqual({name: result["verdict"] for name, result in results.items()},
                         {"good.cu": "accepted", "wrong.cu": "rejected", "broken.cu": "rejected",
                          "missing.cu": "error", "again.cu": "accepted"}, done)
        self.assertEqual(results["wrong.cu"]["reasons"][0]["code"], "wrong_result")
        self.assertTrue(results["broken.cu"]["reasons"])
        self.assertIn("missing.cu", results["missing.cu"]["error"]["message"])
        for result in results.values():
            self.assertEqual(result["schema"], "cupel.stream/1")
            self.assertEqual((result["task"], result["direction"]), ("mnist_linear", "forward"))
        self.assertEqual({s["status"] for s in results["good.cu"]["settings"]}, {"passed"})
        self.assertIn("failed", {s["status"] for s in results["wrong.cu"]["settings"]})
        for name in results:
            self.assertIn(name, done.out)
        self.assertIn("5 candidates", done.out)
        self.assertIn("2 accepted, 1 error, 2 rejected", done.out)

    def test_judges_as_check_does_by_default(self):
        """At all settings, and at sizes that no setting has."""
        line = self.line("narrow.cu", kernels.linear("sum + b[col]", "cols % 5 == 2 ? sum : sum + b[col]"))
        self.assertEqual(self.stream(line).status, 0, "the single setting has 10 columns")
        names = self.write("list.jsonl", json.dumps(line) + "\n")
        done = self.cupel("stream", names, "--device", "emu", "--seed", 1, "-o", self.output)
        self.assertEqual(done.status, 1, done)
        result = self.results()["narrow.cu"]
        self.assertEqual([reason["code"] for reason in result["reasons"]], ["wrong_result"])
        self.assertTrue(result["settings"][-1]["id"].startswith("explored-"), result["settings"])

    def test_all_accepted_is_success(self):
        done = self.stream(self.line("good.cu", kernels.LINEAR), args=["--quiet"])
        self.assertEqual(done.status, 0, done)
        self.assertEqual(self.results()["good.cu"]["verdict"], "accepted")
        self.assertNotIn("good.cu", done.out)

    def test_rejects_a_malformed_list_and_names_the_line(self):
        good = self.line("good.cu", kernels.LINEAR)
        for bad, word in (("{", "list.jsonl:3"), ('{"task": "mnist_linear"}', "list.jsonl:3"),
                          ('{"kernel": 3, "task": "mnist_linear"}', "list.jsonl:3"),
                          ('{"kernel": "k.cu", "task": "mnist_linear", "backward": "no"}', "list.jsonl:3"),
                          ('{"kernel": "k.cu", "task": "no_such_task"}', "list.jsonl:3"),
                          ("[]", "list.jsonl:3"), ("\x00", "list.jsonl:3")):
            with self.subTest(bad=bad):
                done = self.stream(good, "", bad, good)
                self.assertEqual(done.status, 2, done)
                self.assertIn(word, done.err)
                self.assertFalse(self.output.exists(), "nothing was judged")

    def test_rejects_an_empty_list(self):
        done = self.stream("", "  ")
        self.assertEqual(done.status, 2, done)
        self.assertIn("names no kernel", done.err)
        self.assertIn('"task"', done.err)

    def test_results_that_cannot_be_written_are_an_error(self):
        done = self.stream(self.line("good.cu", kernels.LINEAR), output="/dev/full")
        self.assertEqual(done.status, 2, done)
        self.assertIn("/dev/full", done.err)


def pathless(path):
    return path.rsplit("/", 1)[-1]


if __name__ == "__main__":
    unittest.main(verbosity=2)
