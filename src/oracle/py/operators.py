#!/usr/bin/env python3
# Describes and executes PyTorch operators that candidates call: a child of cupel with the user's PyTorch, which runs
# no code of tasks or candidates. Protocol as in oracle.py. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import oracle

if TYPE_CHECKING:
    from operator_server import OperatorServer
    from oracle_types import Send


def open_server(send: Send, folders: list[str]) -> OperatorServer:
    from operator_server import OperatorServer
    return OperatorServer(send, folders)


if __name__ == "__main__":
    sys.exit(oracle.serve(open_server))
