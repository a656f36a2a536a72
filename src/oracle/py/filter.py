#!/usr/bin/env python3
# Measures a task's quality for the filter. A child process with the user's PyTorch. It loads tasks as
# oracle.py does and measures one setting per request; filter_checks.cc judges the measures.
# Protocol: one JSON object per line, as in oracle.py; requests load, measure.
# SPDX-License-Identifier: Apache-2.0
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # missing with PYTHONSAFEPATH
import memory_limit  # noqa: E402
import oracle  # noqa: E402

SHARE_OF_MEMORY = 0.6  # of the free memory, for this process


class FilterServer(oracle.Server):
    def answer(self, request, report):
        import filter_measurement as measurement  # needs PyTorch; oracle.serve() has imported it
        import filter_reference as reference
        if request["op"] == "load":
            self.tasks.clear()  # keep one task at a time
            with self.loading():
                self.tasks[request["task"]] = reference.SplitTask(request)
            return {}
        if request["op"] != "measure":
            return {"failure": "unknown request %r" % request["op"]}
        task = self.tasks[request["task"]]
        if request.get("memory"):
            memory_limit.limit_memory(more=request["memory"])
        started = time.monotonic()
        try:
            with oracle.cuda_on_cpu.OnCpu():
                reply = measurement.Measurement(task, request, report).run()
        except measurement.TooSlow as error:
            return {"too_much": "too slow: %s" % error}
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and "memory" not in str(error):
                raise
            return {"too_much": "too large: %s" % str(error).split("\n")[0][:300]}
        return dict(reply, warnings=task.warnings, torch=oracle.torch.__version__,
                    seconds=time.monotonic() - started)


if __name__ == "__main__":
    memory_limit.limit_memory(share=SHARE_OF_MEMORY)
    sys.exit(oracle.serve(FilterServer))
