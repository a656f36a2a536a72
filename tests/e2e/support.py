"""Runs the cupel program for the end-to-end tests."""
import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

CUPEL = os.environ["CUPEL_PROGRAM"]
SOURCE = pathlib.Path(os.environ["CUPEL_SOURCE_DIR"])


@functools.cache
def python_with_torch():
    """The Python that cupel finds, or None."""
    named = os.environ.get("CUPEL_PYTHON")
    pythons = [named] if named else ["python3", str(SOURCE / ".venv/bin/python"), "/usr/bin/python3"]
    for python in pythons:
        code = ("import importlib.metadata as m, sys\n"
                "sys.exit(tuple(map(int, m.version('torch').split('.')[:2])) < (2, 4))")
        if shutil.which(python) and subprocess.run([python, "-c", code], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


def missing():
    """What the machine lacks for these tests, or None."""
    if not (shutil.which("nvcc") or pathlib.Path("/usr/local/cuda/bin/nvcc").exists()):
        return "nvcc"
    return None if python_with_torch() else "PyTorch"


def ci_sample(paths, every=6):
    """With CI=true, the files that the last 20 commits changed and every sixth of the others; otherwise all. Checks
    of many files of the same kind take minutes, and `make nightly` checks all."""
    if os.environ.get("CI") != "true":
        return list(paths)
    log = subprocess.run(["git", "-C", SOURCE, "log", "-20", "--no-merges", "--name-only", "--format="],
                         capture_output=True, text=True)
    changed = set(log.stdout.splitlines())
    return [path for i, path in enumerate(paths)
            if i % every == 0 or str(pathlib.Path(path).relative_to(SOURCE)) in changed]


def ci_choice(cases, every=6):
    """With CI=true, every sixth item of a dict, others with each commit; otherwise all."""
    if os.environ.get("CI") != "true":
        return cases
    log = subprocess.run(["git", "-C", SOURCE, "rev-list", "--count", "HEAD"], capture_output=True, text=True)
    first = int(log.stdout.strip() or 0)
    return {name: case for i, (name, case) in enumerate(cases.items()) if (i + first) % every == 0}


def ci_share(every=6):
    """Decorates a class of slow tests. With CI=true, only every sixth method runs, and which ones changes with each
    commit, so that a few commits run all; otherwise, and in `make nightly`, all run."""
    def decorate(cls):
        if os.environ.get("CI") != "true":
            return cls
        log = subprocess.run(["git", "-C", SOURCE, "rev-list", "--count", "HEAD"], capture_output=True, text=True)
        first = int(log.stdout.strip() or 0)
        names = [name for name in vars(cls) if name.startswith("test")]
        for i, name in enumerate(names):
            if (i + first) % every != 0:
                setattr(cls, name, unittest.skip("not in this commit's share (make nightly runs all)")(getattr(cls, name)))
        return cls
    return decorate


def codes_of(verdict):
    return {reason["code"] for reason in verdict.get("reasons", [])}


class Finished:
    """Outcome of one run of cupel."""

    def __init__(self, done, report):
        self.status, self.out, self.err, self.json = done.returncode, done.stdout, done.stderr, report

    @property
    def codes(self):
        return codes_of(self.json or {})

    def __str__(self):
        return f"status {self.status}\n{self.out}\n{self.err}"


class CupelTest(unittest.TestCase):
    """A private folder for each test. The cache of builds and cases is shared: by all tests that ctest runs, as by
    the processes of one user (it is empty at the start of each run), or within a class."""

    @classmethod
    def setUpClass(cls):
        if lacking := missing():
            raise unittest.SkipTest(f"needs {lacking}")
        cls.make_cache()

    @classmethod
    def make_cache(cls):
        if shared := os.environ.get("CUPEL_TEST_CACHE"):
            os.makedirs(shared, mode=0o700, exist_ok=True)
            cls.cache = shared
            return
        folder = tempfile.TemporaryDirectory(prefix="cupel-test-cache-")
        cls.addClassCleanup(folder.cleanup)
        cls.cache = folder.name

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cupel-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def environment(self):
        return {**os.environ, "CUPEL_CACHE": self.cache, "CUPEL_HOME": str(SOURCE),
                "CUPEL_PYTHON": python_with_torch() or ""}

    def cupel(self, *args, timeout=120, env=None, cwd=None):
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        argv = [CUPEL, *map(str, args)]
        if args[0] in {"check", "build", "optimize", "task", "report", "doctor"} and "--json" not in args:
            argv += ["--json", str(report)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout,
                              env=env or self.environment(), cwd=cwd or self.folder)
        return Finished(done, json.loads(report.read_text()) if report.exists() else None)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def check(self, source, *args, task="mnist_linear", **kwargs):
        kernel = self.write("kernel.cu", source)
        return self.cupel("check", kernel, "--task", task, "--settings", "single", "--device", "emu",
                          *args, **kwargs)

    def streamed(self, candidates, *args):
        """Returns the results of `cupel stream` on the emulator, for (kernel, task or its folder, direction).
        All run in one process with one PyTorch. The seed is fixed: with some random inputs a wrong control
        answer is close to the correct one by chance, and then cupel cannot judge the setting. Tests that
        need more than the single settings and the task's own inputs say so in `args`."""
        for option, value in (("--settings", "single"), ("--distributions", "none")):
            if option not in args:
                args += (option, value)
        results = self.folder / "results.jsonl"
        names = self.write("list.jsonl", "".join(
            json.dumps({"kernel": str(kernel), "task": task, "backward": direction == "backward"}) + "\n"
            for kernel, task, direction in candidates))
        done = self.cupel("stream", names, "--device", "emu", "--no-explore", "--no-exact", "--seed", 1,
                          "-o", results, *args, timeout=1500)
        self.assertIn(done.status, (0, 1), done)
        found = {(r["kernel"], r["task"], r["direction"]): r
                 for r in map(json.loads, results.read_text().splitlines())}
        return [found[str(kernel), pathlib.Path(task).name.removesuffix(".py"), direction] for kernel, task, direction in candidates]

    def assert_right(self, candidates, *args):
        """Asserts that each (kernel, task, direction) is accepted at all settings."""
        for (_, task, direction), result in zip(candidates, self.streamed(candidates, *args)):
            with self.subTest(kernel=f"{task}/{direction}"):
                self.assertEqual(result["verdict"], "accepted", result)
                self.assertEqual({s["status"] for s in result["settings"]}, {"passed"}, result)
