#!/usr/bin/env python3
# Measures a task's quality for the filter. A child process with the user's PyTorch. It loads tasks as
# oracle.py does and measures one setting per request; filter_checks.cc judges the measures.
# Protocol: one JSON object per line, as in oracle.py; requests load, measure.
# SPDX-License-Identifier: Apache-2.0
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # missing with PYTHONSAFEPATH
import memory_limit  # noqa: E402
import oracle  # noqa: E402

SHARE_OF_MEMORY = 0.6  # of the free memory, for this process


def open_server(send, folders):
    from filter_server import FilterServer
    return FilterServer(send, folders)


if __name__ == "__main__":
    memory_limit.limit_memory(share=SHARE_OF_MEMORY)
    sys.exit(oracle.serve(open_server))
