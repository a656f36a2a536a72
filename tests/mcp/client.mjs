// `cupel mcp` through the official MCP client, as a coding agent uses it. Started by
// tests/e2e/test_mcp.py, which names the program and a JSON file of sources in the environment.
// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import fs from "node:fs";
import process from "node:process";
import { after, before, test } from "node:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [program, kernelFile] = [process.env.CUPEL_PROGRAM, process.env.CUPEL_TEST_KERNELS];
const model = process.env.CUPEL_TEST_MODEL;  // a spec
const kernels = JSON.parse(fs.readFileSync(kernelFile, "utf8"));
const minutes = 60_000;
let client;
let complaints = "";

async function connect(args) {
  const transport = new StdioClientTransport({ command: program, args, env: process.env, stderr: "pipe" });
  transport.stderr.on("data", (bytes) => (complaints += bytes));
  const connected = new Client({ name: "cupel-tests", version: "1.0.0" });
  connected.onerror = (error) => assert.fail(`the client could not read an answer: ${error}`);
  await connected.connect(transport);
  return connected;
}

before(async () => {
  client = await connect(["mcp"]);
});

after(async () => {
  await client.close();
  assert.equal(complaints, "");
});

// The client checks structuredContent against the tool's output schema once tools were listed.
const call = (name, args, options = {}) =>
  client.callTool({ name, arguments: args }, undefined, { timeout: 5 * minutes, ...options });
const check = (source, more = {}, options = {}) =>
  call("check", { source, task: "mnist_linear", settings: "single", device: "emu", ...more }, options);

test("the tools are described", async () => {
  const { tools } = await client.listTools();
  const names = tools.map((tool) => tool.name);
  for (const name of ["check", "build", "profile", "bench", "extract", "verify", "doctor", "task_list", "task_show",
                      "run_list", "run_report", "run_candidate", "review", "record"]) {
    assert.ok(names.includes(name), name);
  }
  for (const tool of tools) {
    assert.equal(tool.inputSchema.type, "object");
    assert.equal(tool.annotations.readOnlyHint, true);
  }
  assert.match(client.getInstructions(), /PYBIND11_MODULE/);
  assert.equal(client.getServerVersion().name, "cupel");
});

test("tasks are listed, shown and read", async () => {
  const list = await call("task_list", {});
  assert.ok(list.structuredContent.tasks.some((task) => task.name === "mnist_linear"));
  const shown = await call("task_show", { task: "mnist_linear" });
  assert.match(shown.structuredContent.forward.code, /def forward_fn/);
  assert.match(shown.content[0].text, /batch_size=64/);
  const { resources } = await client.listResources();
  assert.ok(resources.some((one) => one.uri === "cupel://tasks/mnist_linear"));
  const guide = await client.readResource({ uri: "cupel://guide" });
  assert.match(guide.contents[0].text, /PYBIND11_MODULE/);
  const task = await client.readResource({ uri: "cupel://tasks/mnist_linear" });
  assert.match(task.contents[0].text, /import torch/);
  await assert.rejects(client.readResource({ uri: "cupel://tasks/../../etc/passwd" }), /not found/i);
});

test("a right kernel is accepted, and tells how far it is", async () => {
  const steps = [];
  const done = await check(kernels.right, {}, { onprogress: (step) => steps.push(step) });
  assert.equal(done.isError, false, done.content[0].text);
  assert.equal(done.structuredContent.verdict, "accepted");
  assert.deepEqual(done.structuredContent.reasons, []);
  assert.match(done.content[0].text, /accepted/i);
  assert.ok(steps.length > 0);
  assert.ok(steps.every((step, i) => i === 0 || step.progress > steps[i - 1].progress));
});

test("a wrong kernel is rejected, which is no error", async () => {
  const done = await check(kernels.wrong);
  assert.equal(done.isError, false);
  assert.equal(done.structuredContent.verdict, "rejected");
  assert.ok(done.structuredContent.reasons.some((reason) => reason.code === "wrong_result"));
  assert.match(done.content[0].text, /bias/);
  const { record, left_out: leftOut, record_file: file } = done.structuredContent;
  assert.ok(leftOut.includes("/settings/*/trials"));
  const more = await call("record", { record, pointer: "/settings/0/trials/0/outputs/0" });
  assert.equal(more.structuredContent.value.code, "wrong_result");
  assert.equal(JSON.parse(fs.readFileSync(file, "utf8")).schema, "cupel.verdict/1");
  const verified = await call("verify", { record_file: file });
  assert.equal(verified.structuredContent.holds, true, verified.content[0].text);
});

test("what does not compile says where", async () => {
  const done = await call("build", { source: kernels.right.replace("int rows", "int rows rows") });
  assert.equal(done.isError, false);
  assert.equal(done.structuredContent.built, false);
  assert.match(done.content[0].text, /kernel\.cu:\d+/);
});

test("a profile names the bound and its lines", async () => {
  const done = await call("profile", { source: kernels.right, task: "mnist_linear", device: "emu" });
  assert.equal(done.structuredContent.verdict, "accepted", done.content[0].text);
  const launch = done.structuredContent.settings[0].launches[0];
  assert.ok(launch.bottleneck.length > 0);
  assert.ok(launch.where.length > 0);
});

test("what cupel cannot do is an error with a remedy", async () => {
  const none = await check(kernels.right, { task: "no_such_task" });
  assert.equal(none.isError, true);
  assert.match(none.content[0].text, /no_such_task/);
  assert.ok(!none.content[0].text.includes("--task"), none.content[0].text);
  const both = await check(kernels.right, { path: "kernel.cu" });
  assert.match(both.content[0].text, /one of "source" and "path"/);
  const typo = await check(kernels.right, { setting: "single" });
  assert.match(typo.content[0].text, /has no "setting".*settings/);
  await assert.rejects(call("chekc", {}), /Unknown tool/);
  const run = await call("run_report", { run: "no-such-run" });
  assert.equal(run.isError, true);
  const large = await check("/".repeat(10 << 20));
  assert.equal(large.isError, true);
  assert.match(large.content[0].text, /"source"/);
});

test("models review where the server was told which", async () => {
  const kernel = { source: kernels.right, task: "mnist_linear" };
  const without = await call("review", kernel);
  assert.equal(without.isError, true);
  assert.match(without.content[0].text, /cupel mcp --model/);
  const other = await connect(["mcp", "--model", model]);
  await other.listTools();
  const done = await other.callTool({ name: "review", arguments: kernel });
  assert.equal(done.isError, false, done.content[0].text);
  assert.equal(done.structuredContent.passed, true);
  assert.deepEqual(done.structuredContent.opinions.map((one) => one.aspect), ["compile", "memory", "numerics"]);
  await other.close();
});

test("a call can be cancelled while others go on", async () => {
  const cancel = new AbortController();
  const endless = check(kernels.slow, {}, { signal: cancel.signal, onprogress: () => cancel.abort("enough") });
  const other = call("task_list", {});
  await assert.rejects(endless, /enough/);
  assert.ok((await other).structuredContent.tasks.length > 0);
  await client.ping();
});

test("two kernels are judged at once", async () => {
  const [right, wrong] = await Promise.all([check(kernels.right), check(kernels.wrong)]);
  assert.equal(right.structuredContent.verdict, "accepted");
  assert.equal(wrong.structuredContent.verdict, "rejected");
});
