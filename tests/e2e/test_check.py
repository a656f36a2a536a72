"""`cupel check`: accepts honest kernels, and rejects planted faults for the expected reason."""
import copy
import unittest

import kernels
from support import CupelTest, ci_share, codes_of


def without_times(verdict):
    verdict = copy.deepcopy(verdict)
    verdict.pop("timing", None)
    return verdict


class HonestKernels(CupelTest):
    def test_accepts_a_tiled_linear_kernel(self):
        kernel = self.write("kernel.cu", kernels.LINEAR)
        done = self.cupel("check", kernel, "--task", "mnist_linear", "--settings", "single", "--device", "emu")
        self.assertEqual(done.status, 0, done)
        self.assertEqual(done.json["schema"], "cupel.verdict/1")
        self.assertEqual(done.json["verdict"], "accepted")
        self.assertEqual(done.json["reasons"], [])
        for setting in done.json["settings"]:
            usual = [trial for trial in setting["trials"] if trial["kind"] == "usual"]
            self.assertEqual(len(usual), 5, setting)

    def test_same_seed_repeats_the_verdict_except_times(self):
        first = self.check(kernels.LINEAR, "--seed", "7")
        second = self.check(kernels.LINEAR, "--seed", "7")
        self.assertEqual(without_times(first.json), without_times(second.json))
        other = self.check(kernels.LINEAR, "--seed", "8")
        self.assertNotEqual(without_times(first.json), without_times(other.json))

    def test_names_kernels_that_no_call_launches(self):
        source = kernels.linear("sum + b[col]", "sum + b[col]") + "__global__ void Never(float* y) { *y = 1; }\n"
        done = self.check(source)
        self.assertEqual(done.json["verdict"], "accepted", done)
        self.assertIn("1 of 2 kernels, which no call at these sizes launched: Never",
                      " ".join(done.json["not_checked"]))

    def test_an_extension_may_have_several_files_and_another_function(self):
        kernel = kernels.LINEAR.split("PYBIND11_MODULE")[0]
        self.write("linear_kernel.cu", kernel.replace("forward(", "linear("))
        self.write("linear.cpp", "#include <torch/extension.h>\n"
                   "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(\"linear\", &linear); }\n")
        self.folder.chmod(0o755)  # under root, the compiler runs as another user
        source = '#include "linear_kernel.cu"\n#include "linear.cpp"\n'
        done = self.check(source, "--include", self.folder)
        self.assertEqual(codes_of(done.json), {"no_function"}, done)
        self.assertIn("(--entry NAME selects one)", str(done.json["reasons"]))
        done = self.check(source, "--include", self.folder, "--entry", "linear")
        self.assertEqual(done.json["verdict"], "accepted", done)

    def test_headers_may_be_beside_the_current_folder(self):
        for folder in "headers", "here":
            (self.folder / folder).mkdir()
            (self.folder / folder).chmod(0o755)  # under root, the compiler runs as another user
        self.folder.chmod(0o755)
        (self.folder / "headers/tile.h").write_text("#define NOTHING\n")
        kernel = self.write("kernel.cu", '#include "tile.h"\n' + kernels.LINEAR)
        done = self.cupel("build", kernel, "--include", "../headers", cwd=self.folder / "here")
        self.assertEqual(done.status, 0, done)

    def test_writes_the_plan(self):
        plan = self.folder / "plan.json"
        done = self.check(kernels.LINEAR, "--plan", plan)
        self.assertEqual(done.status, 0, done)
        text = plan.read_text()
        self.assertIn("cupel.plan/1", text)
        self.assertIn("linear_tiled", text)


@ci_share()
class PlantedFaults(CupelTest):
    def judged(self, faults):
        """Judges all in one process, as thoroughly as `cupel check`. Returns the results by name."""
        files = {name: self.write(f"{name}.cu", source) for name, source, *_ in faults}
        return dict(zip(files, self.streamed([(file, "mnist_linear", "forward") for file in files.values()],
                                             "--distributions", "all")))

    def test_device_faults_are_rejected_with_the_expected_reason(self):
        results = self.judged(kernels.DEVICE_FAULTS)
        for name, _, codes in kernels.DEVICE_FAULTS:
            with self.subTest(fault=name):
                self.assertEqual(results[name]["verdict"], "rejected", results[name])
                self.assertTrue(codes_of(results[name]) & codes, f"none of {codes}: {results[name]}")

    def test_host_faults_are_rejected_with_the_expected_reason(self):
        results = self.judged(kernels.HOST_FAULTS)
        for name, _, verdict, codes in kernels.HOST_FAULTS:
            with self.subTest(fault=name):
                if None in codes and results[name]["verdict"] == "accepted":
                    continue  # the fault has no effect if the sandbox hides the file
                self.assertEqual(results[name]["verdict"], verdict, results[name])
                self.assertTrue(codes_of(results[name]) & codes, f"none of {codes}: {results[name]}")

    def test_each_verdict_has_its_exit_status_and_a_short_text(self):
        for name, verdict, status in (("host_exception", "rejected", 1), ("unsupported_operator", "unsupported", 3)):
            source = next(s for _, s, v, codes in kernels.HOST_FAULTS if v == verdict and name in codes)
            done = self.check(source)
            self.assertEqual(done.status, status, done)
            self.assertEqual(done.json["verdict"], verdict)
            self.assertIn(name, done.codes)
            self.assertLess(len(done.out.splitlines()), 60)
            self.assertNotIn("Traceback", done.out + done.err)

    def test_message_names_a_missing_bias(self):
        done = self.check(kernels.linear("sum + b[col]", "sum"))
        self.assertIn("bias", done.json["reasons"][0]["message"])

    def test_an_out_of_bounds_write_names_its_line(self):
        source = kernels.linear("if (row < rows && col < cols) y", "if (row < rows && col <= cols) y")
        line = 1 + source[: source.index("col <= cols")].count("\n")
        done = self.check(source)
        self.assertIn(f"kernel.cu:{line}", " ".join(r["where"] for r in done.json["reasons"]), done)


if __name__ == "__main__":
    unittest.main(verbosity=2)
