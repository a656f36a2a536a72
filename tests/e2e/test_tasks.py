"""The tasks in tasks/: each has its settings, passes the filters, and has correct baselines."""
import json
import unittest

from support import SOURCE, CupelTest, ci_sample

TASKS = sorted(path.parent for path in SOURCE.glob("tasks/*/task.json"))
DIRECTIONS = {task.name: [d for d in ("forward", "backward") if (task / f"func_{d}.py").exists()]
              for task in TASKS}


class Tasks(CupelTest):
    def test_every_folder_is_a_task(self):
        folders = {path.name for path in SOURCE.glob("tasks/*") if path.is_dir()}
        self.assertEqual(folders, set(DIRECTIONS))
        documented = (SOURCE / "docs/tasks.md").read_text()
        for task in folders:
            self.assertIn(f"`{task}`", documented)

    def test_every_direction_lists_single_multi_and_heldout_settings(self):
        for task, directions in DIRECTIONS.items():
            with self.subTest(task=task):
                done = self.cupel("task", "show", task)
                self.assertEqual(done.status, 0, done)
                shown = {d for d in ("forward", "backward") if d in done.json}
                self.assertEqual(shown, set(directions))
                for settings in (done.json[d]["settings"] for d in directions):
                    self.assertEqual({s["kind"] for s in settings}, {"single", "multi", "heldout"})
                    self.assertFalse([s["id"] for s in settings if s["derived"]])

    def test_every_baseline_is_correct_at_its_single_settings(self):
        paths = [SOURCE / f"tasks/{task}/{direction}.cu"
                 for task, directions in DIRECTIONS.items() for direction in directions]
        self.assert_right([(path, path.parent.name, path.stem) for path in ci_sample(paths)],
                          "--settings", "single", "--trials", 2, "--distributions", "normal,zeros")

    def test_every_task_passes_the_filters(self):
        report = self.folder / "filter.json"
        done = self.cupel("task", "filter", "--all", SOURCE / "tasks", "--json", report, timeout=600)
        self.assertEqual(done.status, 0, done)
        verdicts = {t["task"]: t["verdict"] for t in json.loads(report.read_text())["tasks"]}
        self.assertEqual(verdicts, {task: "clean" for task in DIRECTIONS})


if __name__ == "__main__":
    unittest.main(verbosity=2)
