"""Negative controls, derived sizes, and sizes that a kernel declares."""
import json
import shutil
import unittest

from support import CupelTest, SOURCE, ci_share

LINEAR = (SOURCE / "tasks/mnist_linear/forward.cu").read_text()
HEAD = "torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {\n"

# In float32 the result does not depend on the input, so PyTorch itself is as wrong as zeros.
LOST = """
import torch
from torch import nn

def forward_fn(x, weights):
    return (x @ weights + 1e8) - 1e8

class Model(nn.Module):
    def __init__(self, num_features=16):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(num_features, num_features))

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weights)

def get_inputs(batch_size=8, num_features=16):
    return [torch.randn(batch_size, num_features)]
"""


class SettingsTest(CupelTest):
    def setUp(self):
        super().setUp()
        # Without task.json the task has no held-out settings, so cupel derives them.
        self.task = self.folder / "linear"
        self.task.mkdir()
        shutil.copy(SOURCE / "tasks/mnist_linear/func_forward.py", self.task)
        init = [{"num_output_features": 10, "init_method": "kaiming"}]
        shared = [{"num_input_features": 128}]
        (self.task / "config_forward.json").write_text(json.dumps({
            "single_input_configs": [{"batch_size": 64}], "single_init_configs": init,
            "single_shared_configs": shared, "multi_input_configs": [{"batch_size": 4}],
            "multi_init_configs": init, "multi_shared_configs": shared}))

    def judge(self, source, settings="heldout", task=None):
        kernel = self.write("kernel.cu", source)
        return self.cupel("check", kernel, "--task", task or self.task, "--settings", settings,
                          "--seed", "7", "--trials", "2", "--device", "emu")

    def statuses(self, done):
        return {s["derived"] or s["id"]: s["status"] for s in done.json["settings"]}


@ci_share()
class Controls(SettingsTest):
    def test_controls_reject_wrong_answers(self):
        done = self.cupel("task", "controls", "mnist_linear", "--settings", "single", "--seed", "7")
        self.assertEqual(done.status, 0, done)
        controls = {c["name"]: c for c in done.json["settings"][0]["controls"]}
        self.assertIn("other_seed", controls)
        for name, control in controls.items():
            self.assertTrue(control.get("skipped") or control["ok"], name)
        self.assertGreater(controls["rounded_to_tf32"]["distance"], 10)
        self.assertIn("zeros", done.out)

    def test_controls_distinguish_sixteen_bits_from_eight(self):
        task = self.folder / "short"
        task.mkdir()
        (task / "func_forward.py").write_text(
            # Explicit float sums: on some processors PyTorch sums bfloat16 in bfloat16.
            LOST.replace("(x @ weights + 1e8) - 1e8", "(x.float() @ weights.float()).bfloat16()")
                .replace("num_features))", "num_features, dtype=torch.bfloat16))")
                .replace("torch.randn(batch_size, num_features)",
                         "torch.randn(batch_size, num_features, dtype=torch.bfloat16)"))
        (task / "config_forward.json").write_text('{"single_input_configs": [{"batch_size": 64}]}')
        done = self.cupel("task", "controls", task, "--settings", "single", "--seed", "7")
        self.assertEqual(done.status, 0, done)
        controls = {c["name"]: c for c in done.json["settings"][0]["controls"]}
        self.assertGreater(controls["rounded_to_float8_e5m2"]["distance"], 1)
        self.assertGreater(controls["tail_rows_zero"]["distance"], 8)

    def test_a_task_that_cannot_judge_gives_an_error(self):
        task = self.folder / "lost"
        task.mkdir()
        (task / "func_forward.py").write_text(LOST)
        (task / "config_forward.json").write_text('{"single_input_configs": [{"batch_size": 8}]}')
        done = self.cupel("task", "controls", task, "--settings", "single", "--seed", "7")
        self.assertEqual(done.status, 1, done)
        self.assertFalse(done.json["settings"][0]["can_judge"])
        self.assertIn("PASSES", done.out)
        zeros = LINEAR.replace(HEAD, """
torch::Tensor forward(torch::Tensor x, torch::Tensor weights) {
  return torch::zeros_like(x);
}
torch::Tensor unused(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
""")
        done = self.judge(zeros, "single", task)
        self.assertEqual(done.status, 2, done)
        self.assertEqual(done.json["verdict"], "error")
        self.assertEqual(done.codes, {"cannot_judge"})
        self.assertIn("zeros passes", done.json["reasons"][0]["message"])


@ci_share()
class DerivedSizes(SettingsTest):
    def test_honest_kernel_passes_all_derived_sizes(self):
        done = self.judge(LINEAR)
        self.assertEqual(done.status, 0, done)
        self.assertEqual(set(self.statuses(done)), {"batch_size=1", "batch_size=43", "batch_size=65",
                                                    "batch_size=97", "num_input_features=127", "num_output_features=7",
                                                    "num_input_features=13"})

    def test_a_refused_derived_size_is_a_limit(self):
        done = self.judge(LINEAR.replace(HEAD, HEAD + '  TORCH_CHECK(x.size(0) % 4 == 0, "rows by four");\n'),
                          "all")
        self.assertEqual(done.status, 0, done)
        self.assertEqual(self.statuses(done)["batch_size=43"], "refused")
        self.assertIn("limit: refuses batch_size=43", done.out)
        self.assertIn("rows by four", " ".join(done.json["notes"]))

    def test_rejection_names_the_origin_of_a_derived_size(self):
        done = self.judge(LINEAR.replace("k < in;", "k < in / 2 * 2;"), "all")
        self.assertEqual(done.status, 1, done)
        self.assertEqual(self.statuses(done)["single-0"], "passed")
        self.assertIn("derived from the task's first setting (num_input_features=127)",
                      done.json["reasons"][0]["message"])


@ci_share()
class DeclaredSizes(SettingsTest):
    def test_judges_only_declared_sizes(self):
        source = LINEAR.replace(HEAD, HEAD + '  TORCH_CHECK(x.size(0) == 64, "64 rows");\n')
        self.assertEqual(self.judge(source, "all").status, 1)
        done = self.judge("// cupel:supports batch_size=64 num_input_features=1..128\n" + source, "all")
        self.assertEqual(done.status, 0, done)
        self.assertRegex(done.json["declared"],
                         r"judged only for batch_size=64 num_input_features=1\.\.128: \d of \d+ settings")
        self.assertIn("judged only for", done.out)
        self.assertIn("not_declared", self.statuses(done).values())

    def test_rejects_declarations_that_avoid_all_settings(self):
        done = self.judge("// cupel:supports batch_size=3\n" + LINEAR, "all")
        self.assertEqual(done.status, 1, done)
        self.assertEqual(done.codes, {"nothing_declared"})
        done = self.judge("// cupel:supports batch_size=64..\n" + LINEAR, "single")
        self.assertEqual(done.status, 1, done)
        self.assertEqual(done.codes, {"bad_declaration"})
        self.assertEqual(done.json["reasons"][0]["where"], "kernel.cu:1")


if __name__ == "__main__":
    unittest.main(verbosity=2)
