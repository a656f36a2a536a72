"""Tests `cupel mcp` through the official Python SDK, as a coding agent uses it.

tests/e2e/test_mcp.py starts this file. Three environment variables say what to test: CUPEL_PROGRAM is the program,
CUPEL_TEST_KERNELS a JSON file with kernels' sources, CUPEL_TEST_MODEL the spec of a language model.
SPDX-License-Identifier: Apache-2.0
"""
import asyncio
import contextlib
import json
import os
import pathlib
import tempfile
import unittest

from mcp import Client, MCPError, StdioServerParameters, stdio_client

PROGRAM = os.environ["CUPEL_PROGRAM"]
KERNELS = json.loads(pathlib.Path(os.environ["CUPEL_TEST_KERNELS"]).read_text())
MODEL = os.environ["CUPEL_TEST_MODEL"]
SECONDS = 300.0
TOOLS = {"check", "build", "profile", "bench", "extract", "verify", "doctor", "task_list", "task_show", "run_list",
         "run_report", "run_candidate", "review", "record"}


def text_of(result):
    return result.content[0].text


class Connection:
    """A server and the SDK's client of it. The SDK checks structured content against the tool's output schema."""

    def __init__(self, client):
        self.client = client

    async def call(self, name, arguments, on_progress=None):
        return await self.client.call_tool(name, arguments, read_timeout_seconds=SECONDS,
                                           progress_callback=on_progress)

    async def check(self, source, on_progress=None, **more):
        return await self.call("check", {"source": source, "task": "mnist_linear", "settings": "single",
                                         "device": "emu", **more}, on_progress)


