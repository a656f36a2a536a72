#!/usr/bin/env python3
# Measures a task's quality for the filter. A child process with the user's PyTorch. It loads tasks as
# oracle.py does and measures one setting per request; filter_checks.cc judges the measures.
# Protocol: one JSON object per line, as in oracle.py; requests load, measure.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # missing with PYTHONSAFEPATH
import memory_limit
import oracle

if TYPE_CHECKING:
    from filter_server import FilterServer
    from oracle_types import Send

SHARE_OF_MEMORY = 0.6  # of the free memory, for this process


def open_server(send: Send, folders: list[str]) -> FilterServer:
    from filter_server import FilterServer
    return FilterServer(send, folders)


if __name__ == "__main__":
    memory_limit.limit_memory(share=SHARE_OF_MEMORY)
    sys.exit(oracle.serve(open_server))
