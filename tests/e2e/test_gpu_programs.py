"""PyTorch's operators between a candidate's kernels on a GPU: judged as on the emulator, and timed in one graph."""
import json
import pathlib
import sys
import unittest

from support import CupelTest
from test_operators import KERNEL, TASK as OPERATORS_TASK
from test_programs import HONEST, REJECTED, TASK, module

GPU = ["--device", "gpu", "--seed", "1"]


class GpuProgramsTest(CupelTest):
    def test_programs(self):
        task = self.write("problem.py", TASK)
        programs = {**{name: ("accepted", text) for name, text in HONEST.items()}, **REJECTED}
        paths = {name: self.write(f"{name}.py", text) for name, (_, text) in programs.items()}
        names = self.write("list.jsonl", "".join(
            json.dumps({"kernel": str(path), "task": str(task)}) + "\n" for path in paths.values()))
        results = self.folder / "results.jsonl"
        done = self.cupel("stream", names, *GPU, "-o", results, timeout=900)
        self.assertIn(done.status, (0, 1), done)
        found = {r["kernel"]: r for r in map(json.loads, results.read_text().splitlines())}
        for name, (expected, _) in programs.items():
            with self.subTest(name):
                result = found[str(paths[name])]
                codes = [reason["code"] for reason in result["reasons"]]
                self.assertEqual(codes[0] if codes else result["verdict"], expected, result["reasons"])

    def test_host_code_with_operators(self):
        task = self.write("sorted.py", OPERATORS_TASK)
        right = self.write("right.cu", KERNEL.replace("FACTOR", "2.0f"))
        wrong = self.write("wrong.cu", KERNEL.replace("FACTOR", "2.1f"))
        self.assertEqual(self.cupel("check", right, "--task", task, *GPU).status, 0)
        self.assertEqual(self.cupel("check", wrong, "--task", task, *GPU).codes, {"wrong_result"})

    def test_times_operators_but_not_what_is_prepared(self):
        """A product of 1024 x 1024 by PyTorch takes most of the time."""
        task = self.write("large.py", TASK.replace("24, 40", "1024, 1024").replace("[40, 56]", "[1024, 1024]"))
        result = "ext.scale(self.norm(F.linear(x, %s, self.linear.bias)), 128)"
        us, share = {}, {}
        for name, text in {
            "once": module("return " + result % "self.linear.weight"),
            "twice": module("self.linear(x); return " + result % "self.linear.weight"),
            "prepared": module("return " + result % "self.packed", "self.register_buffer('packed', "
                               "self.linear.weight.detach() @ torch.eye(1024), persistent=False)"),
        }.items():
            record = self.folder / f"{name}.json"
            done = self.cupel("bench", self.write(f"{name}.py", text), "--task", task, *GPU, "--settings", "single",
                              "--baselines", "eager", "--rounds", "10", "--json", record, timeout=300)
            self.assertEqual(done.status, 0, done)
            timings = {timing["baseline"]: timing for timing in json.loads(record.read_text())["settings"][0]["timings"]}
            us[name], us["eager"] = timings[False]["us"]["estimate"], timings[True]["us"]["estimate"]
            share[name] = timings[False]["operators_us"] / timings[False]["warm_us"]
        self.assertLess(us["once"], 1.5 * us["eager"], us)
        self.assertGreater(us["once"], 0.5 * us["eager"], us)
        self.assertGreater(us["twice"], 1.5 * us["once"], us)
        self.assertLess(us["prepared"], 1.2 * us["once"], us)
        self.assertGreater(share["once"], 0.5, share)
        self.assertLess(share["once"], 1.0, share)
        print(us, share)


if __name__ == "__main__":
    if not pathlib.Path("/dev/nvidiactl").exists():
        print("skipped: there is no GPU")
        sys.exit(77)
    unittest.main()
