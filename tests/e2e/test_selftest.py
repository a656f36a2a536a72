"""`cupel selftest` on a sample of both corpora, including hostile kernels. They must leave nothing behind. `make
nightly` tries both corpora in full."""
import ctypes
import json
import os
import pathlib
import unittest

from support import SOURCE, CupelTest

# Kernels that attack processes, files, sockets, memory, time, answers and the compiler.
HOSTILE = ("forked_process|raw_syscall_bytes|background_thread|socket|shell|home_folder|edited_grader|poisoned_cache|"
           "replaced_modules|disk_replay|killed_parent|stopped_itself|forged_answer|forged_output|early_exit|"
           "constructor_reads_file|endless_host_code|includes_a_secret|embeds_a_secret|macro_bomb")
CHEATS = ("stale_output|precision_tf32|counted_replays|cached_weights|spoiled_inputs|shared_race|dropped_epsilon|"
          "wrong_third_call|environment_on_the_stack|early_launch")
HONEST = "linear_cublas|softmax_online|mean_square_last_block|prefix_sum_chained_blocks"
PR_SET_CHILD_SUBREAPER = 36


def children():
    """The child processes of this process."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        if int(text.rsplit(")", 1)[1].split()[1]) == os.getpid():
            found.append(text)
    return found


class Selftest(CupelTest):
    def test_catalogue_lists_every_kernel(self):
        catalogue = (SOURCE / "tests/mustfail/README.md").read_text()
        for kernel in (SOURCE / "tests/mustfail").glob("*.cu"):
            self.assertIn(f"`{kernel.stem}`", catalogue)

    def test_a_sample_has_no_surprises_and_leaves_nothing_behind(self):
        home = self.folder / "home"
        home.mkdir()
        (home / "precious").write_text("untouched")
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans become our children
        planted = [pathlib.Path("/tmp/owned"), pathlib.Path("/tmp/answers.bin"), SOURCE / "torch.py",
                   pathlib.Path("/root/.cache/cupel/build/poison")]
        before = [path.exists() for path in planted]
        environment = {**self.environment(), "HOME": str(home)}
        report = self.folder / "selftest.json"
        done = self.cupel("selftest", "--filter", f"/({HOSTILE}|{CHEATS}|{HONEST})$", "--json", report,
                          timeout=800, env=environment, cwd=home)
        self.assertEqual(done.status, 0, done)
        json_report = json.loads(report.read_text())
        self.assertEqual(json_report["schema"], "cupel.selftest/1")
        must_fail, must_pass = json_report["must_fail"], json_report["must_pass"]
        self.assertEqual(must_fail["kernels"], len(f"{HOSTILE}|{CHEATS}".split("|")), done)
        self.assertEqual(must_fail["not_accepted"], must_fail["kernels"], done)
        self.assertEqual(must_fail["expected_reason"], must_fail["kernels"], done)
        self.assertEqual(must_pass, {"kernels": len(HONEST.split("|")), "false_alarms": 0}, done)
        self.assertIn("100.0 %", done.out)
        self.assertEqual([path.exists() for path in planted], before)
        self.assertEqual([path.name for path in home.iterdir()], ["precious"])
        self.assertEqual((home / "precious").read_text(), "untouched")
        self.assertEqual(children(), [])

    def test_a_surprise_is_reported_and_fails(self):
        """Uses a private source tree whose corpora have wrong expectations."""
        tree = self.folder / "tree"
        for name in ("shim", "tasks", "src"):
            (tree / name).parent.mkdir(exist_ok=True)
            (tree / name).symlink_to(SOURCE / name)
        for corpus, kernel, source in (("mustfail", "honest", "mustpass/linear_plain.cu"),
                                       ("mustpass", "cheat", "mustfail/dropped_bias.cu")):
            (tree / "tests" / corpus).mkdir(parents=True)
            text = (SOURCE / "tests" / source).read_text()
            if corpus == "mustfail":
                text = "// exploit: 0.0 none\n// expect: rejected wrong_result\n" + text
            else:
                text = "// task: mnist_linear\n" + text[text.index("// SPDX"):]
            (tree / "tests" / corpus / f"{kernel}.cu").write_text(text)
        environment = {**self.environment(), "CUPEL_HOME": str(tree)}
        done = self.cupel("selftest", timeout=300, env=environment)
        self.assertEqual(done.status, 1, done)
        self.assertIn("expected rejected wrong_result, got accepted", done.out)
        self.assertIn("expected accepted, got rejected wrong_result", done.out)
        self.assertIn("false alarms: 1 (100.0 %)", done.out)

    def test_rejects_wrong_filters(self):
        done = self.cupel("selftest", "--filter", "no_such_kernel")
        self.assertEqual(done.status, 2, done)
        self.assertIn("no_such_kernel", done.err)
        done = self.cupel("selftest", "--filter", "(")
        self.assertEqual(done.status, 2, done)
        self.assertIn("regular expression", done.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
