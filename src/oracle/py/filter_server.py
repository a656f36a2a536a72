# Answers filter.py's requests.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time

import torch

import case_server
import cuda_on_cpu
import memory_limit
from filter_measurement import Measurement, TooSlow
from filter_reference import SplitTask
from oracle_types import Json, Report


class FilterServer(case_server.Server):
    def answer(self, request: Json, report: Report) -> Json:
        if request["op"] == "load":
            self.tasks.clear()  # keep one task at a time
            with self.loading():
                self.tasks[request["task"]] = SplitTask(request)
            return {}
        if request["op"] != "measure":
            return {"failure": "unknown request %r" % request["op"]}
        task = self.tasks[request["task"]]
        if request.get("memory"):
            memory_limit.limit_memory(more=request["memory"])
        started = time.monotonic()
        try:
            with cuda_on_cpu.OnCpu():
                reply = Measurement(task, request, report).run()
        except TooSlow as error:
            return {"too_much": "too slow: %s" % error}
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and "memory" not in str(error):
                raise
            return {"too_much": "too large: %s" % str(error).split("\n")[0][:300]}
        return dict(reply, warnings=task.warnings, torch=torch.__version__,
                    seconds=time.monotonic() - started)
