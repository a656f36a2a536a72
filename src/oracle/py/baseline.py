#!/usr/bin/env python3
# Baselines: PyTorch's own implementation of a task, timed as cupel's GPU worker times a candidate. A
# child process with the user's PyTorch. It draws inputs with oracle.py's code and replays a CUDA graph
# [flush of L2][event][the call][event], one replay per sample.
# Protocol: one JSON object per line, as in oracle.py; requests load, open, prepare, take, drop.
# SPDX-License-Identifier: Apache-2.0
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # missing with PYTHONSAFEPATH
import oracle  # noqa: E402


def open_server(send, folders):
    from baseline_server import BaselineServer
    return BaselineServer(send, folders)


if __name__ == "__main__":
    sys.exit(oracle.serve(open_server))
