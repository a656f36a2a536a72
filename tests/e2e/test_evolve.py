"""`cupel optimize --model`: evolves with a language model, survives being killed, and can be replayed."""
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import time
import unittest

import scripted_model
from support import CUPEL, CupelTest, ci_share

HERE = pathlib.Path(__file__).resolve().parent


@ci_share()
class Evolve(CupelTest):
    def setUp(self):
        super().setUp()
        self.asked = self.folder / "asked"
        self.model = self.folder / "model.sh"
        self.model.write_text(f"#!/bin/sh\nexec {sys.executable} {HERE}/scripted_model.py {self.asked}\n")
        self.model.chmod(0o700)

    def command(self, run, *args, proposals=4, evaluations=2, start=None):
        start = start or self.write("start.cu", scripted_model.START)
        return ["optimize", "mnist_linear", "--kernel", start, "--settings", "single",
                "--device", "emu", "--seed", "7", "--model", f"command:{self.model}", "--generations", "2",
                "--proposals", proposals, "--evaluations", evaluations, "--run", run, *args]

    @staticmethod
    def candidates(run):
        """The candidates of a run and their results, without times."""
        archive = sqlite3.connect(run / "run.cupel")
        rows = archive.execute("SELECT c.id, c.generation, c.source, c.proposer, c.description, c.meta, c.status, "
                               "s.decision, s.objective, (SELECT group_concat(fate) FROM (SELECT name || passed AS fate "
                               "FROM stages WHERE candidate = c.id ORDER BY id)) FROM candidates c "
                               "JOIN standing s ON s.candidate = c.id ORDER BY c.id").fetchall()
        archive.close()
        return rows

    @staticmethod
    def query(run, sql):
        archive = sqlite3.connect(run / "run.cupel")
        rows = archive.execute(sql).fetchall()
        archive.close()
        return rows

    def test_evolves_and_replays_without_the_model(self):
        run, again = self.folder / "run", self.folder / "again"
        done = self.cupel(*self.command(run, "--review", "on", proposals=8), timeout=600)
        self.assertEqual(done.status, 0, done)
        self.assertIn("all 2 generations done", done.out)
        self.assertLess(done.json["best"]["estimated_us"], done.json["start"]["estimated_us"], done)
        rows = self.candidates(run)
        fates = {row[9] for row in rows}
        self.assertIn("novelty0", fates, rows)  # a copy with other names is not evaluated
        self.assertIn("novelty1,build0,judge0", fates, rows)
        self.assertTrue(any(row[3] == "tuner" for row in rows), "the new best was not tuned")
        roles = {role for role, in self.query(run, "SELECT DISTINCT role FROM exchanges")}
        self.assertEqual(roles, {"proposer", "summariser", "reviewer:compile", "reviewer:memory", "reviewer:numerics"})
        self.assertEqual(self.query(run, "SELECT count(*) FROM events WHERE kind = 'generation'"), [(2,)])
        hashes = [asked for asked, in self.query(run, "SELECT hash FROM exchanges")]
        self.assertEqual(len(hashes), len(set(hashes)))
        self.assertEqual(len(hashes), len(self.asked.read_text().split()))

        self.model.unlink()
        done = self.cupel("optimize", "--replay", run, "--run", again, timeout=600)
        self.assertEqual(done.status, 0, done)
        self.assertEqual(self.candidates(again), rows)
        self.assertEqual((again / "best.cu").read_text(), (run / "best.cu").read_text())

    def test_a_killed_run_ends_like_an_undisturbed_one(self):
        undisturbed, run = self.folder / "a", self.folder / "b"
        self.assertEqual(self.cupel(*self.command(undisturbed), timeout=600).status, 0)
        answered = len(self.asked.read_text().split())
        self.asked.unlink()
        rng = random.Random(4)
        argv = [CUPEL, *map(str, self.command(run))]
        kills = 0
        for _ in range(6):
            process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       env=self.environment(), cwd=self.folder)
            time.sleep(rng.uniform(0.2, 4))
            kills += process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait()
            if (run / "run.cupel").exists():
                argv = [CUPEL, "optimize", "--resume", str(run)]
        self.assertGreater(kills, 2)
        done = self.cupel("optimize", "--resume", run, timeout=600)
        self.assertEqual(done.status, 0, done)
        self.assertEqual(self.candidates(run), self.candidates(undisturbed))
        # Questions in progress at a kill are asked again: at most as many as run at the same time.
        self.assertLessEqual(len(self.asked.read_text().split()), answered + kills * 15)
        unanswered = self.query(run, "SELECT count(*) FROM exchanges e WHERE answer IS NULL AND NOT EXISTS "
                                     "(SELECT 1 FROM exchanges o WHERE o.hash = e.hash AND o.error = '')")
        self.assertEqual(unanswered, [(0,)])

    def test_an_unavailable_model_stops_the_run_until_it_is_resumed(self):
        run = self.folder / "run"
        text = self.model.read_text()
        self.model.write_text("#!/bin/sh\nexit 9\n")
        stopped = self.cupel(*self.command(run), timeout=600)
        self.assertEqual(stopped.status, 2, stopped)
        self.assertIn("no model is available", stopped.err)
        self.assertIn(f"--resume {run}", stopped.err)
        self.assertEqual(self.query(run, "SELECT status FROM runs"), [("stopped",)])
        self.model.write_text(text)
        done = self.cupel("optimize", "--resume", run, timeout=600)
        self.assertEqual(done.status, 0, done)

    def test_models_may_write_the_start(self):
        run = self.folder / "run"
        command = [str(part) for part in self.command(run, "--translate", "--without", "review,polish")]
        at = command.index("--kernel")
        del command[at:at + 2]
        done = self.cupel(*command, timeout=600)
        self.assertEqual(done.status, 0, done)
        rows = self.candidates(run)
        self.assertFalse(any(row[3] == "baseline" for row in rows), rows)
        self.assertIn("translator", {role for role, in self.query(run, "SELECT DISTINCT role FROM exchanges")})

    def test_evolves_python_programs(self):
        start = self.write("start.py", scripted_model.PROGRAM)
        run, again = self.folder / "run", self.folder / "again"
        done = self.cupel(*self.command(run, "--review", "on", "--without", "summary", start=start, proposals=8,
                                       evaluations=4),
                          timeout=600)
        self.assertEqual(done.status, 0, done)
        self.assertIn("all 2 generations done", done.out)
        self.assertIn(f"Best kernel: {run}/best.py", done.out)
        self.assertLess(done.json["best"]["estimated_us"], done.json["start"]["estimated_us"], done)
        rows = self.candidates(run)
        files = list((run / "candidates").iterdir())
        self.assertEqual({file.suffix for file in files}, {".py"})
        self.assertTrue(all("class ModelNew" in file.read_text() for file in files))
        self.assertFalse(any(row[3] == "tuner" for row in rows), "there are no constants to tune")
        fates = {row[9] for row in rows}
        self.assertIn("novelty0", fates, rows)  # a copy with another comment
        self.assertIn("novelty1,build1,review1,judge0", fates, rows)  # one that is wrong or does not compile
        self.assertIn("novelty1,build1,review1,judge1", fates, rows)
        best = (run / "best.py").read_text()
        check = self.cupel("check", run / "best.py", "--task", "mnist_linear", "--settings", "single", "--device", "emu")
        self.assertEqual(check.status, 0, check)

        self.model.unlink()
        done = self.cupel("optimize", "--replay", run, "--run", again, timeout=600)
        self.assertEqual(done.status, 0, done)
        self.assertEqual(self.candidates(again), rows)
        self.assertEqual((again / "best.py").read_text(), best)

    def test_the_tuner_leaves_python_programs_as_they_are(self):
        start, run = self.write("start.py", scripted_model.PROGRAM), self.folder / "run"
        done = self.cupel("optimize", "mnist_linear", "--kernel", start, "--settings", "single", "--device", "emu",
                          "--seed", "7", "--run", run)
        self.assertEqual(done.status, 0, done)
        self.assertIn("the tuner does not vary Python programs", done.out)
        self.assertEqual((run / "best.py").read_text(), scripted_model.PROGRAM)
        resumed = self.cupel("optimize", "--resume", run)
        self.assertEqual(resumed.status, 0, resumed)
        self.assertEqual(len(self.candidates(run)), 1)
        backward = self.cupel("optimize", "mnist_linear", "--backward", "--kernel", start)
        self.assertEqual(backward.status, 3, backward)

    def test_ingredients_can_be_left_out(self):
        run = self.folder / "run"
        done = self.cupel(*self.command(run, "--without", "review,summary,reflection,polish,novelty"), timeout=600)
        self.assertEqual(done.status, 0, done)
        self.assertEqual(self.query(run, "SELECT DISTINCT role FROM exchanges"), [("proposer",)])
        self.assertFalse(any(row[3] == "tuner" for row in self.candidates(run)))
        refused = self.cupel(*self.command(self.folder / "other", "--without", "gravity"))
        self.assertEqual(refused.status, 2, refused)
        self.assertIn("choose from bandit, crossover", refused.err)


if __name__ == "__main__":
    unittest.main()
