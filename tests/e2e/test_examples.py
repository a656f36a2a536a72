"""examples/: replays recorded runs of `cupel optimize --model` with their recorded answers."""
import hashlib
import json
import os
import shutil
import sqlite3
import unittest

from support import SOURCE, CupelTest

EXAMPLES = SOURCE / "examples"
# The others take minutes and are only replayed with CUPEL_TEST_EXAMPLES=all.
QUICK = {"mnist_cross_entropy_backward"}


def candidates(run):
    """The candidates of a run and their results, without the questions' hashes, which depend on wording."""
    archive = sqlite3.connect(f"file:{run / 'run.cupel'}?mode=ro&immutable=1", uri=True)
    rows = archive.execute("SELECT c.id, c.generation, c.source, c.proposer, c.description, c.meta, c.status, "
                           "s.decision, s.objective FROM candidates c JOIN standing s ON s.candidate = c.id "
                           "ORDER BY c.id").fetchall()
    archive.close()
    found = []
    for row in rows:
        meta = json.loads(row[5])
        meta.pop("exchange", None)
        found.append((*row[:5], meta, *row[6:]))
    return found


def config_of(run):
    archive = sqlite3.connect(f"file:{run / 'run.cupel'}?mode=ro&immutable=1", uri=True)
    config = json.loads(archive.execute("SELECT config FROM runs").fetchone()[0])
    archive.close()
    return config


def needs_gpu(run):
    return config_of(run)["device"].startswith("gpu")


def is_of_this_loop(run):
    """Earlier versions recorded runs without this. They chose parents and hints in another way."""
    return "fit" in config_of(run)


class Examples(CupelTest):
    def test_gpu_runs_can_be_read(self):
        names = [path.parent.name for path in EXAMPLES.glob("*/run.cupel") if needs_gpu(path.parent)]
        self.assertGreaterEqual(len(names), 2)
        for name in names:
            with self.subTest(name):
                run = self.folder / name
                shutil.copytree(EXAMPLES / name, run)
                done = self.cupel("report", run)
                self.assertEqual(done.status, 0, done)
                self.assertIn("measured", done.out)
                best = hashlib.sha256((run / "best.cu").read_bytes()).hexdigest()
                self.assertIn(best, [row[2] for row in candidates(run)])

    @unittest.skipIf(os.environ.get("CI") == "true", "takes a minute; test_evolve.py replays a shorter run")
    def test_recorded_runs_can_be_replayed(self):
        names = sorted(path.name for path in EXAMPLES.iterdir() if (path / "run.cupel").exists())
        self.assertLessEqual(QUICK, set(names))
        for name in names:
            if name not in QUICK and os.environ.get("CUPEL_TEST_EXAMPLES") != "all" or needs_gpu(EXAMPLES / name):
                continue
            with self.subTest(name):
                again = self.folder / name
                done = self.cupel("optimize", "--replay", EXAMPLES / name, "--run", again, timeout=850)
                self.assertEqual(done.status, 0, done)
                tried, recorded = candidates(again), candidates(EXAMPLES / name)
                if not is_of_this_loop(EXAMPLES / name):
                    # The same answers lead to kernels with the same verdicts.
                    decisions = {row[2]: row[7] for row in tried}
                    written = [row for row in recorded if row[3].startswith("llm:")]
                    known = [row for row in written if row[2] in decisions]
                    self.assertGreater(len(known), len(written) / 2)
                    for row in known:
                        if row[7] and decisions[row[2]]:
                            self.assertEqual(decisions[row[2]], row[7], row)
                    continue
                self.assertEqual([row[:-1] for row in tried], [row[:-1] for row in recorded])
                # The cost model has changed since. Estimates may differ slightly, but not the decisions.
                for now, then in zip(tried, recorded):
                    self.assertEqual(now[-1] is None, then[-1] is None)
                    self.assertAlmostEqual(now[-1] or 0, then[-1] or 0, delta=1e-2 * (then[-1] or 0))
                self.assertEqual((again / "best.cu").read_text(), (EXAMPLES / name / "best.cu").read_text())


if __name__ == "__main__":
    unittest.main()
