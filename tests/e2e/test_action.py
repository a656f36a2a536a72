"""Tests the GitHub Action: tools/action/check_kernels.py, with cupel and with a stand-in for it, and action.yml."""
import importlib.util
import json
import re
import subprocess
import sys
import textwrap
import unittest

import kernels
from support import CUPEL, SOURCE, CupelTest

SCRIPT = SOURCE / "tools" / "action" / "check_kernels.py"
ACTION = (SOURCE / "action.yml").read_text()
WRONG = kernels.linear("sum + b[col]", "sum")
BROKEN = kernels.linear("float sum = 0.f", "flaot sum = 0.f").replace("const dim3 grid", "const dim9 grid")
LINE = 1 + BROKEN[:BROKEN.index("flaot")].count("\n")
UNSUPPORTED = kernels.linear("auto y = torch::empty({rows, cols}, x.options());", "auto y = torch::nonzero(x);")
PASSED = {"verdict": "accepted", "reasons": [], "settings": [{"id": "single-0", "status": "passed", "findings": []}]}

# Writes the document that answers.json has for a kernel, and its "print". Keeps its arguments and CUDA_HOME in
# calls.jsonl.
STAND_IN = """#!{python}
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
with open(here / "calls.jsonl", "a") as calls:
    calls.write(json.dumps([*sys.argv[1:], os.environ.get("CUDA_HOME")]) + "\\n")
answer = json.loads((here / "answers.json").read_text())[pathlib.Path(sys.argv[2]).name]
print(answer.pop("print", "fine"))
for argument in sys.argv:
    if argument.startswith("--json="):
        pathlib.Path(argument[7:]).write_text(json.dumps(answer))
sys.exit({{"accepted": 0, "rejected": 1, "unsupported": 3}}.get(answer.get("verdict"), 2))
"""


def rejected(*reasons, findings=()):
    return {"verdict": "rejected", "reasons": [dict(zip(("code", "message", "where"), one)) for one in reasons],
            "settings": [{"id": "single-0", "status": "failed", "findings": list(findings)}]}


def finding(file, line, severity="error"):
    return {"code": "shared_race", "severity": severity, "message": "A race.", "where": "", "file": file, "line": line}


def unescaped(text, signs):
    for sign in signs:
        text = text.replace(f"%{ord(sign):02X}", sign)
    return text.replace("%25", "%")


def commands_of(log):
    """The workflow commands that GitHub's runner finds: (name, properties, message). It obeys the form "::name" at the
    beginning of a line and the form "##[name]" anywhere, but nothing between stop-commands and its token."""
    found, token = [], None
    for line in log.splitlines():
        if token is not None:
            token = None if line.strip() == f"::{token}::" else token
            continue
        match = re.match(r"\s*::([\w-]+)(?: ([^:]*))?::(.*)", line)
        if match is None:
            if "##[" in line or line.lstrip().startswith("::"):
                found.append(("injected", {}, line))
            continue
        name, properties, message = match.groups()
        if name == "stop-commands":
            token = message
        pairs = dict(pair.split("=", 1) for pair in properties.split(",")) if properties else {}
        found.append((name, {key: unescaped(value, "\r\n:,") for key, value in pairs.items()},
                      unescaped(message, "\r\n")))
    assert token is None, "commands stay stopped"
    return found


class Done:
    def __init__(self, done, summary, output):
        self.status, self.log = done.returncode, done.stdout + done.stderr
        self.summary = summary.read_text() if summary.exists() else ""
        self.outputs = dict(line.split("=", 1) for line in output.read_text().splitlines()) if output.exists() else {}
        self.commands = commands_of(done.stdout)
        self.annotations = [one for one in self.commands if one[0] in ("error", "warning", "notice", "injected")]
        self.rows = [line for line in self.summary.splitlines() if line.startswith("| <code>")]

    def counts(self):
        return {name: int(self.outputs[name]) for name in ("accepted", "rejected", "unsupported", "error")
                if self.outputs[name] != "0"}

    def __str__(self):
        return f"status {self.status}\n{self.log}\n{self.summary}\n{self.outputs}"


