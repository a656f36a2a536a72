# SPDX-License-Identifier: Apache-2.0
"""Builds a mutant, checks whether it differs from its parent, and has cupel judge it.

A result is a dictionary with "outcome":
  not_compiled  nvcc or cupel's scan of the source rejects it
  same          it compiles to the same program as its parent or another mutant
  killed        cupel rejects it; "by" names the kind of check, "codes" has the codes of the reasons
  survived      cupel accepts it
  undecided     anything else (unsupported, an error, no verdict in time): not counted as killed
"""

import collections
import json
import os
import pathlib
import signal
import subprocess

from . import image
from .parents import ROOT

_COMPARED = {"wrong_result", "wrong_shape", "wrong_dtype", "not_finite", "wrong_return"}
_BEYOND = {"not_equivalent": "exact arithmetic", "not_exact": "small integers",
           "order_dependence": "other orders"}

Tools = collections.namedtuple("Tools", "cupel cache seed seconds")


def run(tools, arguments, json_path):
    """Runs `cupel`. Returns the JSON that it wrote, or None, and its messages or how it ended."""
    json_path.unlink(missing_ok=True)
    environment = {"CUPEL_HOME": str(ROOT), **os.environ, "CUPEL_CACHE": str(tools.cache)}
    child = subprocess.Popen(["nice", str(tools.cupel), *arguments, "--json", str(json_path), "--quiet"],
                             env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True)
    try:
        _, errors = child.communicate(timeout=tools.seconds)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGTERM)
        try:
            child.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
        return None, f"no verdict in {tools.seconds} s"
    try:
        return json.loads(json_path.read_text()), errors.strip()[-400:]
    except (OSError, ValueError):
        return None, f"exit status {child.returncode}: {errors.strip()[-400:]}"


def build(tools, source, scratch):
    """Returns (fingerprint, ""), or (None, reason) if the source does not compile."""
    out, message = run(tools, ["build", str(source)], scratch)
    if not out or not out.get("built"):
        first = next((d.get("message", "") for d in (out or {}).get("diagnostics", [])), message)
        return None, first
    key = out["image"]
    folder = tools.cache / "build" / "build" / key[:2] / key
    if not folder.is_dir():
        folder = next(pathlib.Path(tools.cache).glob(f"build/**/{key}"))
    return image.fingerprint(folder), ""


def check(tools, source, task, backward, settings, scratch):
    arguments = ["check", str(source), "--task", str(task), "--settings", settings, "--device", "emu",
                 "--seed", str(tools.seed)] + (["--backward"] if backward else [])
    verdict, message = run(tools, arguments, scratch)
    if verdict is None:
        return {"outcome": "undecided", "by": "no verdict", "message": message}
    result = {"outcome": {"accepted": "survived", "rejected": "killed"}.get(verdict["verdict"], "undecided")}
    codes = sorted({reason["code"] for reason in verdict["reasons"]})
    result["codes"] = codes
    result["message"] = verdict["reasons"][0]["message"][:200] if verdict["reasons"] else ""
    result["where"] = verdict["reasons"][0]["where"] if verdict["reasons"] else ""
    result["limits"] = [limit["message"] for limit in verdict["limits"]]
    result["seconds"] = round(verdict["timing"]["total_seconds"], 2)
    if result["outcome"] != "survived":
        result["by"] = _by(verdict, codes)
    return result


def _by(verdict, codes):
    findings = {finding["code"] for setting in verdict["settings"] for finding in setting["findings"]}
    if findings & set(codes):
        return "finding and comparison" if _COMPARED & set(codes) else "finding"
    if _COMPARED & set(codes):
        return "comparison"
    for code in codes:
        if code in _BEYOND:
            return _BEYOND[code]
    return "launch" if codes else "no reason"
