#!/usr/bin/env python3
# Filters: what there is to know of a task's own quality. A child process beside the user's PyTorch;
# loads tasks as oracle.py does and measures one setting a request. It measures; filter_checks.cc
# decides. Protocol: one JSON object a line, as oracle.py's; requests load, measure.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import resource
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # PYTHONSAFEPATH leaves it out
import oracle  # noqa: E402

SHARE_OF_MEMORY = 0.6  # of what is free, for this process
CGROUP_LIMIT = "/sys/fs/cgroup/memory.max"


def number_in(path, pattern):
    """The first match in a file of the system's; infinity without one."""
    try:
        with open(path, encoding="ascii") as file:
            match = re.search(pattern, file.read())
        return int(match[1]) if match else float("inf")
    except OSError:
        return float("inf")


def limit_memory(more=0):
    """A reference that is too large ends in an error of its own instead of the machine's. `more`:
    bytes beyond those that are in use; else a share of what is free."""
    free = min(1024 * number_in("/proc/meminfo", r"MemAvailable:\s+(\d+)"),
               number_in(CGROUP_LIMIT, r"^(\d+)"))
    mine = 1024 * number_in("/proc/self/status", r"VmData:\s+(\d+)")
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = mine + (min(more, free) if more else SHARE_OF_MEMORY * free)
    if limit < (hard if hard != resource.RLIM_INFINITY else float("inf")):
        resource.setrlimit(resource.RLIMIT_DATA, (int(limit), hard))


class FilterServer(oracle.Server):
    def answer(self, request, report):
        import filter_measurement as measurement  # needs PyTorch, which oracle.serve() has imported
        import filter_reference as reference
        if request["op"] == "load":
            self.tasks.clear()  # one at a time
            self.tasks[request["task"]] = reference.SplitTask(request)
            return {}
        if request["op"] != "measure":
            return {"failure": "unknown request %r" % request["op"]}
        task = self.tasks[request["task"]]
        if request.get("memory"):
            limit_memory(request["memory"])
        started = time.monotonic()
        try:
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
    limit_memory()
    sys.exit(oracle.serve(FilterServer))