class ActionTest(CupelTest):
    def setUp(self):
        super().setUp()
        self.repository = self.folder / "repository"
        (self.repository / "kernels").mkdir(parents=True)

    def put(self, name, text=kernels.LINEAR):
        path = self.repository / "kernels" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def stand_in(self, answers):
        """Writes a program that gives the answers in `answers`, by the kernel's file name, and the kernels."""
        for name in answers:
            self.put(name)
        self.write("answers.json", json.dumps(answers))
        program = self.write("cupel", STAND_IN.format(python=sys.executable))
        program.chmod(0o755)
        return program

    def calls(self):
        return [json.loads(line) for line in (self.folder / "calls.jsonl").read_text().splitlines()]

    def environment(self):
        return {**super().environment(), "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
                "GITHUB_OUTPUT": str(self.folder / "output"), "PYTHONIOENCODING": "utf-8"}

    def finish(self, argv, env):
        for name in ("summary.md", "output"):
            (self.folder / name).unlink(missing_ok=True)
        done = subprocess.run(argv, capture_output=True, text=True, encoding="utf-8", timeout=600,
                              cwd=self.repository, env=env)
        return Done(done, self.folder / "summary.md", self.folder / "output")

    def act(self, *args, kernels="kernels/*.cu", cupel=CUPEL, task="mnist_linear"):
        return self.finish([sys.executable, "-B", SCRIPT, f"--kernels={kernels}", f"--task={task}", f"--cupel={cupel}",
                            f"--verdicts={self.folder / 'verdicts'}", *args], self.environment())


class Verdicts(ActionTest):
    def test_correct_kernels_pass(self):
        self.put("right.cu")
        done = self.act("--settings=single", "--seed=7")
        self.assertEqual((done.status, done.annotations), (0, []), done)
        self.assertEqual(done.counts(), {"accepted": 1})
        self.assertIn("✅ accepted | 1 of 1 |", done.rows[0])
        verdict = json.loads((self.folder / "verdicts" / "1.json").read_text())
        self.assertEqual((verdict["seed"], verdict["asked"]["kinds"]), ("7", ["single"]))

    def test_each_kind_of_failure_is_annotated_at_its_place(self):
        faults = {name: source for name, source, _ in kernels.DEVICE_FAULTS}
        for name, source in {"a_wrong.cu": WRONG, "b_broken.cu": BROKEN, "c_outside.cu": faults["reads_past_the_end"],
                             "d_unsupported.cu": UNSUPPORTED}.items():
            self.put(name, source)
        done = self.act("--settings=single", "--seed=7", kernels="kernels/*.cu\n\nkernels/none.cu\n")
        self.assertEqual(done.status, 2, done)
        self.assertEqual(done.counts(), {"rejected": 3, "unsupported": 1})
        by_file = {}
        for level, properties, message in done.annotations:
            by_file.setdefault(properties.get("file"), []).append((level, properties, message))
        level, properties, message = by_file["kernels/a_wrong.cu"][0]
        self.assertEqual((level, properties["title"]), ("error", "wrong_result (mnist_linear)"))
        self.assertNotIn("line", properties)
        self.assertIn("bias", message)
        errors = by_file["kernels/b_broken.cu"]
        self.assertEqual({level for level, _, _ in errors}, {"error"})
        self.assertIn(str(LINE), [properties["line"] for _, properties, _ in errors])
        self.assertGreater(len(errors), 1, "every error of the compiler has an annotation")
        (level, properties, message), = by_file["kernels/c_outside.cu"]
        self.assertEqual((level, properties["title"]), ("error", "out_of_bounds (mnist_linear)"))
        self.assertIn("x[(row + 1)", faults["reads_past_the_end"].splitlines()[int(properties["line"]) - 1])
        (level, _, message), = by_file["kernels/d_unsupported.cu"]
        self.assertEqual(level, "warning")
        self.assertIn("nonzero", message)
        (level, _, message), = by_file[None]
        self.assertIn("no kernel matches kernels/none.cu", message)
        self.assertIn("no kernel matches", done.summary)
        self.assertEqual(["rejected" in row for row in done.rows], [True, True, True, False])

    def test_kernels_that_do_not_exist_are_errors(self):
        listed = self.repository / "kernels.jsonl"
        listed.write_text('{"kernel": "kernels/none.cu", "task": "mnist_linear"}\n\n')
        for kernels_input in ("kernels/none.cu", "kernels/none/*.cu", "kernels.jsonl"):
            done = self.act(kernels=kernels_input)
            self.assertEqual(done.status, 2, done)
            (level, _, message), = done.annotations
            self.assertEqual(level, "error")
            self.assertIn("kernels/none", message)


