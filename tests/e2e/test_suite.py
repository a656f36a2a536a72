"""`cupel suite`: many kernels on many tasks. A killed and resumed run ends like an undisturbed one, changed
items are judged again, and comparisons detect faster, slower, fixed and broken items."""
import csv
import json
import random
import shutil
import signal
import sqlite3
import subprocess
import time
import unittest
import xml.etree.ElementTree

import suite_fixture
from suite_fixture import Kernel
from support import CUPEL, SOURCE, CupelTest, ci_share


def without_timing(value):
    if isinstance(value, dict):
        return {key: without_timing(member) for key, member in value.items() if key != "timing"}
    return [without_timing(member) for member in value] if isinstance(value, list) else value


def results(run):
    """The results without timing, which must not depend on the time or the worker."""
    return without_timing(json.loads((run / "results.json").read_text()))


@ci_share(2)
class SuiteRuns(CupelTest):
    def setUp(self):
        super().setUp()
        self.tasks, self.kernels = self.folder / "tasks", self.folder / "kernels"
        for name in ("mnist_linear", "mnist_linear_relu"):
            shutil.copytree(SOURCE / "tasks" / name, self.tasks / name)
        forward = (SOURCE / "tasks/mnist_linear/forward.cu").read_text()
        self.assertIn("sum + biases[column]", forward)
        self.kernel("mnist_linear/forward/good.cu", forward)
        self.kernel("mnist_linear/forward/no_bias.cu", forward.replace("sum + biases[column]", "sum"))
        self.kernel("mnist_linear/backward.cu", (SOURCE / "tasks/mnist_linear/backward.cu").read_text())
        self.kernel("mispelt/forward.cu", forward)

    def kernel(self, name, text):
        path = self.kernels / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def command(self, run, *args):
        return ["suite", "run", self.tasks, "--kernels", self.kernels, "--settings", "single", "--device", "emu",
                "--seed", "5", "--trials", "2", "-o", run, *args]

    def decisions(self, run):
        return {item["id"]: item["decision"] for item in results(run)["items"]}

    def test_judges_all_and_writes_four_formats(self):
        run = self.folder / "run"
        done = self.cupel(*self.command(run))
        self.assertEqual(done.status, 1, done)
        self.assertEqual(self.decisions(run), {"mnist_linear/forward/forward/good.cu": "accepted",
                                               "mnist_linear/forward/forward/no_bias.cu": "rejected",
                                               "mnist_linear/backward/backward.cu": "accepted"})
        found = results(run)
        self.assertEqual(found["status"], "finished")
        self.assertEqual(found["without_kernel"], [{"task": "mnist_linear_relu", "direction": direction}
                                                   for direction in ("forward", "backward")])
        self.assertIn("mispelt", found["notes"][0])
        self.assertEqual((found["scores"]["correct_problems"], found["scores"]["problems"]), (2, 4))
        # The emulator's times are reported as estimates, without speed-ups.
        setting = found["items"][0]["settings"][0]
        self.assertGreater(setting["estimate_us"], 1)
        self.assertNotIn("speedup", setting)
        self.assertIn("speed-ups over PyTorch are not reported", done.out)
        rows = list(csv.DictReader((run / "results.csv").read_text().splitlines()))
        self.assertEqual([row["decision"] for row in rows], ["accepted", "rejected", "accepted", "no kernel", "no kernel"])
        self.assertEqual(rows[0]["median_us"], "")
        self.assertIn("| mnist\\_linear | forward | forward/no\\_bias.cu | rejected |", (run / "results.md").read_text())
        self.assertIn("Content-Security-Policy", (run / "results.html").read_text())
        picture = xml.etree.ElementTree.parse(run / "results.svg").getroot()
        self.assertIn("estimates", "".join(picture.itertext()))
        records = self.kernels  # next to the kernels
        self.assertEqual(self.cupel("suite", "report", run, "--records", records).status, 0)
        self.assertEqual(sorted(str(path.relative_to(records)) for path in records.rglob("*.json")),
                         ["mnist_linear/backward.json", "mnist_linear/forward/good.json",
                          "mnist_linear/forward/no_bias.json"])
        record = records / "mnist_linear/forward/good.json"
        verdict = json.loads(record.read_text())
        self.assertEqual((verdict["verdict"], verdict["kernel"]),
                         ("accepted", "mnist_linear/forward/good.cu"))
        self.assertNotIn(str(self.folder), record.read_text())
        self.assertEqual(self.cupel("verify", record).status, 0)
        # A manipulated store cannot write a file elsewhere.
        store = sqlite3.connect(run / "suite.cupel")
        with store:
            store.execute("UPDATE items SET kernel = '../../outside.cu' WHERE kernel LIKE '%good.cu'")
        store.close()
        refused = self.cupel("suite", "report", run, "--records", records)
        self.assertEqual(refused.status, 2, refused)
        self.assertFalse(list(self.folder.rglob("outside.json")))

    def test_coordinator_provides_all_cases(self):
        run = self.folder / "run"
        (self.kernels / "mnist_linear/forward/no_bias.cu").unlink()
        self.assertEqual(self.cupel(*self.command(run, "--cases", "coordinator")).status, 0)
        items = json.loads((run / "results.json").read_text())["items"]
        self.assertEqual({item["timing"]["cases"] for item in items}, {"coordinator"})

    def test_a_run_killed_ten_times_ends_like_an_undisturbed_one(self):
        run, rng = self.folder / "run", random.Random(7)
        self.cupel(*self.command(run))
        undisturbed = results(run)
        shutil.rmtree(run)
        kills = halfway = 0
        while kills < 10:
            before = len(self.seconds_or_none(run) or {})
            process = subprocess.Popen([CUPEL, *map(str, self.command(run))], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, env=self.environment())
            # Every other kill comes at the start, the others soon after a new verdict.
            while kills % 2 and process.poll() is None and len(self.seconds_or_none(run) or {}) == before:
                time.sleep(0.02)
            time.sleep(rng.uniform(0, 0.7))
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                kills += 1
            process.wait()
            if process.returncode != -signal.SIGKILL:
                shutil.rmtree(run)  # finished before the tenth kill: start again
            elif 0 < len(self.seconds_or_none(run) or {}) < 3:
                halfway += 1
        self.assertGreater(halfway, 0, "no kill came while some items were judged and some were not")
        other = self.cupel("suite", "run", "--resume", run, "--trials", "9")
        self.assertEqual(other.status, 2, other)
        self.assertIn("trials: ", other.err)
        done = self.cupel("suite", "run", "--resume", run)
        self.assertEqual(done.status, 1, done)
        self.assertEqual(results(run), undisturbed)
        store = sqlite3.connect(run / "suite.cupel")
        self.assertEqual(store.execute("SELECT count(*) FROM outcomes").fetchone()[0], 3)

    def test_resume_keeps_verdicts_and_times_of_items_in_progress(self):
        run = self.folder / "run"
        self.cupel(*self.command(run))
        before = results(run)
        good, wrong = ("mnist_linear/forward/forward/%s.cu" % name for name in ("good", "no_bias"))
        store = sqlite3.connect(run / "suite.cupel")
        for item in (good, wrong):  # as if the run was killed while it timed them
            verdict = json.loads(store.execute("SELECT verdict FROM outcomes WHERE item = ?", (item,)).fetchone()[0])
            verdict["timing"]["total_seconds"] = 12345  # not part of the digest
            verdict["verdict"] = "accepted"  # for `wrong`, this makes the digest invalid
            for setting in verdict["settings"]:
                setting["status"] = "passed"
            with store:
                store.execute("DELETE FROM outcomes WHERE item = ?", (item,))
                store.execute("INSERT INTO judged VALUES (?, ?, ?, 'worker', 1000, 0)",
                              (item, json.dumps(verdict), "emu (%s)" % before["ceilings"]["gpu"]))
        unfinished = self.cupel("suite", "report", run)
        item = next(item for item in results(run)["items"] if item["id"] == good)
        self.assertEqual((item["decision"], item["unfinished"]), ("accepted", {"timed": 0, "of": 1}), unfinished)
        with store:  # as if `good` was completely timed, but its outcome was not stored yet
            bench = {"gpu": "one", "settings": [{"id": "single-0", "timings": [
                {"name": "good.cu", "baseline": False, "us": {"estimate": 7.0, "low": 6.0, "high": 8.0, "confidence": 0.95}}]}]}
            store.execute("INSERT INTO timed VALUES (?, 'single-0', ?, 50, 0)", (good, json.dumps(bench)))
        store.close()
        done = self.cupel("suite", "run", "--resume", run)
        self.assertEqual(done.status, 1, done)
        # No worker here can time the other item.
        self.assertIn(f"{wrong} is judged again", done.err)
        after = results(run)
        setting = next(item for item in after["items"] if item["id"] == good)["settings"][0]
        self.assertEqual(setting["us"]["estimate"], 7)
        self.assertEqual([item["decision"] for item in after["items"]], [item["decision"] for item in before["items"]])
        self.assertNotIn("unfinished", json.dumps(after))
        store = sqlite3.connect(run / "suite.cupel")
        took = {item: json.loads(verdict)["timing"]["total_seconds"]
                for item, verdict in store.execute("SELECT item, verdict FROM outcomes")}
        self.assertEqual(took[good], 12345)
        self.assertLess(took[wrong], 1000)
        self.assertEqual(self.seconds_or_none(run)[good], 1050)
        self.assertLess(self.seconds_or_none(run)[wrong], 1000)
        self.assertEqual(store.execute("SELECT count(*) FROM judged").fetchone()[0], 0)
        self.assertEqual(store.execute("SELECT count(*) FROM timed").fetchone()[0], 0)

    def test_changed_items_are_judged_again_and_reported(self):
        run = self.folder / "run"
        self.cupel(*self.command(run))
        before = self.seconds(run)
        self.kernel("mnist_linear/forward/no_bias.cu", (self.kernels / "mnist_linear/forward/good.cu").read_text())
        done = self.cupel(*self.command(run))
        self.assertEqual(done.status, 0, done)
        self.assertIn("mnist_linear/forward/forward/no_bias.cu: kernel changed, judged again", done.err)
        after = self.seconds(run)
        self.assertEqual({key for key in before if before[key] == after[key]},
                         {"mnist_linear/forward/forward/good.cu", "mnist_linear/backward/backward.cu"})
        code = self.tasks / "mnist_linear/func_forward.py"
        code.write_text(code.read_text() + "\n# another text\n")
        done = self.cupel(*self.command(run))
        self.assertEqual(done.err.count("task changed, judged again"), 2)
        self.assertNotIn("backward.cu: task", done.err)

    def seconds(self, run):
        store = sqlite3.connect(run / "suite.cupel")
        return dict(store.execute("SELECT item, seconds FROM outcomes"))

    def test_an_interrupted_run_writes_results_and_says_how_to_resume(self):
        run = self.folder / "run"
        process = subprocess.Popen([CUPEL, *map(str, self.command(run, "--jobs", "1"))], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=self.environment())
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline and (not (run / "suite.cupel").exists() or not self.seconds_or_none(run)):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("--resume", err)
        found = self.decisions(run)
        self.assertIn("pending", found.values())
        self.assertGreater(len(set(found.values())), 1)
        done = self.cupel("suite", "run", "--resume", run)
        self.assertEqual(done.status, 1, done)
        self.assertNotIn("pending", self.decisions(run).values())

    def seconds_or_none(self, run):
        try:
            return self.seconds(run)
        except sqlite3.Error:
            return None

    def test_rejects_options_that_differ_from_the_runs(self):
        run = self.folder / "run"
        list_file = self.write("list.jsonl", json.dumps({"kernel": str(self.kernels / "mnist_linear/forward/good.cu"),
                                                         "task": "mnist_linear"}))
        args = ["suite", "run", list_file, "--settings", "single", "--device", "emu", "-o", run]
        self.assertEqual(self.cupel(*args, "--seed", "5").status, 0)
        for option in (["--trials", "3"], ["--seed", "6"]):
            done = self.cupel(*args, *option)
            self.assertEqual(done.status, 2, done)
            self.assertIn("has different options", done.err)
        self.assertEqual(self.cupel("suite", "run", "-o", run).status, 2)
        self.assertIn("is not the store", self.cupel("suite", "report", self.not_a_run()).err)

    def not_a_run(self):
        folder = self.folder / "other"
        folder.mkdir()
        sqlite3.connect(folder / "suite.cupel").execute("CREATE TABLE t (a)").connection.close()
        return folder

    def test_invalid_inputs_leave_no_run_behind(self):
        run, empty = self.folder / "run", self.folder / "empty"
        empty.mkdir()
        for tasks, kernels_of, expected in ((self.tasks, self.folder / "nowhere", "nowhere"),
                                            (empty, self.kernels, "empty")):
            done = self.cupel("suite", "run", tasks, "--kernels", kernels_of, "--device", "emu", "-o", run)
            self.assertEqual(done.status, 2, done)
            self.assertIn(expected, done.err)
            self.assertFalse(run.exists())
        done = self.cupel("suite", "run", "--resume", run, "-o", run)
        self.assertEqual(done.status, 2, done)
        self.assertIn("-o", done.err)
        done = self.cupel("suite", "run", self.tasks, "--kernels", self.kernels, "--device", "emu", "--energy", "-o", run)
        self.assertEqual(done.status, 3, done)
        self.assertIn("cannot measure energy", done.err)
        self.assertFalse(run.exists())

    def test_resume_retries_a_failed_reference(self):
        code = self.tasks / "mnist_linear" / "func_forward.py"
        right = code.read_text()
        self.assertIn("F.linear", right)
        code.write_text(right.replace("F.linear", "F.linnear"))
        run = self.folder / "run"
        done = self.cupel(*self.command(run, "--direction", "forward"))
        self.assertEqual(done.status, 2, done)
        self.assertIn("linnear", done.out)
        self.assertIn("--resume", done.out)
        code.write_text(right)
        done = self.cupel("suite", "run", "--resume", run)
        self.assertEqual(done.status, 1, done)  # one kernel is wrong
        self.assertEqual(set(self.decisions(run).values()), {"accepted", "rejected"})

    def test_records_of_kernels_that_differ_only_in_their_suffix(self):
        store = self.folder / "run"
        suite_fixture.write_run(store, SOURCE, [Kernel("t", kernel="forward/a.cu"), Kernel("t", kernel="forward/a.py"),
                                    Kernel("t", kernel="forward/b.cu")])
        done = self.cupel("suite", "report", store, "--records", self.folder / "records")
        self.assertEqual(done.status, 0, done)
        written = {str(p.relative_to(self.folder / "records")) for p in (self.folder / "records").rglob("*.json")}
        self.assertEqual(written, {"t/forward/a.cu.json", "t/forward/a.py.json", "t/forward/b.json"})

    def test_compares_estimates(self):
        run, later = self.folder / "a", self.folder / "b"
        self.cupel(*self.command(run))
        same = self.cupel("suite", "compare", run, run)
        self.assertEqual(same.status, 0, same)
        shutil.copytree(run, later)
        good = (self.kernels / "mnist_linear/forward/good.cu").read_text()
        self.kernel("mnist_linear/forward/good.cu", good.replace("sum + biases[column]", "sum"))
        self.kernel("mnist_linear/forward/no_bias.cu", good)
        self.cupel("suite", "run", "--resume", later)
        compared = self.cupel("suite", "compare", run, later / "results.json", "--json", self.folder / "c.json")
        self.assertEqual(compared.status, 1, compared)
        changes = {item["kernel"]: item["change"] for item in json.loads((self.folder / "c.json").read_text())["items"]}
        self.assertEqual(changes, {"forward/good.cu": "broken", "forward/no_bias.cu": "fixed",
                                   "backward.cu": "no difference"})
        self.assertIn("wrong_result", compared.out)