class Tests:
    """The tests, run once for each way to connect: `mode` is the SDK's, `revision` is what both sides agree on."""
    mode = revision = ""

    @contextlib.asynccontextmanager
    async def connect(self, *options):
        """A connection to a new server, which must write no line that the SDK cannot read and nothing to stderr."""
        faults = []

        async def on_message(message):
            if isinstance(message, Exception):
                faults.append(message)

        with tempfile.TemporaryFile("w+") as errors:
            server = StdioServerParameters(command=PROGRAM, args=["mcp", *options], env=dict(os.environ))
            transport = stdio_client(server, errlog=errors)
            async with Client(transport, mode=self.mode, message_handler=on_message) as client:
                self.assertEqual(client.protocol_version, self.revision)
                yield Connection(client)
            errors.seek(0)
            self.assertEqual(errors.read(), "")
        self.assertEqual(faults, [])

    def assert_progress(self, steps):
        """Progress increases with each notification, up to its total, and has a message."""
        progress = [at for at, _, _ in steps]
        self.assertEqual(progress, sorted(set(progress)))
        self.assertTrue(all(total is None or total >= at for at, total, _ in steps), steps)
        self.assertTrue(all(message for _, _, message in steps), steps)

    async def test_describes_its_tools(self):
        async with self.connect() as to:
            tools = {tool.name: tool for tool in (await to.client.list_tools()).tools}
            self.assertLessEqual(TOOLS, set(tools))
            for name, tool in tools.items():
                with self.subTest(tool=name):
                    self.assertEqual(tool.input_schema["type"], "object")
                    self.assertIs(tool.annotations.read_only_hint, True)
                    self.assertIs(tool.annotations.open_world_hint, name == "review")
            self.assertEqual(tools["check"].output_schema["type"], "object")
            self.assertIn("PYBIND11_MODULE", to.client.instructions)
            self.assertEqual(to.client.server_info.name, "cupel")

    async def test_lists_shows_and_reads_tasks(self):
        async with self.connect() as to:
            tasks = (await to.call("task_list", {})).structured_content["tasks"]
            self.assertIn("mnist_linear", [task["name"] for task in tasks])
            shown = await to.call("task_show", {"task": "mnist_linear"})
            self.assertIn("def forward_fn", shown.structured_content["forward"]["code"])
            self.assertIn("batch_size=64", text_of(shown))
            resources = (await to.client.list_resources()).resources
            self.assertIn("cupel://tasks/mnist_linear", [str(one.uri) for one in resources])
            guide = await to.client.read_resource("cupel://guide")
            self.assertIn("PYBIND11_MODULE", guide.contents[0].text)
            task = await to.client.read_resource("cupel://tasks/mnist_linear")
            self.assertIn("import torch", task.contents[0].text)
            with self.assertRaisesRegex(MCPError, "(?i)not found"):
                await to.client.read_resource("cupel://tasks/../../etc/passwd")

    async def test_accepts_a_correct_kernel_and_reports_progress(self):
        steps = []

        async def on_progress(progress, total, message):
            steps.append((progress, total, message))

        async with self.connect() as to:
            done = await to.check(KERNELS["right"], on_progress)
        self.assertIs(done.is_error, False, text_of(done))
        self.assertEqual(done.structured_content["verdict"], "accepted")
        self.assertEqual(done.structured_content["reasons"], [])
        self.assertIn("accepted", text_of(done).lower())
        self.assertGreater(len(steps), 0)
        self.assert_progress(steps)

    async def test_rejects_a_wrong_kernel_without_an_error(self):
        async with self.connect() as to:
            done = await to.check(KERNELS["wrong"])
            answer = done.structured_content
            self.assertIs(done.is_error, False)
            self.assertEqual(answer["verdict"], "rejected")
            self.assertIn("wrong_result", [reason["code"] for reason in answer["reasons"]])
            self.assertIn("bias", text_of(done))
            self.assertIn("/settings/*/trials", answer["left_out"])
            more = await to.call("record", {"record": answer["record"],
                                            "pointer": "/settings/0/trials/0/outputs/0"})
            self.assertEqual(more.structured_content["value"]["code"], "wrong_result")
            record = json.loads(pathlib.Path(answer["record_file"]).read_text())
            self.assertEqual(record["schema"], "cupel.verdict/1")
            verified = await to.call("verify", {"record_file": answer["record_file"]})
            self.assertIs(verified.structured_content["holds"], True, text_of(verified))

    async def test_locates_compile_errors(self):
        async with self.connect() as to:
            done = await to.call("build", {"source": KERNELS["right"].replace("int rows", "int rows rows", 1)})
        self.assertIs(done.is_error, False)
        self.assertIs(done.structured_content["built"], False)
        self.assertRegex(text_of(done), r"kernel\.cu:\d+")

    async def test_profiles_name_the_bottleneck_and_its_lines(self):
        async with self.connect() as to:
            done = await to.call("profile", {"source": KERNELS["right"], "task": "mnist_linear", "device": "emu"})
        self.assertEqual(done.structured_content["verdict"], "accepted", text_of(done))
        launch = done.structured_content["settings"][0]["launches"][0]
        self.assertGreater(len(launch["bottleneck"]), 0)
        self.assertGreater(len(launch["where"]), 0)

    async def test_errors_have_a_remedy(self):
        async with self.connect() as to:
            none = await to.check(KERNELS["right"], task="no_such_task")
            self.assertIs(none.is_error, True)
            self.assertIn("no_such_task", text_of(none))
            self.assertNotIn("--task", text_of(none))
            both = await to.check(KERNELS["right"], path="kernel.cu")
            self.assertIs(both.is_error, True)
            self.assertIn('one of "source" and "path"', text_of(both))
            typo = await to.check(KERNELS["right"], setting="single")
            self.assertIs(typo.is_error, True)
            self.assertRegex(text_of(typo), r'"setting".*settings')
            with self.assertRaisesRegex(MCPError, "Unknown tool"):
                await to.call("chekc", {})
            run = await to.call("run_report", {"run": "no-such-run"})
            self.assertIs(run.is_error, True)
            large = await to.check("/" * (10 << 20))
            self.assertIs(large.is_error, True)
            self.assertIn('"source"', text_of(large))

    async def test_reviews_with_the_models_of_the_command_line(self):
        kernel = {"source": KERNELS["right"], "task": "mnist_linear"}
        async with self.connect() as to:
            without = await to.call("review", kernel)
            self.assertIs(without.is_error, True)
            self.assertIn("cupel mcp --model", text_of(without))
        async with self.connect("--model", MODEL) as to:
            done = await to.call("review", kernel)
            self.assertIs(done.is_error, False, text_of(done))
            self.assertIs(done.structured_content["passed"], True)
            self.assertEqual([one["aspect"] for one in done.structured_content["opinions"]],
                             ["compile", "memory", "numerics"])

    async def test_cancels_one_call_while_others_continue(self):
        steps, two = [], asyncio.Event()

        async def on_progress(progress, total, message):
            steps.append((progress, total, message))
            if len(steps) == 2:
                two.set()

        async with self.connect("--jobs", "1") as to:
            slow = asyncio.create_task(to.check(KERNELS["slow"], on_progress, settings="all"))
            await asyncio.wait_for(two.wait(), SECONDS)
            self.assert_progress(steps)
            other = asyncio.create_task(to.call("task_list", {}))
            slow.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await slow
            self.assertGreater(len((await other).structured_content["tasks"]), 0)
            # The one call that may judge at a time has ended.
            right = await asyncio.wait_for(to.check(KERNELS["right"]), 60)
            self.assertEqual(right.structured_content["verdict"], "accepted")

    async def test_judges_two_kernels_at_once(self):
        async with self.connect("--jobs", "2") as to:
            right, wrong = await asyncio.gather(to.check(KERNELS["right"]), to.check(KERNELS["wrong"]))
        self.assertEqual(right.structured_content["verdict"], "accepted")
        self.assertEqual(wrong.structured_content["verdict"], "rejected")

    async def test_the_sdk_checks_output_schemas(self):
        async with self.connect() as to:
            done = await to.call("task_list", {})
            await to.client.session.validate_tool_result("task_list", done)
            done.structured_content["tasks"] = "none"
            with self.assertRaisesRegex(RuntimeError, "Invalid structured content"):
                await to.client.session.validate_tool_result("task_list", done)


class Handshake(Tests, unittest.IsolatedAsyncioTestCase):
    """Connects by `initialize`."""
    mode, revision = "legacy", "2025-11-25"

    async def test_answers_pings(self):
        async with self.connect() as to:
            await to.client.session.send_ping()


class Stateless(Tests, unittest.IsolatedAsyncioTestCase):
    """Connects by `server/discover`; each request carries its revision."""
    mode, revision = "auto", "2026-07-28"


if __name__ == "__main__":
    unittest.main(verbosity=2)