class Inputs(ActionTest):
    def test_fail_on_decides_the_status_and_the_level(self):
        unsupported = {"verdict": "unsupported", "reasons": [{"code": "u", "message": "m", "where": ""}]}
        for verdicts, fail_on, status, levels in [
                ([PASSED], "unsupported", 0, []),
                ([PASSED, rejected(("a", "m", ""))], "rejected", 1, ["error"]),
                ([rejected(("a", "m", "")), PASSED], "never", 0, ["warning"]),
                ([unsupported, PASSED], "rejected", 0, ["warning"]),
                ([unsupported], "rejected", 2, ["warning", "error"]),  # nothing is known
                ([unsupported], "unsupported", 1, ["error"]),
                ([unsupported], "never", 0, ["warning"]),
                ([{**PASSED, "settings": []}], "rejected", 2, ["error"]),
                ([{"error": "no PyTorch", "remedy": "install it"}], "never", 2, ["error"])]:
            with self.subTest(verdicts=verdicts, fail_on=fail_on):
                program = self.stand_in({f"{i}.cu": verdict for i, verdict in enumerate(verdicts)})
                for stale in (self.repository / "kernels").glob("*.cu"):
                    if int(stale.stem) >= len(verdicts):
                        stale.unlink()
                done = self.act(f"--fail-on={fail_on}", cupel=program)
                self.assertEqual((done.status, [level for level, _, _ in done.annotations]), (status, levels), done)

    def test_a_folder_of_tasks_gives_each_kernel_its_task_and_direction(self):
        tasks = self.repository / "tasks"
        (tasks / "relu").mkdir(parents=True)
        (tasks / "relu" / "func_forward.py").touch()
        (tasks / "1_Softmax.py").touch()
        names = ["relu.cu", "relu/forward.cu", "relu/backward.cu", "relu/fast_backward.cu", "relu/backward/mine.cu",
                 "1_Softmax/answer.py"]
        program = self.stand_in({name.rpartition("/")[2]: dict(PASSED) for name in names})
        for name in (self.repository / "kernels").iterdir():
            name.unlink()
        for name in [*names, "relu/notes.txt"]:
            self.put(name)
        done = self.act("--tasks=tasks", task="", kernels="kernels/**", cupel=program)
        self.assertEqual((done.status, done.counts()), (0, {"accepted": 6}), done)
        asked = {call[1].rpartition("/kernels/")[2]: (call[2], "--backward" in call) for call in self.calls()}
        relu, softmax = "--task=tasks/relu", "--task=tasks/1_Softmax.py"
        self.assertEqual(asked, {"relu.cu": (relu, False), "relu/forward.cu": (relu, False),
                                 "relu/backward.cu": (relu, True), "relu/fast_backward.cu": (relu, True),
                                 "relu/backward/mine.cu": (relu, True), "1_Softmax/answer.py": (softmax, False)})
        self.put("other.cu")
        done = self.act("--tasks=tasks", task="", kernels="kernels/other.cu", cupel=program)
        self.assertEqual(done.status, 2, done)
        self.assertIn("kernels/other.cu has no task", done.annotations[0][2])

    def test_a_list_names_kernels_tasks_and_directions(self):
        program = self.stand_in({"a.cu": PASSED, "b.cu": PASSED})
        lines = [{"kernel": "kernels/a.cu", "task": "relu"},
                 {"kernel": "kernels/b.cu", "task": "t/x", "backward": True}]
        (self.repository / "list.jsonl").write_text("\n".join(map(json.dumps, lines)))
        done = self.act(task="", kernels="list.jsonl", cupel=program)
        self.assertEqual(done.status, 0, done)
        self.assertEqual([(call[2], "--backward" in call) for call in self.calls()],
                         [("--task=relu", False), ("--task=t/x", True)])
        for line in ("{", "[]", '{"kernel": 7, "task": "x"}', '{"kernel": "a.cu"}', "[" * 100_000):
            (self.repository / "list.jsonl").write_text(line)
            done = self.act(task="", kernels="list.jsonl", cupel=program)
            self.assertEqual(done.status, 2, done)
            self.assertIn("list.jsonl:1", done.annotations[0][2])

    def test_inputs_that_make_no_sense_are_errors(self):
        program = self.stand_in({"a.cu": PASSED})
        for args, options, message in [
                (["--fail-on=sometimes"], {}, "fail-on is sometimes"),
                (["--tasks=tasks"], {}, "both set"),
                (["--args=--flag 'x"], {}, "cannot be split"),
                ([], {"kernels": " \n"}, "kernels is empty"),
                ([], {"cupel": self.folder / "none"}, "none")]:
            with self.subTest(message=message):
                done = self.act(*args, **{"cupel": program, **options})
                self.assertEqual(done.status, 2, done)
                self.assertIn(message, done.annotations[0][2])
                self.assertIn("❗", done.summary)


