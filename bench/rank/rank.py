#!/usr/bin/env python3
"""Do the emulator's estimates rank kernels as a GPU does?

    rank.py --estimate FILE [--cupel build/cupel] [--model h200]   checks all variants, writes estimates
    rank.py --measure FILE                                         times them here (needs a GPU, nvcc)
    rank.py --compare ESTIMATES TIMES                              Spearman's rho in each setting
    rank.py --spread ESTIMATES                                     slowest over fastest of equivalent variants

A setting is NAME.py and NAME.cu. The first line of NAME.cu names its variants. Only settings with at least
five variants count. The result is the mean of rho over settings: pooled, the ranks would only reflect sizes.
--folder takes other settings: those of bench/guards, whose variants with the same first word (four_if and
four_clamp) should take the same time.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
MIN_VARIANTS = 5
EMPTY_US = 0.64  # docs/measuring.md


def settings(folder, only):
    """{name: [variants]}"""
    found = {}
    for source in sorted(folder.glob("*.cu")):
        line = source.read_text().split("\n", 1)[0]
        if match := re.fullmatch(r"// variants: (.+)", line):
            if not only or source.stem in only:
                found[source.stem] = match[1].split()
    return found


def estimate(options, name, index):
    """{"us": …, "bound": …} of a variant that `cupel profile` accepts."""
    source = options.folder / name
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "profile.json"
        done = subprocess.run(
            [options.cupel, "profile", source.with_suffix(".cu"), "--task", source.with_suffix(".py"), "--device", "emu",
             "--model", options.model, "--include", FOLDER, f"--flag=-DRANK_VARIANT={index}", "--seed", "1", "-q",
             "--json", report], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{name} variant {index} is not accepted:\n{done.stdout}{done.stderr}")
        setting = json.loads(report.read_text())["settings"][0]
        launches = setting["launches"]
        slowest = max(launches, key=lambda launch: launch["estimated_us"])
        return {"us": setting["estimated_us"], "bound": slowest["bottleneck"],
                "bounds_us": slowest["bounds_us"]}


def estimate_all(options):
    result = {"model": options.model, "settings": {}}
    for name, variants in settings(options.folder, options.only).items():
        rows = {}
        for index, variant in enumerate(variants):
            rows[variant] = estimate(options, name, index)
            print(f"{name:14} {variant:20} {rows[variant]['us']:10.2f} us  {rows[variant]['bound']}",
                  flush=True)
        result["settings"][name] = rows
    pathlib.Path(options.estimate).write_text(json.dumps(result, indent=1) + "\n")


def measure_all(options):
    device = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                            capture_output=True, text=True).stdout.strip()
    result = {"device": device, "settings": {}}
    with tempfile.TemporaryDirectory() as folder:
        builds = {}
        for name in settings(options.folder, options.only):
            program = pathlib.Path(folder) / name
            # The flags that cupel compiles candidates with.
            builds[name] = program, subprocess.Popen(
                [options.nvcc, "-O3", "--use_fast_math", "-std=c++17", f"-arch={options.arch}", "-DRANK_TIMING",
                 f'-DRANK_SETTING="{name}.cu"', "-I", FOLDER, "-I", options.folder, FOLDER / "rank.cu", "-o", program])
        for name, variants in settings(options.folder, options.only).items():
            program, build = builds[name]
            if build.wait() != 0:
                sys.exit(f"{name} does not compile")
            done = subprocess.run([program, str(len(variants))], capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{name}: {done.stderr}")
            rows = dict(zip(variants, json.loads(done.stdout.replace("nan", "NaN"))))
            for variant, row in rows.items():
                wrong = "" if row["difference"] < 1e-3 else "  DIFFERS from the first variant"
                print(f"{name:14} {variant:20} {row['cold_us']:10.2f} us cold {row['warm_us']:10.2f} us warm"
                      f"{wrong}", flush=True)
            result["settings"][name] = rows
    pathlib.Path(options.measure).write_text(json.dumps(result, indent=1) + "\n")


def ranks(values):
    """Ranks of the values; equal values get the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    result, i = [0.0] * len(values), 0
    while i < len(order):
        j = i
        while j + 1 < len(order) and values[order[j + 1]] == values[order[i]]:
            j += 1
        for k in range(i, j + 1):
            result[order[k]] = (i + j) / 2
        i = j + 1
    return result


def spearman(a, b):
    a, b = ranks(a), ranks(b)
    mean = (len(a) - 1) / 2
    top = sum((x - mean) * (y - mean) for x, y in zip(a, b))
    bottom = (sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b)) ** 0.5
    return top / bottom if bottom else 0.0


def overhead(row, kind):
    """The events' share of a cold time. An empty kernel takes EMPTY_US of the time between them."""
    return row["empty_us"] - EMPTY_US if kind == "cold" else 0


def compare(options):
    estimates, times = (json.loads(pathlib.Path(f).read_text()) for f in options.compare)
    print(f"estimated for {estimates['model']}, measured on {times['device']}, {options.kind} L2")
    rhos = []
    for name, rows in estimates["settings"].items():
        measured = times["settings"].get(name, {})
        common = [v for v in rows if v in measured]
        if len(common) < MIN_VARIANTS:
            print(f"{name:14} left out: {len(common)} variants")
            continue
        mine = [rows[v]["us"] for v in common]
        theirs = [measured[v][options.kind + "_us"] - overhead(measured[v], options.kind) for v in common]
        rhos.append(spearman(mine, theirs))
        print(f"{name:14} rho {rhos[-1]:6.3f}")
        for variant, estimated, us in sorted(zip(common, mine, theirs), key=lambda row: row[2]):
            print(f"    {variant:20} measured {us:9.2f} us   estimated {estimated:9.2f} us   "
                  f"x{estimated / us:.2f}   {rows[variant]['bound']}")
    if not rhos:
        sys.exit("nothing to compare")
    print(f"mean rho over {len(rhos)} settings: {sum(rhos) / len(rhos):.3f}")


def spread(options):
    for name, rows in json.loads(pathlib.Path(options.spread).read_text())["settings"].items():
        groups = {}
        for variant, row in rows.items():
            groups.setdefault(variant.split("_")[0], {})[variant] = row["us"]
        for group, us in groups.items():
            print(f"{name:14} {group:8} x{max(us.values()) / min(us.values()):.2f}   " +
                  ", ".join(f"{variant} {time:.2f} us" for variant, time in us.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--estimate", metavar="FILE")
    parser.add_argument("--measure", metavar="FILE")
    parser.add_argument("--compare", nargs=2, metavar=("ESTIMATES", "TIMES"))
    parser.add_argument("--spread", metavar="ESTIMATES")
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER)
    parser.add_argument("--only", nargs="*", default=[], help="settings (default: all)")
    parser.add_argument("--cupel", default=FOLDER.parent.parent / "build" / "cupel")
    parser.add_argument("--model", default="h200")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--kind", choices=("cold", "warm"), default="cold")
    options = parser.parse_args()
    if options.estimate:
        estimate_all(options)
    if options.measure:
        measure_all(options)
    if options.compare:
        compare(options)
    if options.spread:
        spread(options)


if __name__ == "__main__":
    main()
