"""Tests `cupel mcp` line by line, as coding agents use it, and through the official Python SDK."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import kernels
import test_import
from support import CUPEL, SOURCE, CupelTest, ci_share
from test_worker import descendants

WRONG = kernels.linear("sum + b[col]", "sum")
ENDLESS = kernels.linear("k0 < depth; k0 += kTile", "depth >= 0; k0 += 0")
# Right, and long enough to be interrupted.
SLOW = kernels.linear("k0 < depth; k0 += kTile", "k0 < 4000 * depth; k0 += kTile")
ASK = {"task": "mnist_linear", "settings": "single", "device": "emu"}


def python_with_sdk():
    """A Python with the official SDK in the version that tests/requirements.txt pins: the one that runs this test,
    or the one in the project's environment. None if neither has it."""
    wanted = re.search(r"^mcp==(\S+)$", (SOURCE / "tests" / "requirements.txt").read_text(), re.M)[1]
    code = f"from importlib.metadata import version; import sys; sys.exit(version('mcp') != {wanted!r})"
    for python in (sys.executable, SOURCE / ".venv" / "bin" / "python"):
        if shutil.which(python) and subprocess.run([python, "-c", code], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


def model(test):
    """A program that reads and agrees; each question becomes a line in `asked`."""
    program = test.write("model.py", "#!/usr/bin/env python3\nimport sys\nsys.stdin.read()\n"
                         f"open({str(test.folder / 'asked')!r}, 'a').write('one\\n')\n"
                         "for check in ('compile', 'memory', 'numerics'):\n"
                         "    print('CHECK: ' + check + '\\nVERDICT: fine\\nCONFIDENCE: 0.9\\nLINE: none\\nREASON: followed through')\n")
    program.chmod(0o755)
    return program


class McpTest(CupelTest):
    def setUp(self):
        super().setUp()
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.begin()

    def begin(self, *args):
        env = {**self.environment(), "TMPDIR": str(self.temporary)}
        self.server = subprocess.Popen([CUPEL, "mcp", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, env=env, cwd=self.folder)
        self.addCleanup(self.end, self.server)
        self.next = 0
        answer = self.ask("initialize", protocolVersion="2025-06-18", capabilities={},
                          clientInfo={"name": "test", "version": "1"})
        self.assertEqual(answer["result"]["protocolVersion"], "2025-06-18")
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    @staticmethod
    def end(server):
        server.kill()
        server.wait()
        for pipe in (server.stdin, server.stdout, server.stderr):
            pipe.close()

    def say(self, message):
        self.server.stdin.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
        self.server.stdin.flush()

    def request(self, method, **params):
        self.next += 1
        self.say({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})
        return self.next

    def hear(self):
        line = self.server.stdout.readline()
        self.assertTrue(line, "the server has ended")
        return json.loads(line)

    def answer(self, number):
        while (message := self.hear()).get("id") != number:
            self.heard.append(message)
        return message

    def ask(self, method, **params):
        self.heard = []
        return self.answer(self.request(method, **params))

    def call(self, name, **arguments):
        return self.ask("tools/call", name=name, arguments=arguments)["result"]

    def check(self, source, **arguments):
        return self.call("check", source=source, **{**ASK, **arguments})

    def begin_check(self, source):
        """A check that is under way: its first sign of progress has come."""
        number = self.request("tools/call", name="check", arguments={"source": source, **ASK},
                              _meta={"progressToken": "p"})
        message = self.hear()
        self.assertEqual(message["method"], "notifications/progress", message)
        return number

    def await_children(self, wanted):
        end = time.monotonic() + 20
        while (len(descendants(self.server.pid)) > 1) != wanted and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(len(descendants(self.server.pid)) > 1, wanted)


@ci_share(2)
class Judging(McpTest):
    def test_verdicts_are_answers(self):
        right = self.check(kernels.LINEAR)
        self.assertEqual((right["isError"], right["structuredContent"]["verdict"]), (False, "accepted"), right)
        wrong = self.check(WRONG)
        self.assertEqual((wrong["isError"], wrong["structuredContent"]["verdict"]), (False, "rejected"), wrong)
        self.assertIn("bias", wrong["content"][0]["text"])
        endless = self.check(ENDLESS)
        self.assertEqual(endless["structuredContent"]["verdict"], "rejected")
        self.assertEqual(endless["structuredContent"]["reasons"][0]["code"], "instruction_budget", endless)
        for answer in (right, wrong, endless):
            self.assertLess(len(json.dumps(answer)), 60_000)

    def test_a_kernel_is_named_by_its_path_and_judged_as_the_command_does(self):
        kernel = self.write("mine.cu", kernels.LINEAR)
        done = self.call("check", path="mine.cu", seed=7, **ASK)
        command = self.cupel("check", kernel, "--task", "mnist_linear", "--settings", "single", "--device", "emu",
                             "--seed", "7")
        record = json.loads(pathlib.Path(done["structuredContent"]["record_file"]).read_text())
        for name in ("verdict", "reasons", "settings", "source_sha256", "kernel"):
            self.assertEqual(record[name], command.json[name], name)

    def test_shows_the_code_that_a_program_brings(self):
        answer = test_import.ANSWER.replace("SCALE", "2.0")
        task = self.write("fused.py", test_import.PROBLEM)
        done = self.call("extract", source=answer, task=str(task))
        self.assertFalse(done["isError"], done)
        self.assertIn("PYBIND11_MODULE", done["content"][0]["text"])
        file, = done["structuredContent"]["files"]
        self.assertEqual((file["name"], file["path"]), ("op", "op.cu"))
        built = self.call("build", source=answer, language="python", task=str(task))
        self.assertEqual((built["isError"], built["structuredContent"]["built"]), (False, True), built)
        self.assertFalse((self.folder / "was_run").exists())
        self.assertTrue(self.call("extract", source=answer)["isError"])

    def test_models_review_and_are_asked_nothing_twice(self):
        ask = {"source": kernels.LINEAR, "task": "mnist_linear"}
        without = self.call("review", **ask)
        self.assertTrue(without["isError"])
        self.assertIn("cupel mcp --model", without["content"][0]["text"])
        self.end(self.server)
        self.begin("--model", f"command:{model(self)}")
        done = self.call("review", **ask)
        self.assertEqual((done["isError"], done["structuredContent"].get("passed")), (False, True), done)
        questions = len((self.folder / "asked").read_text().splitlines())
        again = self.call("review", **ask)
        self.assertTrue(again["structuredContent"]["passed"], again)
        self.assertEqual(len((self.folder / "asked").read_text().splitlines()), questions, "nothing is asked twice")

    def test_a_time_limit_holds(self):
        self.end(self.server)
        self.begin("--timeout", "1")
        done = self.check(SLOW)
        self.assertTrue(done["isError"])
        self.assertIn("longer than 1 s", done["content"][0]["text"])
        self.await_children(False)

    def test_a_run_is_read(self):
        done = self.cupel("optimize", "mnist_linear", "--device", "emu", "--settings", "single", "--candidates", "2",
                          "--batch", "1", "--seed", "1", "-o", self.folder / "cupel-runs" / "one", timeout=300)
        self.assertEqual(done.status, 0, done)
        runs = self.call("run_list")["structuredContent"]["runs"]
        self.assertEqual([(run["task"], run["status"]) for run in runs], [("mnist_linear", "finished")])
        report = self.call("run_report", run=runs[0]["run"])
        self.assertEqual(report["structuredContent"]["task"], "mnist_linear", report)
        best = self.call("run_candidate", run=runs[0]["run"])["structuredContent"]
        self.assertEqual(best["source"], (self.folder / "cupel-runs" / "one" / "best.cu").read_text())
        start = self.call("run_candidate", run=runs[0]["run"], candidate=1)["structuredContent"]
        self.assertEqual(start["source"], (SOURCE / "tasks" / "mnist_linear" / "forward.cu").read_text())
        self.assertTrue(self.call("run_candidate", run=runs[0]["run"], candidate=99)["isError"])


class Hostile(McpTest):
    def test_broken_lines_do_not_end_it(self):
        for line, code in [("{", -32700), ("[1]", -32600), ("7", -32600), ("{}", -32600),
                           ('{"jsonrpc":"2.0","id":1,"method":"nothing"}', -32601)]:
            self.say(line)
            self.assertEqual(self.hear()["error"]["code"], code, line)
        self.assertEqual(self.ask("ping")["result"], {})

    def test_megabytes_are_refused(self):
        done = self.check("/" * (10 << 20))
        self.assertTrue(done["isError"])
        self.assertIn("at most 4194304", done["content"][0]["text"])
        self.say("x" * (20 << 20))
        self.assertIn("longer than", self.hear()["error"]["message"])
        self.assertEqual(self.ask("ping")["result"], {})

    def test_arguments_cannot_become_options(self):
        for task in ("--help", "-o", "x\0y", "../../../etc/passwd"):
            done = self.check(kernels.LINEAR, task=task)
            self.assertTrue(done["isError"], done)
        self.assertTrue(self.call("check", path="/etc/passwd", task="mnist_linear")["isError"])
        self.assertTrue(self.call("run_report", run="--version")["isError"])


@ci_share(2)
class Ends(McpTest):
    def test_a_cancelled_call_ends_at_once(self):
        number = self.begin_check(SLOW)
        self.await_children(True)
        self.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
        self.await_children(False)
        self.heard = []
        self.answer(self.request("ping"))
        self.assertNotIn(number, [message.get("id") for message in self.heard])

    def test_two_calls_run_side_by_side(self):
        self.end(self.server)
        self.begin("--jobs", "2")
        slow = self.begin_check(SLOW)
        quick = self.check(kernels.LINEAR)
        self.assertEqual(quick["structuredContent"]["verdict"], "accepted")
        self.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": slow}})

    def test_it_ends_with_its_input_and_leaves_nothing(self):
        self.begin_check(SLOW)
        self.await_children(True)
        below = descendants(self.server.pid) - {self.server.pid}
        self.server.stdin.close()
        self.assertEqual(self.server.wait(10), 0)
        self.assert_gone(below)
        self.assertEqual(list(self.temporary.iterdir()), [])
        self.assertEqual(self.server.stderr.read(), "")
        self.server.stdin = open(os.devnull, "w")

    def test_it_ends_on_a_signal(self):
        self.begin_check(SLOW)
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(10), 0)
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_a_killed_server_leaves_no_children(self):
        self.begin_check(SLOW)
        self.await_children(True)
        below = descendants(self.server.pid) - {self.server.pid}
        self.server.kill()
        self.server.wait()
        self.assert_gone(below)

    def assert_gone(self, pids):
        end = time.monotonic() + 10
        while (left := {pid for pid in pids if descendants(pid)}) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(left, set())


class OfficialClient(CupelTest):
    def test_a_coding_agent_can_use_cupel_as_its_judge(self):
        python = python_with_sdk()
        if python is None:
            self.skipTest("needs the Python package mcp of tests/requirements.txt: run tools/setup test")
        sources = self.write("kernels.json", json.dumps({"right": kernels.LINEAR, "wrong": WRONG, "slow": SLOW}))
        done = subprocess.run([python, "-B", SOURCE / "tests" / "mcp" / "client.py"], capture_output=True, text=True,
                              timeout=600, cwd=self.folder,
                              env={**self.environment(), "CUPEL_TEST_KERNELS": str(sources),
                                   "CUPEL_TEST_MODEL": f"command:{model(self)}"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"Ran 23 tests in .*\n\nOK\n$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
