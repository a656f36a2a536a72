"""A suite on a Slurm cluster of three nodes (on this machine), with workers started by srun. Tests kill
workers, and kill and resume the coordinator. No result is lost or counted twice, and all results equal those
of a run without Slurm."""
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import time
import unittest

import slurm
from support import CUPEL, SOURCE, CupelTest

KERNELS = 5


def without_timing(value):
    if isinstance(value, dict):
        return {key: without_timing(member) for key, member in value.items() if key not in ("timing", "seconds")}
    return [without_timing(member) for member in value] if isinstance(value, list) else value


class SlurmTest(CupelTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if why := slurm.missing():
            raise unittest.SkipTest(f"needs {why}")
        cls.slurm = cls.enterClassContext(slurm.Slurm(3)) if hasattr(cls, "enterClassContext") else cls.entered()

    @classmethod
    def entered(cls):
        cluster = slurm.Slurm(3).__enter__()
        cls.addClassCleanup(cluster.__exit__)
        return cluster

    def setUp(self):
        super().setUp()
        self.kernels, self.run_folder = self.folder / "kernels", self.folder / "run"
        folder = self.kernels / "mnist_linear" / "forward"
        folder.mkdir(parents=True)
        forward = (SOURCE / "tasks/mnist_linear/forward.cu").read_text()
        for i in range(KERNELS):
            text = forward if i else forward.replace("sum + biases[column]", "sum")
            (folder / f"kernel{i}.cu").write_text(f"// number {i}\n{text}")

    def environment(self):
        return {**super().environment(), **self.slurm.environment}

    def command(self, run, *args):
        return [CUPEL, "suite", "run", str(SOURCE / "tasks" / "mnist_linear"), "--kernels", str(self.kernels),
                "--direction", "forward", "--settings", "single", "--trials", "2", "--device", "emu", "--seed", "5",
                "-o", str(run), *args]

    def through_slurm(self, *args):
        return self.command(self.run_folder, "--workers", f"srun -n1 -c2 --quiet {CUPEL} worker", "--jobs", "3", *args)

    def workers(self):
        """The processes of `cupel worker` in this Slurm. Other tests may run workers at the same time."""
        found = []
        ours = f"SLURM_CONF={self.slurm.environment['SLURM_CONF']}".encode()
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                argv = (folder / "cmdline").read_bytes().split(b"\0")
                environment = (folder / "environ").read_bytes().split(b"\0")
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if argv[:2] == [CUPEL.encode(), b"worker"] and ours in environment and state != "Z":
                found.append(int(folder.name))
        return found

    def begin(self):
        process = subprocess.Popen(self.through_slurm(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=self.environment(), cwd=self.folder)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        """Kills the process if the test failed before its end."""
        if process.poll() is None:
            process.kill()
            process.communicate()

    def verdicts(self, run):
        store = sqlite3.connect(run / "suite.cupel")
        found = {}
        for item, verdict in store.execute("SELECT item, verdict FROM outcomes"):
            self.assertNotIn(item, found)
            found[item] = without_timing(json.loads(verdict))
        return found

    def stored(self):
        try:
            store = sqlite3.connect(f"file:{self.run_folder}/suite.cupel?mode=ro", uri=True)
            return store.execute("SELECT count(*) FROM outcomes").fetchone()[0]
        except sqlite3.Error:
            return 0

    def wait_until(self, ready, seconds=120):
        end = time.monotonic() + seconds
        while not ready():
            self.assertLess(time.monotonic(), end, self.slurm.logs())
            time.sleep(0.02)

    def wait_for_no_worker(self):
        self.wait_until(lambda: not self.workers(), 30)
        self.wait_until(lambda: not self.slurm.jobs(), 30)

    def finish(self, process):
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 1, out + err)  # one kernel is wrong
        return out + err

    def compare_with_local_run(self):
        local = self.folder / "local"
        done = subprocess.run(self.command(local), capture_output=True, text=True, env=self.environment(), timeout=300)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        mine, theirs = self.verdicts(self.run_folder), self.verdicts(local)
        self.assertEqual(len(mine), KERNELS)
        self.assertEqual(mine, theirs)
        self.assertEqual(sum(v["verdict"] == "accepted" for v in mine.values()), KERNELS - 1)

    def test_killed_workers_lose_no_results(self):
        process = self.begin()
        for killed in range(2):
            running = []

            def two_are_running():
                running[:] = self.workers()
                return len(running) >= 2 or process.poll() is not None

            def is_killed():
                self.wait_until(two_are_running)
                try:
                    if process.poll() is None:
                        os.kill(running[0], signal.SIGKILL)
                except ProcessLookupError:  # it ended by itself meanwhile
                    return False
                return True

            self.wait_until(is_killed)
        output = self.finish(process)
        self.assertIn("it is restarted", output)
        self.compare_with_local_run()
        self.wait_for_no_worker()

    def test_a_killed_coordinator_can_be_resumed(self):
        process = self.begin()
        self.wait_until(lambda: self.stored() >= 1)
        process.kill()
        process.communicate()
        stored = self.stored()
        self.wait_for_no_worker()
        self.finish(self.begin())
        self.assertGreaterEqual(stored, 1)
        self.compare_with_local_run()
        self.wait_for_no_worker()

    def test_an_interrupted_run_leaves_no_jobs(self):
        process = self.begin()
        self.wait_until(lambda: len(self.workers()) >= 1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.wait_for_no_worker()


if __name__ == "__main__":
    unittest.main()
