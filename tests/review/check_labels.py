#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the labels with the verdicts of cupel check. Exit status 1 if any label differs.

  check_labels.py [--cupel PROGRAM] [--jobs N] [--write] [ID …]

--write stores each verdict's first reason code in labels.json.
"""
import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# Reason codes of failures before any number is compared. A kernel may reject sizes that the task does not
# list, so host_exception together with another code is not a fault.
COMPILE = {"compile_error", "no_function", "no_module", "illegal_launch", "host_exception"}
MEMORY = {"out_of_bounds", "shared_race", "global_race", "order_dependence", "uninitialized_global",
          "uninitialized_shared", "barrier_divergence", "misaligned", "unwritten_output", "writes_input",
          "foreign_buffer", "store_conflict", "missing_copy_wait", "missing_syncwarp", "shuffle_inactive_lane",
          "deadlock", "exited_block", "invalid_barrier", "missing_proxy_fence", "missing_wgmma_wait",
          "missing_wgmma_fence", "warpgroup_divergence", "use_after_free", "invalid_free", "invalid_metadata",
          "uninitialized_tensor", "missing_tensor_wait", "missing_tensor_fence", "tensor_allocation"}


def codes_of(entry, cupel):
    """Returns the decision and the reason codes of one kernel."""
    task = entry["task"]
    if "/" in task:
        task = HERE / task
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "verdict.json"
        argv = [cupel, "check", HERE / entry["kernel"], "--task", task, "--settings", "all", "--device", "emu",
                "--seed", "5", "--json", report, "--quiet"] + (["--backward"] if entry.get("backward") else [])
        done = subprocess.run(list(map(str, argv)), capture_output=True, text=True)
        if not report.exists():
            return "error", [done.stderr.strip()[:200]]
        verdict = json.loads(report.read_text())
    return verdict["decision"], [reason["code"] for reason in verdict["reasons"]]


def aspect_of(decision, codes):
    """Returns what is wrong according to the verdict, as one of the labels' words."""
    if decision == "accepted":
        return None
    if decision != "rejected":
        return decision
    if set(codes) <= COMPILE:
        return "compile"
    return "memory" if set(codes) & MEMORY else "numerics"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cupel", type=pathlib.Path, default=HERE.parents[1] / "build" / "cupel")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("ids", nargs="*")
    arguments = parser.parse_args()
    labels = json.loads((HERE / "labels.json").read_text())
    entries = [e for e in labels["kernels"] if not arguments.ids or e["id"] in arguments.ids]
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        verdicts = pool.map(lambda entry: codes_of(entry, arguments.cupel), entries)
        for entry, (decision, codes) in zip(entries, verdicts):
            found = aspect_of(decision, codes)
            wrong += found != entry.get("wrong")
            if found != entry.get("wrong"):
                print(f"{entry['id']}: labelled {entry.get('wrong')}, but {decision}: {', '.join(codes)}")
            if codes:
                entry["reason"] = next((code for code in codes if code != "host_exception"), codes[0])
    if arguments.write:
        lines = ",\n".join("  " + json.dumps(entry) for entry in labels["kernels"])
        (HERE / "labels.json").write_text(f'{{"kernels": [\n{lines}\n]}}\n')
    print(f"{len(entries)} labels, {wrong} of them differ from the verdicts")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
