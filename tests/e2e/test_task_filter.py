"""cupel task filter: exit status, both verdicts, one broken task among others."""
import json
import unittest

from support import SOURCE, CupelTest

HEAD = "import torch\nimport torch.nn as nn\n"
PROBLEM = """
class Model(nn.Module):
    def forward(self, x):
        return %s
def get_inputs():
    return [torch.randn(16, 8)]
def get_init_inputs():
    return []
"""


class TaskFilter(CupelTest):
    def filter(self, *args):
        report = self.folder / "filter.json"
        return self.cupel("task", "filter", *args, "--json", report), lambda: json.loads(report.read_text())

    def test_one_good_task(self):
        done, report = self.filter("mnist_linear")
        self.assertEqual(done.status, 0, done)
        self.assertIn("not asked: no model is configured", done.out)
        task, = report()["tasks"]
        self.assertEqual([s["direction"] for s in task["settings"]], ["forward", "backward"])
        self.assertEqual(report()["schema"], "cupel.filter/1")

    def test_a_folder_of_problems(self):
        tasks = self.folder / "tasks"
        tasks.mkdir()
        for name, text in {
            "1_good": HEAD + PROBLEM % "torch.relu(x)",
            "2_small": HEAD + PROBLEM % "torch.softmax(x, 1) * 1e-3",
            "3_idle": HEAD + PROBLEM % "torch.relu(torch.sigmoid(x))",
            "4_raises": HEAD + PROBLEM % "x.no_such_method()",
            "5_dies": HEAD + "import os\n" + PROBLEM % "os._exit(3)",
            "6_huge": HEAD + PROBLEM % "x.sum() + torch.zeros(1 << 44)",
            "7_slow": HEAD + "import time\n" + PROBLEM % "time.sleep(1000)",
            "8_no_task": "# Model get_inputs",
            "9_constant": HEAD + PROBLEM % "torch.softmax(x.mean(1, keepdim=True), 1)",
        }.items():
            (tasks / (name + ".py")).write_text(text)
        done, report = self.filter("--all", tasks, "--seconds", "5")
        self.assertEqual(done.status, 1, done)
        found = {t["task"]: t for t in report()["tasks"]}
        verdicts = {name: task["verdict"] for name, task in found.items()}
        self.assertEqual(verdicts, {
            "1_good": "clean", "2_small": "clean", "3_idle": "flagged", "4_raises": "flagged",
            "5_dies": "flagged", "6_huge": "not examined", "7_slow": "not examined",
            "8_no_task": "flagged", "9_constant": "flagged"})
        published = {n: t["settings"][0]["published"] for n, t in found.items()}
        self.assertTrue(published["2_small"], "it is flagged as published")
        redundant, = found["3_idle"]["settings"][0]["operations"]["redundant"]
        self.assertEqual((redundant["operation"], redundant["file"], redundant["line"]),
                         ("aten.relu", "3_idle.py", 6))
        self.assertIn("no_such_method", found["4_raises"]["settings"][0]["checks"][0]["reason"])
        self.assertIn("too large", found["6_huge"]["settings"][0]["message"])
        self.assertIn("too slow", found["7_slow"]["settings"][0]["message"])
        self.assertEqual(report()["counts"]["flagged"], 5)

    def test_wrong_usage(self):
        done, _ = self.filter()
        self.assertEqual(done.status, 2, done)
        self.assertIn("--all", done.err)
        done, _ = self.filter("--all", SOURCE / "docs")
        self.assertEqual(done.status, 2, done)
        self.assertIn("no task", done.err)


if __name__ == "__main__":
    unittest.main()
