"""examples/: recorded runs of `cupel optimize --model` are repeated with their recorded answers."""
import json
import os
import sqlite3
import unittest

from support import SOURCE, CupelTest

EXAMPLES = SOURCE / "examples"
# The others take minutes: they are repeated too where CUPEL_TEST_EXAMPLES=all.
QUICK = {"mnist_cross_entropy_backward"}


def candidates(run):
    """What a run tried and found. The hash of a question says only in which words it was asked."""
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


class Examples(CupelTest):
    def test_recorded_runs_are_repeated(self):
        names = sorted(path.name for path in EXAMPLES.iterdir() if (path / "run.cupel").exists())
        self.assertLessEqual(QUICK, set(names))
        for name in names:
            if name not in QUICK and os.environ.get("CUPEL_TEST_EXAMPLES") != "all":
                continue
            with self.subTest(name):
                again = self.folder / name
                done = self.cupel("optimize", "--replay", EXAMPLES / name, "--run", again, timeout=850)
                self.assertEqual(done.status, 0, done)
                self.assertEqual(candidates(again), candidates(EXAMPLES / name))
                self.assertEqual((again / "best.cu").read_text(), (EXAMPLES / name / "best.cu").read_text())


if __name__ == "__main__":
    unittest.main()