class SuiteComparesTimes(CupelTest):
    def runs(self, before, after):
        paths = []
        for name, kernels in (("a", before), ("b", after)):
            paths.append(suite_fixture.write_run(self.folder / name, SOURCE, kernels, seed=len(paths) + 1))
        return paths

    def compare(self, before, after):
        report = self.folder / "c.json"
        done = self.cupel("suite", "compare", *self.runs(before, after), "--json", report)
        return done, {item["task"]: item["change"] for item in json.loads(report.read_text())["items"]}

    def test_merges_runs(self):
        runs = self.runs([Kernel("one", times=[(10, 30, 20)]), Kernel("two", decision="rejected", times=[(1, 1, 1)])],
                         [Kernel("two", times=[(10, 40, 20)])])
        whole = self.folder / "whole"
        done = self.cupel("suite", "merge", *runs, "-o", whole)
        self.assertEqual(done.status, 0, done)
        found = json.loads((whole / "results.json").read_text())
        self.assertEqual({item["task"]: (item["decision"], item["from"]) for item in found["items"]},
                         {"one": ("accepted", "a"), "two": ("accepted", "b")})
        self.assertEqual(len(list(csv.DictReader((whole / "results.csv").read_text().splitlines()))), 2)
        self.assertEqual(self.cupel("suite", "compare", whole, whole / "results.json").status, 0)
        before = (whole / "results.json").read_text(), (whole / "results.md").read_text()
        (whole / "results.md").unlink()
        self.assertEqual(self.cupel("suite", "report", whole).status, 0)
        self.assertEqual(before, ((whole / "results.json").read_text(), (whole / "results.md").read_text()))
        records = self.cupel("suite", "report", whole, "--records", self.folder / "records")
        self.assertEqual((records.status, "no verdicts" in records.err), (2, True), records)
        over = self.cupel("suite", "merge", *runs, "-o", runs[0])
        self.assertEqual(over.status, 2, over)
        self.assertIn("folder of a run", over.err)

    def test_compares_times_relative_to_pytorch(self):
        times = {"same": 10, "faster": 10, "slower": 10, "drifts": 10}
        before = [Kernel(task, times=[(us, 30, 20)]) for task, us in times.items()]
        after = [Kernel("same", times=[(10, 30, 20)]), Kernel("faster", times=[(7, 30, 20)]),
                 Kernel("slower", times=[(13, 30, 20)]), Kernel("drifts", times=[(10.4, 31.5, 21)])]
        done, changes = self.compare(before, after)
        self.assertEqual(changes, {"same": "no difference", "faster": "faster", "slower": "slower",
                                   "drifts": "no difference"}, done)
        self.assertEqual(done.status, 1)
        self.assertIn("p < 0.01", done.out)

    def test_a_wrong_timed_result_is_broken(self):
        before = [Kernel("t", times=[(10, 30, 20)])]
        after = [Kernel("t", times=[(10, 30, 20)],
                        refused={"code": "wrong_timed_result", "message": "a timed replay was wrong"})]
        done, changes = self.compare(before, after)
        self.assertEqual(changes, {"t": "broken"}, done)
        self.assertIn("wrong_timed_result", done.out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
