#!/usr/bin/env python3
# Baselines: PyTorch's own implementation of a task, timed as cupel's GPU worker times a candidate. A
# child process with the user's PyTorch. It draws inputs with oracle.py's code and replays a CUDA graph
# [flush of L2][event][the call][event], one replay per sample.
# Protocol: one JSON object per line, as in oracle.py; requests load, open, prepare, take, drop.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # missing with PYTHONSAFEPATH
import oracle

if TYPE_CHECKING:
    from baseline_server import BaselineServer
    from oracle_types import Send


def open_server(send: Send, folders: list[str]) -> BaselineServer:
    from baseline_server import BaselineServer
    return BaselineServer(send, folders)


if __name__ == "__main__":
    sys.exit(oracle.serve(open_server))
