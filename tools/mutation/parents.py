# SPDX-License-Identifier: Apache-2.0
"""Parents: correct kernels, the tasks that they solve, and small settings for short trials.

tools/mutation/parents.json lists them:
- `kernel` and `task` are paths below `root`, which is "repository" or "published" (a checkout of
  robust-kbench, named on the command line).
- `settings` replaces the task's own settings by small and awkward ones. The work folder gets a copy of the
  task's Python files with this configuration.
`retry` judges survivors as users do: at all settings of the original task, and at the sizes that cupel explores.

A corpus of correct kernels (tests/mustpass) needs no list: each file begins with `// task:` and, if needed,
`// direction: backward` and `// settings:`.
"""

import dataclasses
import json
import pathlib
import re
import shutil

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@dataclasses.dataclass(frozen=True)
class Parent:
    name: str
    root: str
    kernel: pathlib.Path
    task: pathlib.Path
    backward: bool
    settings: dict  # kind (input, init, shared) -> keyword arguments
    asked: str = "all"  # the original task's settings, for survivors, or if `settings` is empty

    @property
    def published(self):
        return self.root == "published"

    @property
    def small(self):
        return "multi" if self.settings else self.asked


def read(published):
    """The parents in parents.json; without `published`, only those of this repository."""
    out = []
    for entry in json.loads((pathlib.Path(__file__).parent / "parents.json").read_text()):
        base = ROOT if entry["root"] == "repository" else published
        if base is None:
            continue
        kernel, task = base / entry["kernel"], base / entry["task"]
        if not kernel.exists() or not task.exists():
            raise SystemExit(f"mutate: parent {entry['name']}: {kernel} or {task} does not exist")
        out.append(Parent(entry["name"], entry["root"], kernel, task, entry.get("backward", False),
                          entry.get("settings", {})))
    return out


def read_corpus(folder):
    """Kernels whose first lines name their task, without those that need a GPU."""
    listed = {(p.task.name, p.backward): p.settings for p in read(None)}
    out = []
    for kernel in sorted(folder.glob("*.cu")):
        head = dict(re.findall(r"^// (\w+): (.+)$", kernel.read_text()[:2000], re.MULTILINE))
        if "task" not in head or head.get("device", "emu").startswith("gpu"):
            continue
        task = next((base / head["task"] for base in (folder / "tasks", ROOT / "tasks")
                     if (base / head["task"]).is_dir()), None)
        if task is None:
            raise SystemExit(f"mutate: {kernel}: task {head['task']} does not exist")
        backward = head.get("direction", "forward") == "backward"
        out.append(Parent("corpus_" + kernel.stem, "corpus", kernel, task, backward,
                          listed.get((task.name, backward), {}), head.get("settings", "all")))
    return out


def small_task(parent, work):
    """A folder with the parent's task at the small settings, or the task's own folder if there are none."""
    if not parent.settings:
        return parent.task
    folder = work / "tasks" / parent.name
    folder.mkdir(parents=True, exist_ok=True)
    direction = "backward" if parent.backward else "forward"
    shutil.copy(parent.task / f"func_{direction}.py", folder)
    config = {f"multi_{kind}_configs": parent.settings.get(kind, [{}]) for kind in ("input", "init", "shared")}
    config.update({key.replace("multi", "single"): value[:1] for key, value in config.items()})
    (folder / f"config_{direction}.json").write_text(json.dumps(config))
    return folder
