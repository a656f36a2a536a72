"""`cupel prove`: equal as functions of real numbers, told apart, or not proved with the reason."""
import json
import unittest

import kernels
from support import CupelTest


class Prove(CupelTest):
    def prove(self, source, *args, task="mnist_linear"):
        record = self.folder / "proof.json"
        kernel = self.write("kernel.cu", source)
        done = self.cupel("prove", kernel, "--task", task, "--seed", "3", "--json", record, *args, timeout=300)
        return done, json.loads(record.read_text()) if record.exists() else None

    def changed(self, old, new):
        self.assertIn(old, kernels.LINEAR)
        return kernels.LINEAR.replace(old, new)

    def test_an_honest_kernel_is_proved(self):
        done, proof = self.prove(kernels.LINEAR)
        self.assertEqual(done.status, 0, done)
        self.assertEqual(proof["outcome"], "proved")
        for setting in proof["settings"]:
            output, = setting["outputs"]
            self.assertEqual((output["proved"], output["differing"]), (output["elements"], 0), setting)
        self.assertEqual([setting["inputs"] for setting in proof["settings"]], ["usual", "heavy"])

    def test_a_term_below_rounding_differs(self):
        done, proof = self.prove(self.changed("+ b[", "+ 9.094947e-13f * x[0] + b["))
        self.assertEqual(done.status, 1, done)
        self.assertEqual(proof["outcome"], "differs")
        self.assertIn("DIFFERS", done.out)
        self.assertEqual(proof["settings"][0]["outputs"][0]["first"]["index"], [0, 0])

    def test_a_constant_of_its_own_is_named_with_its_line(self):
        source = self.changed("+ b[", "+ 1.0000001f * b[")
        line = next(i for i, text in enumerate(source.splitlines(), 1) if "1.0000001f" in text)
        done, proof = self.prove(source)
        self.assertEqual(done.status, 3, done)
        self.assertEqual(proof["outcome"], "not proved")
        reasons = " ".join(proof["settings"][0]["outputs"][0]["reasons"])
        self.assertIn("no number of the reference", reasons)
        self.assertIn("kernel.cu:%d" % line, reasons)

    def test_a_wrong_kernel_differs(self):
        done, proof = self.prove(self.changed("+ b[", "+ 2 * b["))
        self.assertEqual(done.status, 1, done)
        self.assertIn("wrong", proof["settings"][0]["reason"])

    def test_says_what_is_not_covered(self):
        done, _ = self.prove("int main() { return 0; }")
        self.assertEqual(done.status, 3, done)
        done, _ = self.prove(kernels.LINEAR, "--device", "gpu")
        self.assertEqual(done.status, 2, done)


if __name__ == "__main__":
    unittest.main()
