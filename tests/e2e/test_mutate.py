"""tools/mutate.py: makes wrong kernels from correct ones, judges them, and reports the results."""
import json
import subprocess
import sys
import unittest

from support import CUPEL, SOURCE, CupelTest

sys.path.insert(0, str(SOURCE / "tools"))
from mutation import mutants, operators, parents, source  # noqa: E402

KERNEL = r'''// for (int i = 0; i < n; ++i) { a[i] += 1; }
#define BELOW(a, b) \
  ((a) < (b))
/* a[i] - 1 */ __device__ const char* kText = "a[i] < b[i]";
__global__ void Add(const float* a, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x) * 32 + threadIdx.x;
  if (i < n) y[i] = a[i] + 1.0f;
}
void forward(float* a, float* y, int n) {
  TORCH_CHECK(n + 1 > 0, "n");
  Add<<<(n + 32 - 1) / 32, 32>>>(a, y, n);
}
'''


class OperatorsTest(unittest.TestCase):
    def edits(self):
        return operators.all_edits(source.Source(KERNEL))

    def test_changes_only_what_is_compiled(self):
        body = KERNEL.index("__global__")
        for name, edits in self.edits().items():
            for edit in edits:
                self.assertGreater(edit.start, body, name)
                self.assertNotIn("TORCH_CHECK", KERNEL[edit.start:edit.end], name)

    def test_distinguishes_comparisons_from_template_brackets(self):
        self.assertEqual([KERNEL[e.start - 2:e.end + 2] for e in self.edits()["comparison"]], ["i < n"])

    def test_keeps_line_numbers(self):
        for name, edits in self.edits().items():
            for edit in edits:
                mutated = edit.apply(KERNEL)
                self.assertEqual(mutated.count("\n") - edit.prologue.count("\n"), KERNEL.count("\n"), name)

    def test_records_lines_and_replacements(self):
        self.assertEqual({(e.line, e.after) for e in self.edits()["grid_short"]},
                         {(11, "((n + 32 - 1) / 32) - 1"), (11, "(n)")})
        self.assertEqual([e.after for e in self.edits()["term_dropped"] if e.line == 7], [""])

    def test_larger_draws_extend_smaller_ones(self):
        parent = next(p for p in parents.read(None) if p.name == "linear")
        few, many = mutants.draw(parent, 1, 5), mutants.draw(parent, 1, 20)
        self.assertEqual(few, many[:5])
        self.assertEqual(len({m.id for m in many}), 20)
        self.assertNotEqual(few, mutants.draw(parent, 2, 5))
        self.assertGreater(len({m.operator for m in many}), 15)


class RunTest(CupelTest):
    def mutate(self, *arguments):
        done = subprocess.run([sys.executable, "-B", str(SOURCE / "tools" / "mutate.py"), *arguments,
                               "--work", str(self.folder / "work")], capture_output=True, text=True,
                              timeout=300, env=self.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_judges_each_once_and_reports(self):
        arguments = ["run", "--cupel", CUPEL, "--parent", "linear", "--each", "3"]
        self.mutate(*arguments)
        log = self.folder / "work" / "results.jsonl"
        results = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual(len(results), 3)
        self.assertEqual({r["outcome"] for r in results} - {"killed", "same", "not_compiled"}, set())
        self.assertIn("killed", {r["outcome"] for r in results})
        self.assertEqual(self.mutate(*arguments), "")
        self.assertEqual(len(log.read_text().splitlines()), 3)
        self.assertIn("| all | 3 |", self.mutate("report"))
        # A survivor without a label counts as missed.
        survivor = {**results[0], "id": "linear-00000000", "outcome": "survived"}
        with open(log, "a") as out:
            out.write(json.dumps(survivor) + "\n")
        self.assertIn("1 not killed, 1 unlabelled", self.mutate("report"))
        left = self.folder / "left.json"
        self.assertIn("1 unlabelled", self.mutate("report", "--survivors", str(left)))
        entry, = json.loads(left.read_text())
        self.assertEqual((entry["id"], entry["label"]), ("linear-00000000", "unread"))
        left.write_text(json.dumps([{**entry, "label": "equivalent", "reason": "said so"}]))
        out = self.mutate("report", "--survivors", str(left))
        self.assertIn("| 100.0 % |", out)
        self.assertEqual(json.loads(left.read_text())[0]["reason"], "said so")


if __name__ == "__main__":
    unittest.main()
