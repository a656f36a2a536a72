"""cupel worker, tested with a coordinator's messages (docs/formats/worker.md)."""
import base64
import hashlib
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import time
import unittest

from support import CUPEL, SOURCE, CupelTest

KERNEL = SOURCE / "tasks" / "mnist_linear" / "forward.cu"
TASK = SOURCE / "tasks" / "mnist_linear"
SETUP = {"type": "setup", "device": "emu", "model": "h100", "engines": "both", "arch": "sm_90", "flags": [], "include_roots": [],
         "compile_seconds": 300, "allow_weak_sandbox": bool(os.environ.get("CUPEL_ALLOW_WEAK_SANDBOX")), "python": "",
         "cases": "auto", "threads": 0}


def encoded(path):
    return base64.b64encode(path.read_bytes()).decode()


def descendants(pid):
    """The process `pid` and its descendants, if they still run."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(stat.parent.name)] = int(fields[1])
    found = {pid} & parents.keys()
    while more := {p for p, parent in parents.items() if parent in found} - found:
        found |= more
    return found


class WorkerTest(CupelTest):
    def begin(self, *args):
        self.worker = subprocess.Popen([CUPEL, "worker", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, env=self.environment(), cwd=self.folder)
        self.addCleanup(self.end, self.worker)

    @staticmethod
    def end(worker):
        worker.kill()
        worker.wait()
        for pipe in (worker.stdin, worker.stdout, worker.stderr):
            pipe.close()

    def send(self, message):
        self.worker.stdin.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
        self.worker.stdin.flush()

    def receive(self, wanted):
        """Returns the next message, which must have this type. Skips "alive" messages and empty lines."""
        for line in self.worker.stdout:
            message = json.loads(line) if line.strip() else {"type": "alive"}
            if message["type"] != "alive":
                self.assertEqual(message["type"], wanted, line[:500])
                return message
        self.fail(f"the worker ended: {self.worker.stderr.read()}")

    def make_ready(self, **setup):
        hello = self.receive("hello")
        self.send({**SETUP, **setup})
        return hello, self.receive("ready")

    def work(self, **changes):
        shown = self.cupel("task", "show", "mnist_linear").json
        digest = shown["forward"]["hash"]
        files = [{"name": path.name, "data": encoded(path)} for path in sorted(TASK.iterdir())
                 if path.is_file() and path.suffix != ".cu"]
        return {"type": "do", "ticket": 5, "id": "one", "kernel": str(KERNEL), "source": encoded(KERNEL),
                "task_path": str(TASK), "task_sha256": digest,
                "task": {"name": "mnist_linear", "folder": True, "files": files}, "backward": False,
                "settings": "single", "trials": 5, "seed": "7", "thorough": True, "explores": False,
                "full_size": False, "flags": [],
                "baselines": True, "energy": False, "rounds": 400, "verdict": None, "setting": "", **changes}

    def test_verdict_equals_that_of_check(self):
        checked = self.cupel("check", KERNEL, "--task", TASK, "--settings", "single", "--seed", 7, "--device", "emu",
                             "--no-prove")  # a worker tries no proofs
        self.begin()
        hello, ready = self.make_ready()
        self.assertEqual(hello["protocol"], "cupel.worker/1")
        self.assertEqual((ready["timed"], ready["cases"], ready["gpu"]), (False, "worker", ""))
        self.send(self.work())
        done = self.receive("done")
        self.assertEqual((done["ticket"], done["error"], done["bench"]), (5, None, None))
        self.assertEqual(done["verdict"]["verdict"], "accepted")
        self.assertEqual(done["verdict"]["digest"], checked.json["digest"])
        # The worker then judges the next item.
        self.send(self.work(ticket=6, source=base64.b64encode(
            KERNEL.read_bytes().replace(b"sum + biases[column]", b"sum")).decode()))
        rejected = self.receive("done")["verdict"]
        self.assertEqual(rejected["verdict"], "rejected")
        # The worker only times a setting if the verdict is valid here.
        broken = {**done["verdict"], "trials": 999}
        for verdict, stale in [(done["verdict"], False), (rejected, True), (broken, True)]:
            self.send(self.work(ticket=7, verdict=verdict, setting="single-0"))
            times = self.receive("done")
            self.assertEqual((times["stale"], times["verdict"], times["bench"]), (stale, None, None))
            self.assertEqual((times["error"] or {}).get("message"),
                             None if stale else ready["device"] + " cannot measure time")
        self.send({"type": "bye"})
        self.assertEqual(self.worker.wait(timeout=20), 0)

    def test_a_changed_task_is_an_error(self):
        self.begin()
        self.make_ready()
        work = self.work()
        work["task"]["files"][0]["data"] = base64.b64encode(b"changed").decode()
        self.send(work)
        done = self.receive("done")
        self.assertIsNone(done["verdict"])
        self.assertTrue(done["error"]["message"])

    def test_ends_with_its_children_when_the_coordinator_ends(self):
        for how in ("end of file", "SIGTERM"):
            self.begin("--cases", "worker")
            self.make_ready()
            self.send(self.work(seed=None, trials=10000, settings="all"))
            end = time.monotonic() + 60
            while len(below := descendants(self.worker.pid)) < 2 and time.monotonic() < end:
                time.sleep(0.05)  # children start and end
            self.assertGreater(len(below), 1)
            if how == "SIGTERM":
                self.worker.send_signal(signal.SIGTERM)
            else:
                self.worker.stdin.close()
            self.worker.wait(timeout=15)
            end = time.monotonic() + 10
            while (left := [p for p in below if descendants(p)]) and time.monotonic() < end:
                time.sleep(0.05)
            self.assertEqual(left, [], how)

    def test_ends_on_an_invalid_message(self):
        for line in ("no JSON", '{"type": "do"}', '{"type": "setup"}', json.dumps({**SETUP, "threads": -1})):
            self.begin()
            self.receive("hello")
            self.send(line)
            self.worker.wait(timeout=15)
            self.assertIn("cupel worker:", self.worker.stderr.read())

    def test_reports_why_it_cannot_judge(self):
        self.begin("--cases", "worker", "--python", "/nonexistent/python")
        self.receive("hello")
        self.send(SETUP)
        failed = self.receive("failed")
        self.assertIn("/nonexistent/python", failed["error"]["message"])
        self.assertEqual(self.worker.wait(timeout=15), 2)


class WorkerPoolTest(CupelTest):
    """Workers started by a suite."""

    def suite(self, run, *args):
        kernels = self.folder / "kernels" / "mnist_linear" / "forward"
        kernels.mkdir(parents=True, exist_ok=True)
        for i in range(3):
            (kernels / f"kernel{i}.cu").write_text(f"// {i}\n{KERNEL.read_text()}")
        done = self.cupel("suite", "run", TASK, "--kernels", self.folder / "kernels", "--direction", "forward",
                          "--settings", "single", "--trials", "2", "--device", "emu", "--seed", "5", "-o", run, *args,
                          timeout=300)
        self.assertEqual(done.status, 0, done)
        store = sqlite3.connect(run / "suite.cupel")
        verdicts = {}
        for item, verdict in store.execute("SELECT item, verdict FROM outcomes"):
            self.assertNotIn(item, verdicts)
            # Two builds of the same source in two caches contain different names.
            verdicts[item] = {k: v for k, v in json.loads(verdict).items()
                              if k not in ("timing", "image_sha256", "digest")}
        self.assertEqual(len(verdicts), 3)
        return verdicts

    def test_a_worker_without_pytorch_gets_cases_by_hash(self):
        cache = self.folder / "node cache"
        command = f"env CUPEL_CACHE='{cache}' CUPEL_PYTHON=/nonexistent {CUPEL} worker --cases coordinator"
        remote = self.suite(self.folder / "remote", "--workers", command, "--jobs", "2")
        local = self.suite(self.folder / "local")
        self.assertEqual(remote, local)
        files = [path for path in (cache / "store").iterdir() if path.suffix != ".lock"]
        # All kernels use the same inputs, so each case is stored only once.
        hashes = {hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
        self.assertEqual(hashes, {path.name for path in files})
        used = sum(len(setting["cases"]) for setting in next(iter(local.values()))["settings"])
        self.assertGreaterEqual(len(files), used)  # some are drawn in advance and not used
        self.assertLess(len(files), 2 * used)
        self.assertEqual((cache / "store").stat().st_mode & 0o777, 0o700)


if __name__ == "__main__":
    unittest.main()
