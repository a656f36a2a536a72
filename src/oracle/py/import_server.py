# Answers import_task.py's requests.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import case_server
import cuda_on_cpu
import memory_limit
import signature
from import_steps import Import
from oracle_types import Json, Report


class ImportServer(case_server.Server):
    def answer(self, request: Json, report: Report) -> Json:
        if request.get("memory"):
            memory_limit.limit_memory(more=request["memory"])
        try:
            with cuda_on_cpu.OnCpu() as devices:
                if request["op"] == "import":
                    return Import(request, report, devices).run()
                if request["op"] == "signature":
                    return signature.signature(request)
        except (MemoryError, RuntimeError) as error:
            if not memory_limit.is_exceeded(error):
                raise
            return {"failure": "too large for the memory limit (raise --memory)"}
        return {"failure": "unknown request %r" % request["op"]}