class Places(ActionTest):
    def test_places_are_files_of_the_repository(self):
        self.put("helper.cuh")
        outside = self.write("outside.cuh", "")
        program = self.stand_in({"a.cu": rejected(
            ("shared_race", "A race. In block 0.", "helper.cuh:7"), ("wrong_result", "Off.", "single-0 trial 0"),
            ("compile_error", "No.", "none.cu:2"),
            findings=[finding("helper.cuh", 7), finding("a.cu", 3, "warning"), finding(str(outside), 5),
                      finding("x" * 300, 5), finding("a\0b", 5)]), "b.cu": PASSED})
        done = self.act(cupel=program)
        places = [(level, one.get("file"), one.get("line")) for level, one, _ in done.annotations]
        self.assertEqual(places, [("error", "kernels/helper.cuh", "7"), ("error", "kernels/a.cu", None),
                                  ("error", "kernels/a.cu", None), ("warning", "kernels/a.cu", "3"),
                                  *[("error", "kernels/a.cu", None)] * 3], done)
        self.assertEqual(done.counts(), {"accepted": 1, "rejected": 1})
        messages = [message for _, _, message in done.annotations]
        self.assertEqual(messages[1:3] + messages[4:],
                         ["single-0 trial 0: Off.", "none.cu:2: No.", f"{outside}:5: A race. (single-0)",
                          f"{'x' * 300}:5: A race. (single-0)", "a\N{REPLACEMENT CHARACTER}b:5: A race. (single-0)"])

    def test_many_findings_of_one_kernel_leave_room_for_others(self):
        program = self.stand_in({"a.cu": rejected(("shared_race", "A race.", "a.cu:1"),
                                                  findings=[finding("a.cu", i) for i in range(1, 100)]),
                                 "b.cu": rejected(("shared_race", "A race.", "b.cu:1"))})
        files = [properties["file"] for _, properties, _ in self.act(cupel=program).annotations]
        self.assertEqual((files.count("kernels/a.cu"), files.count("kernels/b.cu")), (10, 1))


