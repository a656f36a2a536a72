# Answers the oracle's requests: loads tasks and makes cases of them.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import os
import sys
import time

import cuda_on_cpu
import distribution_cases
import float64_place
import memory_limit
import time_limit
from case_file import write_case
from draw_base import Captured
from error_scale import error_scales
from loaded_task import Task
from oracle_types import Json, Report, Send
from steady_draws import steady_draw
from task_error import TaskError, describe

GPU_FAILED = 75  # exit status: kGpuFailed in torch_child.h
SHARE_OF_MEMORY = 0.5  # of the free memory, without a GPU: the case file needs as much as its tensors
TOO_LARGE = ("it needs more than half of the free memory; use smaller sizes: those in task.json "
             "(emulator_forward), or those that cupel task import finds for a problem file")


def make_case(task: Task, request: Json, folders: list[str], name: str, report: Report) -> Json:
    init, inputs = request["init"], request["inputs"]
    scales = request.get("scales")
    started = time.time()
    draw, truth = steady_draw(task, request["seed"], init, inputs)
    reference = draw.reference()
    drawn, draws = time.time(), 0
    if scales is None:
        scales, draws = error_scales(task, init, inputs, report, (request["seed"], draw, truth))
    scaled = time.time()
    distribution_cases.note_carried(task, init, inputs, draw)
    if len(scales) != 2 * len(reference):
        raise TaskError("the number of outputs varies between draws")
    report("case computed")
    reply = write_case(task, request, folders, name, draw, reference, truth, scales)
    return dict(reply, scales=scales, draws=draws, seconds=time.time() - scaled + drawn - started,
                scale_seconds=scaled - drawn)


class Server:
    """`send`: sends a message to cupel. `folders`: private ones for files of cases, in order of preference."""

    def __init__(self, send: Send, folders: list[str]) -> None:
        self.send, self.folders, self.tasks, self.made = send, folders, {}, 0
        self.place = float64_place.CPU

    def loading(self) -> contextlib.AbstractContextManager:
        """The context in which a task's file is executed."""
        return cuda_on_cpu.OnCpu()

    def answer(self, request: Json, report: Report) -> Json:
        """Returns the reply to a request. The other children's servers answer other requests."""
        if request["op"] == "load":
            with self.loading():
                self.tasks[request["task"]] = Task(request)
            return {}
        if request["op"] == "gpu":
            self.place = float64_place.Gpu(request["ordinal"], request["lock"])
            return {}
        if request["op"] == "case":
            task = self.tasks[request["task"]]
            with time_limit.limit_time(request.get("seconds", 0), "computing the case"):
                reply = self.case(task, request, report)
            reply["warnings"] = task.warnings
            return reply
        if request["op"] == "elements":
            return self.elements(self.tasks[request["task"]], request, report)
        if request["op"] == "shapes":
            import shapes  # fake tensors take seconds to import
            report("varying sizes")
            return {"calls": shapes.describe_calls(self.tasks[request["task"]], request["settings"])}
        return {"failure": "unknown request %r" % request["op"]}

    def elements(self, task: Task, request: Json, report: Report) -> Json:
        import field_reference  # few requests need it
        memory_limit.limit_memory(share=SHARE_OF_MEMORY)
        self.made += 1
        with float64_place.at(float64_place.CPU):
            call, kind = (task, request["init"], request["inputs"]), request["distribution"]
            if kind == "usual":
                draw, _ = steady_draw(task, request["seed"], *call[1:])
            else:
                draw = distribution_cases.Answer(*call, kind, request["seed"]).draw
            report("computing in finite fields")
            return field_reference.make_elements(draw, request["field_seed"], self.folders, "elements-%d" % self.made)

    def case(self, task: Task, request: Json, report: Report) -> Json:
        if self.place is float64_place.CPU:  # the limit would also count a GPU driver's mappings
            memory_limit.limit_memory(share=SHARE_OF_MEMORY)
        make = make_case
        if request.get("distribution", "usual") != "usual":
            make = distribution_cases.make_case
        for place in ([] if task.on_cpu else [self.place]) + [float64_place.CPU]:
            self.made += 1
            try:
                with float64_place.at(place):
                    return make(task, request, self.folders, "case-%d" % self.made, report)
            except float64_place.Trouble as trouble:
                if place.is_broken():
                    raise
                task.on_cpu = trouble.lasting
                report("computing truth on the CPU: %s" % trouble)
            self.place.release()  # free what the failed attempt used

    def handle(self, request: Json) -> None:
        identity = request.get("id")
        task = self.tasks.get(request.get("task"))
        path = task.path if task else request.get("path", "")
        try:
            reply = self.answer(request, lambda text: self.send({"id": identity, "progress": text}))
        except Exception as error:
            failure = TOO_LARGE if memory_limit.is_exceeded(error) else describe(error, path)
            reply = {"failure": failure}
        except (SystemExit, Captured, time_limit.TooSlow) as error:
            reply = {"failure": describe(error, path)}
        if "file" not in reply and self.place.is_broken():  # this process cannot even draw numbers now
            sys.stderr.write("\nthe GPU failed: %s\n" % reply.get("failure", "an earlier error"))
            sys.stderr.flush()
            os._exit(GPU_FAILED)
        reply["id"] = identity
        self.send(reply)
