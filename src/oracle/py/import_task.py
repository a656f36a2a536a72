#!/usr/bin/env python3
# Imports problems: finds how to call a Python file with an nn.Module, and writes a task folder
# (import_folder.py). A child process with the user's PyTorch, since it runs the file's code. It runs
# mostly on tensors without data, so that large problems are fast. Protocol: one JSON object per line,
# as in oracle.py; requests import, signature (signature.py). SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # missing with PYTHONSAFEPATH
import oracle

if TYPE_CHECKING:
    from import_server import ImportServer
    from oracle_types import Send


def open_server(send: Send, folders: list[str]) -> ImportServer:
    from import_server import ImportServer
    return ImportServer(send, folders)


if __name__ == "__main__":
    sys.exit(oracle.serve(open_server))
