#!/usr/bin/env python3
# Filters: what there is to know of a task's own quality. A child process beside the user's PyTorch;
# loads tasks as oracle.py does and measures one setting a request. It measures; filter_checks.cc
# decides. Protocol: one JSON object a line, as oracle.py's; requests load, measure.
# SPDX-License-Identifier: Apache-2.0
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # PYTHONSAFEPATH leaves it out
import memory_limit  # noqa: E402
import oracle  # noqa: E402

SHARE_OF_MEMORY = 0.6  # of what is free, for this process


class FilterServer(oracle.Server):
    def answer(self, request, report):
        import filter_measurement as measurement  # needs PyTorch, which oracle.serve() has imported
        import filter_reference as reference
        if request["op"] == "load":
            self.tasks.clear()  # one at a time
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
