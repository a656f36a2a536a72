"""A GPU and the emulator judge the same candidate: the record has both verdicts, and accepted means both."""
import json
import pathlib
import sys
import unittest

import kernels
from support import CupelTest

GPU = ["--device", "gpu", "--seed", "1"]
RACE = kernels.LINEAR.replace("    __syncthreads();  // filled\n", "")


class GpuEnginesTest(CupelTest):
    def judged(self, source, *args):
        record = self.folder / "record.json"
        kernel = self.write("kernel.cu", source)
        done = self.cupel("check", kernel, "--task", "mnist_linear", *GPU, *args, "--json", record, timeout=600)
        return done, json.loads(record.read_text())

    def test_both_accept_and_the_record_is_verified(self):
        done, record = self.judged(kernels.LINEAR)
        self.assertEqual(done.status, 0, done)
        self.assertTrue(record["device"].startswith("gpu"))
        emulator, = record["other_engines"]
        self.assertTrue(emulator["device"].startswith("emu"))
        self.assertEqual(emulator["verdict"], "accepted")
        self.assertGreater(emulator["exploration"]["recorded"], 0)
        self.assertFalse([text for text in record["not_checked"] if "races" in text or "speed" in text], record)
        verified = self.cupel("verify", self.folder / "record.json", timeout=600)
        self.assertEqual(verified.status, 0, verified)

    def test_what_one_engine_rejects_is_rejected(self):
        done, record = self.judged(RACE, "--settings", "single")
        self.assertEqual(done.status, 1, done)
        self.assertIn("shared_race", [reason["code"] for reason in record["reasons"]])
        self.assertEqual(record["other_engines"][0]["verdict"], "rejected")

    def test_engines_can_be_chosen(self):
        for engines, device in (("gpu", "gpu"), ("emu", "emu")):
            with self.subTest(engines):
                _, record = self.judged(kernels.LINEAR, "--settings", "single", "--engines", engines)
                self.assertTrue(record["device"].startswith(device))
                self.assertNotIn("other_engines", record)

    def test_a_stream_asks_no_gpu_about_what_the_emulator_rejects(self):
        lines = [{"kernel": str(self.write(f"{name}.cu", source)), "task": "mnist_linear"}
                 for name, source in (("right", kernels.LINEAR), ("race", RACE))]
        names = self.write("list.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        results = self.folder / "results.jsonl"
        done = self.cupel("stream", names, *GPU, "-o", results, timeout=600)
        self.assertEqual(done.status, 1, done)
        found = {r["kernel"]: r for r in map(json.loads, results.read_text().splitlines())}
        right, race = (found[line["kernel"]] for line in lines)
        self.assertEqual((right["verdict"], race["verdict"]), ("accepted", "rejected"))
        self.assertEqual(race["lane"], "emulator")
        self.assertGreater(right["stage_seconds"]["emulator"], 0)
        self.assertEqual(len(right["times"]), 1, "only the single setting is timed")


if __name__ == "__main__":
    if not pathlib.Path("/dev/nvidiactl").exists():
        print("skipped: there is no GPU")
        sys.exit(77)
    unittest.main()
