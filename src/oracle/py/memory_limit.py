# Limits the memory of a child process, so that a task that is too large fails with an error and does
# not exhaust the machine. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import re
import resource

CGROUP = "/sys/fs/cgroup/memory."


def number_in(path: str, pattern: str) -> float:
    """The number in the first match of a system file, or infinity."""
    try:
        with open(path, encoding="ascii") as file:
            match = re.search(pattern, file.read())
        return int(match[1]) if match else float("inf")
    except OSError:
        return float("inf")


def limit_memory(share: float = 0.0, more: int = 0) -> None:
    """Limits this process to its current memory plus `share` of the free memory, or plus `more` bytes."""
    in_group = number_in(CGROUP + "max", r"^(\d+)")
    if in_group < float("inf"):
        cache = number_in(CGROUP + "stat", r"(?m)^file (\d+)")  # the kernel frees it on demand
        taken = number_in(CGROUP + "current", r"^(\d+)") - cache
        in_group = max(0, in_group - taken) if math.isfinite(taken) else in_group
    free = min(1024 * number_in("/proc/meminfo", r"MemAvailable:\s+(\d+)"), in_group)
    mine = 1024 * number_in("/proc/self/status", r"VmData:\s+(\d+)")
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = mine + (share * free if share else min(more, free))
    if limit < (hard if hard != resource.RLIM_INFINITY else float("inf")):
        resource.setrlimit(resource.RLIMIT_DATA, (int(limit), hard))


def is_exceeded(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(
        text in str(error) for text in ("can't allocate memory", "std::bad_alloc"))
