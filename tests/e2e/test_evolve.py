"""`cupel optimize --model`: evolves with a language model, survives being killed, and can be replayed."""
import json
import pathlib
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import unittest

import kernels
import scripted_model
from support import CUPEL, SOURCE, CupelTest, ci_share

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
        self.assertEqual(roles, {"proposer", "summariser", "reviewer"})
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
        begin = time.monotonic()
        self.assertEqual(self.cupel(*self.command(undisturbed), timeout=600).status, 0)
        whole = time.monotonic() - begin
        answered = len(self.asked.read_text().split())
        self.asked.unlink()
        rng = random.Random(4)
        argv = [CUPEL, *map(str, self.command(run))]
        kills = 0
        for _ in range(6):
            process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       env=self.environment(), cwd=self.folder)
            time.sleep(rng.uniform(0.02, 0.3) * whole)
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

    def test_says_how_many_proposals_are_missing(self):
        run, text = self.folder / "run", self.model.read_text()
        self.model.write_text(text.replace("exec ", f"mkdir {self.folder}/taken || exit 9\nexec "))  # answers once
        done = self.cupel(*self.command(run, "--review", "off", "--without", "summary,repair,polish", proposals=2),
                          timeout=600)
        self.assertIn("generation 1: 1 of 2 proposals are missing: ", done.err)
        self.assertIn("generation 2: no model is available", done.err)
        self.assertEqual(self.query(run, "SELECT count(*) FROM candidates WHERE generation = 1"), [(1,)])

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
        files = list((run / "candidates").glob("*/kernel.*"))
        self.assertEqual({file.suffix for file in files}, {".py"})
        self.assertTrue(all("class ModelNew" in file.read_text() for file in files))
        self.assertFalse(any(row[3] == "tuner" for row in rows), "there are no constants to tune")
        fates = {row[9] for row in rows}
        self.assertIn("novelty0", fates, rows)  # a copy with another comment
        self.assertIn("novelty1,build1,review1,judge0", fates, rows)  # one that is wrong or does not compile
        self.assertIn("novelty1,build1,review1,screen1,judge1", fates, rows)
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

    def test_a_run_learns_from_another_and_stops_near_the_floor(self):
        first, second = self.folder / "first", self.folder / "second"
        done = self.cupel(*self.command(first, proposals=8), timeout=600)
        self.assertEqual(done.status, 0, done)
        self.assertGreater(done.json["references"]["floor_us"], 0)
        self.assertIn("Moving the data once takes", done.out)
        done = self.cupel(*self.command(second, "--lessons", first), timeout=600)
        self.assertEqual(done.status, 0, done)
        config = json.loads(self.query(second, "SELECT config FROM runs")[0][0])
        ideas = config["proven"]
        self.assertTrue(ideas, "the first run has no proven idea")
        self.assertGreaterEqual(ideas[0]["before"], 1.05 * ideas[0]["after"])
        prompts = self.query(second, "SELECT b.bytes FROM exchanges e JOIN blobs b ON b.sha256 = e.request "
                                     "WHERE e.role = 'proposer'")
        self.assertTrue(all(f"candidate {ideas[0]['candidate']} of {first}" in text.decode() for text, in prompts))

        stopped = self.cupel(*self.command(self.folder / "third", "--stop-at", "0.001"), timeout=600)
        self.assertEqual(stopped.status, 0, stopped)
        self.assertIn("as near to the floor as requested", stopped.out)
        self.assertEqual(self.query(self.folder / "third", "SELECT count(*) FROM exchanges"), [(0,)])

    def test_ingredients_can_be_left_out(self):
        run = self.folder / "run"
        done = self.cupel(*self.command(run, "--without", "review,summary,repair,polish,novelty"), timeout=600)
        self.assertEqual(done.status, 0, done)
        self.assertEqual(self.query(run, "SELECT DISTINCT role FROM exchanges"), [("proposer",)])
        self.assertFalse(any(row[3] == "tuner" for row in self.candidates(run)))
        refused = self.cupel(*self.command(self.folder / "other", "--without", "gravity"))
        self.assertEqual(refused.status, 2, refused)
        self.assertIn("choose from bandit, crossover", refused.err)


# Sizes that no prompt may name: kernels could be written for them.
SECRET_ROWS, SECRET_FEATURES = 211, 419
# Wrong at rows that are no multiple of four, so that only other sizes than the listed one show it.
TAIL = kernels.LINEAR.replace("kTile = 16", "kTile = 8").replace("row < rows && col", "row < rows - rows % 4 && col")
LEAK_MODEL = '''
import sys
prompt = sys.stdin.read()
if "RECOMMENDATIONS:" in prompt:
    print("RECOMMENDATIONS:\\n1. Larger tiles.\\n2. Fewer barriers.\\n3. Vector loads.")
else:
    failed = "rows - rows % 4" in prompt or "An attempt that failed" in prompt
    print("NAME: tile\\nTHOUGHT: why not\\n\\n```cuda\\n" + (RIGHT if failed else TAIL) + "\\n```")
'''


class Secrets(CupelTest):
    def test_no_prompt_names_a_held_out_size(self):
        task = self.folder / "secret"
        shutil.copytree(SOURCE / "tasks" / "mnist_linear", task)
        config = {"input_configs": [{"batch_size": SECRET_ROWS}],
                  "init_configs": [{"num_output_features": 10, "init_method": "kaiming"}],
                  "shared_configs": [{"num_input_features": SECRET_FEATURES}]}
        caps = {"at_most": {"num_input_features": 516, "num_output_features": 260}}
        (task / "task.json").write_text(
            json.dumps({"title": "Linear", "heldout_forward": config, "emulator_forward": caps}))
        texts = f"RIGHT, TAIL = {scripted_model.RIGHT[1]!r}, {TAIL!r}\n"
        model = self.write("model.py", texts + LEAK_MODEL)
        start, run = self.write("start.cu", scripted_model.START), self.folder / "run"
        done = self.cupel("optimize", task, "--kernel", start, "--device", "emu", "--seed", "7", "--run", run,
                          "--model", f"command:{sys.executable} {model}", "--generations", "3", "--proposals", "2",
                          timeout=900)
        self.assertEqual(done.status, 0, done)
        archive = sqlite3.connect(run / "run.cupel")
        prompts = [text.decode() for text, in archive.execute(
            "SELECT b.bytes FROM exchanges e JOIN blobs b ON b.sha256 = e.request")]
        judged = " ".join(text for text, in archive.execute("SELECT json FROM verdicts"))
        archive.close()
        self.assertIn(f"batch_size={SECRET_ROWS}", judged)
        self.assertTrue(any("at other sizes" in prompt for prompt in prompts), "no prompt has a failure there")
        self.assertTrue(any("The listed settings" in prompt for prompt in prompts), "no prompt has estimates")
        for prompt in prompts:
            found = re.search(rf".*\b({SECRET_ROWS}|{SECRET_FEATURES}|{SECRET_ROWS * 10})\b.*", prompt)
            self.assertIsNone(found, found)


if __name__ == "__main__":
    unittest.main()