class Escaping(ActionTest):
    HOSTILE = ("x|y `z` <img src=x> [link](http://a.example) ![p](q) www.a.example @team a@b.example #1 *b* _u_ ~~s~~ "
               "&lt; \\| 100% a,b::c %0A::error::pwned\r\n::error::pwned\n##[error]pwned\n\n# heading\n| a | b |\n"
               "\x1b[31m\u202eevil\u2028::error::pwned")

    def test_messages_inject_no_commands_and_no_markup(self):
        name = "::error::x,y=%0A##[error]|<b>`@me.cu"
        document = rejected((self.HOSTILE, self.HOSTILE, ""), (self.HOSTILE, self.HOSTILE, f"{name}:3"),
                            ("long", "x" * (1 << 20), ""))
        document["print"] = f"::error::pwned\n##[error]pwned\n::stop-commands::x\n::x::\n{self.HOSTILE}"
        done = self.act(cupel=self.stand_in({name: document}))
        self.assertEqual(done.status, 1, done)
        self.assertEqual([level for level, _, _ in done.annotations], ["error"] * 3, done)
        self.assertEqual({name for name, _, _ in done.commands}, {"group", "stop-commands", "error", "endgroup"})
        first, second, long = done.annotations
        self.assertLess(len(long[2]), 1000)
        self.assertEqual(first[1]["file"], f"kernels/{name}")
        self.assertEqual(second[1], {"file": f"kernels/{name}", "line": "3", "title": second[1]["title"]})
        for _, properties, message in (first, second):
            for text in (message, properties["title"]):
                self.assertTrue(text.isprintable(), ascii(text))
                self.assertIn("a,b::c %0A::error::pwned", text)
        self.assert_plain(done, 1)

    def test_errors_and_inputs_inject_nothing(self):
        program = self.stand_in({"a.cu": {"error": self.HOSTILE, "remedy": self.HOSTILE}})
        done = self.act(cupel=program, task=self.HOSTILE, kernels="kernels/a.cu\n" + self.HOSTILE)
        self.assertEqual(done.status, 2, done)
        self.assertEqual({level for level, _, _ in done.annotations}, {"error"}, done)
        self.assert_plain(done, 1)
        self.assertEqual(set(done.outputs), {"accepted", "rejected", "unsupported", "error", "verdicts"})

    def assert_plain(self, done, rows):
        """The summary has `rows` rows of six cells, and nothing in it is markup that did not come from the script."""
        self.assertEqual(len(done.rows), rows)
        self.assertTrue(all(row.count("|") == 7 for row in done.rows), done.rows)
        for line in done.summary.splitlines():
            if line.startswith(("| <code>", "- ❗")):
                text = line.replace("<code>", "").replace("</code>", "").replace("| ", "").removeprefix("- ")
                text = re.sub(r"&#\d+;", "", text).rstrip("|")
                self.assertNotRegex(text, r"[^\w\s❌❗⚠️✅\N{REPLACEMENT CHARACTER}…]")
        self.assertNotIn("\n# heading", done.summary)


