#!/usr/bin/env python3
# Finds how a task's function is called, for an operator that replaces it: the kinds of its arguments at
# every setting, and where the arguments of backward_fn come from. Runs task code and uses oracle.py's
# draws. One JSON request on stdin, one JSON reply on stdout.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.util
import json
import os
import sys
from types import ModuleType


def load(path: str, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def main() -> int:
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    request = json.load(sys.stdin)
    os.dup2(2, 1)  # task code prints to stderr
    here = os.path.dirname(os.path.abspath(__file__))
    if here not in sys.path:
        sys.path.insert(0, here)  # missing with PYTHONSAFEPATH
    import wiring_probe
    support = load(os.path.join(here, os.pardir, os.pardir, "report", "package", "support.py"),
                   "cupel_package_support")
    reply = {direction: wiring_probe.look(part, support) for direction, part in request.items()}
    channel.write(json.dumps(reply))
    channel.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
