#!/usr/bin/env python3
"""How far are the emulator's estimates from a GPU's measurements?

    estimates.py RESULTS KERNELS TASKS [--settings single] [--cupel build/cupel] [--model h200]

RESULTS is the results.json of a suite that ran on a GPU. The program profiles each of its accepted kernels on
the emulator at the tasks' own sizes and prints a Markdown table. SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent


def profile(options, item):
    """Returns ({setting's id: (estimate in us, bottleneck of the slowest launch)}, error message)."""
    backward = ["--backward"] if item["direction"] == "backward" else []
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "profile.json"
        done = subprocess.run(
            [options.cupel, "profile", options.kernels / item["task"] / item["kernel"], "--task",
             options.tasks / item["task"], *backward, "--device", "emu", "--model",
             options.model, "--settings", options.settings, "--full-size", "--seed", "1", "-q", "--json", report],
            capture_output=True, text=True)
        if done.returncode != 0:
            return {}, (done.stderr or done.stdout).strip().split("\n")[0]
        found = {}
        for setting in json.loads(report.read_text())["settings"]:
            if not setting.get("launches"):  # only products of a library: the report is the verdict's
                found[setting["id"]] = setting["counters"]["estimated_us"], "library"
                continue
            slowest = max(setting["launches"], key=lambda launch: launch["estimated_us"])
            found[setting["id"]] = setting["estimated_us"], re.sub(r"\s+", " ", slowest["bottleneck"])
        return found, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name in ("results", "kernels", "tasks"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--settings", default="single", choices=["single", "multi", "heldout", "all"])
    parser.add_argument("--cupel", default=FOLDER.parent / "build/cupel")
    parser.add_argument("--model", default="h200")
    options = parser.parse_args()
    results = json.loads(options.results.read_text())
    print(f"Estimated for {options.model}, measured on {results['device']}; microseconds, cold L2.\n")
    print("| kernel | setting | measured | estimated | ratio | bound by |\n|---|---|--:|--:|--:|---|", flush=True)
    distances = []
    for item in results["items"]:
        measured = {setting["id"]: setting["us"]["estimate"] for setting in item.get("settings", []) if "us" in setting}
        if item["decision"] != "accepted" or not measured:
            continue
        estimates, why = profile(options, item)
        if why:
            print(f"estimates: {item['id']}: {why}", file=sys.stderr)
        for name, (us, bound) in estimates.items():
            if name not in measured:
                continue
            distances.append(abs(math.log(us / measured[name])))
            print(f"| {item['task']} {item['direction'][0].upper()} | {name} | {measured[name]:.2f} | {us:.2f} | "
                  f"{us / measured[name]:.2f} | {bound} |", flush=True)
    if not distances:
        sys.exit("estimates: no setting was both measured and estimated")
    within = [sum(distance <= math.log(factor) for distance in distances) for factor in (1.25, 1.5, 2)]
    print(f"\nOf {len(distances)}: {within[0]} within a factor of 1.25, {within[1]} of 1.5, {within[2]} of 2; the mean "
          f"factor is {math.exp(sum(distances) / len(distances)):.2f}.")


if __name__ == "__main__":
    main()