class ActionFile(ActionTest):
    def inputs(self):
        block = re.search(r"^inputs:\n(.*?)^\S", ACTION, re.M | re.S)[1]
        return re.findall(r"^  ([\w-]+):$", block, re.M)

    def last_step(self):
        """Names of the variables that hold inputs, and the text that bash runs."""
        step = ACTION.rpartition("    - name: ")[2]
        variables = dict(re.findall(r"^ {8}(\w+): \$\{\{ inputs\.([\w-]+) \}\}$", step, re.M))
        return variables, textwrap.dedent(step.partition("run: |\n")[2])

    def test_the_check_step_passes_each_input(self):
        variables, script = self.last_step()
        self.assertEqual(set(variables.values()), set(self.inputs()))
        program = self.stand_in({"a $(touch x).cu": rejected(("c", "m", ""))})
        values = {"kernels": "kernels/a*.cu", "task": "my task", "tasks": "", "settings": "multi", "seed": "8",
                  "args": "--trials 2 --flag='-DX=\"a b\"'", "fail-on": "never", "cupel": str(program)}
        env = {**self.environment(), "GITHUB_ACTION_PATH": str(SOURCE), "RUNNER_TEMP": str(self.folder),
               **{variable: values[name] for variable, name in variables.items()}}
        done = self.finish(["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script], env)
        self.assertEqual((done.status, done.counts()), (0, {"rejected": 1}), done)
        call, = self.calls()
        self.assertEqual(call[:-2], ["check", str(self.repository / "kernels" / "a $(touch x).cu"), "--task=my task",
                                     "--device=emu", "--trials", "2", '--flag=-DX="a b"', "--settings=multi",
                                     "--seed=8"])
        self.assertEqual(done.outputs["verdicts"], str(self.folder / "cupel-verdicts"))
        env[next(variable for variable, name in variables.items() if name == "tasks")] = "tasks"
        self.assertIn("both set", self.finish(["bash", "-e", "-c", script], env).annotations[0][2])

    def test_the_check_step_uses_what_the_action_installed(self):
        variables, script = self.last_step()
        program = self.stand_in({"a.cu": PASSED})
        action = self.folder / "action"
        toolkit = action / ".venv" / "lib" / "python3.99" / "site-packages" / "nvidia" / "cu13"
        for folder in (action / ".venv" / "bin", toolkit / "bin"):
            folder.mkdir(parents=True)
        (action / "tools").symlink_to(SOURCE / "tools")
        (action / ".venv" / "bin" / "python").symlink_to(sys.executable)
        program.rename(action / ".venv" / "bin" / "cupel")
        (self.folder / "answers.json").rename(action / ".venv" / "bin" / "answers.json")
        (toolkit / "bin" / "nvcc").touch(0o755)
        values = {"kernels": "kernels/a.cu", "task": "t", "fail-on": "rejected"}
        env = {**self.environment(), "GITHUB_ACTION_PATH": str(action), "RUNNER_TEMP": str(self.folder),
               **{variable: values.get(name, "") for variable, name in variables.items()}}
        done = self.finish(["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script], env)
        self.assertEqual((done.status, done.counts()), (0, {"accepted": 1}), done)
        call, = map(json.loads, (action / ".venv" / "bin" / "calls.jsonl").read_text().splitlines())
        self.assertEqual(call[-1], str(toolkit))

    def test_no_expression_is_part_of_a_script(self):
        blocks = re.findall(r"run: \|\n((?: {8}.*\n|\n)+)", ACTION)
        self.assertEqual(len(blocks), ACTION.count("shell: bash"))
        for block in blocks:
            self.assertNotIn("${{", block)

    def test_each_output_is_written(self):
        done = self.act(cupel=self.stand_in({"a.cu": PASSED}))
        self.assertEqual(set(re.findall(r"steps\.check\.outputs\.([\w-]+)", ACTION)), set(done.outputs))

    @unittest.skipUnless(importlib.util.find_spec("yaml"), "needs PyYAML (apt-get install python3-yaml)")
    def test_the_file_is_a_composite_action(self):
        import yaml
        action = yaml.safe_load(ACTION)
        self.assertEqual(list(action["inputs"]), self.inputs())
        self.assertTrue(all(one["description"] for one in [*action["inputs"].values(), *action["outputs"].values()]))
        self.assertEqual([name for name, one in action["inputs"].items() if one.get("required")], ["kernels"])
        self.assertEqual(action["runs"]["using"], "composite")
        for step in action["runs"]["steps"]:
            with self.subTest(step=step["name"]):
                self.assertEqual("run" in step, "uses" not in step)
                self.assertEqual("run" in step, step.get("shell") == "bash")
        self.assertEqual(action["runs"]["steps"][-1]["run"], self.last_step()[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
