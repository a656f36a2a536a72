#!/usr/bin/env python3
"""Fits the model that kernels/mnist_conv_relu_pool/forward/kernel.cu uses to choose its tile.

    bench/fit/conv_relu_pool.py make DIR        a task of many sizes, and a variant for each tile
    cupel bench DIR/way*.cu --task DIR/task --settings multi --baselines none --json FILE
    bench/fit/conv_relu_pool.py fit FILE [--sms 132]

A way is one value of the kernel's tunable kWay. `make` writes one variant per way, like the built-in
tuner. `fit` prints the table kWays, and how much longer the chosen way takes than the best one: on the
sizes that the constants are fitted to, and on each size when it is left out of the fit. The model
(`features`) repeats that of the kernel's host code: keep the two equal. Needs NumPy.
"""
import argparse
import itertools
import json
import math
import pathlib
import re
import shutil
import statistics
import sys

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
TASK = "mnist_conv_relu_pool"
WAYS = [(True, 2, 0), (True, 4, 0), (True, 8, 0),
        (False, 16, 16), (False, 32, 16), (False, 64, 16),
        (False, 16, 32), (False, 32, 32), (False, 64, 32)]
SIZES = {
    "multi_input_configs": [{"batch_size": 64, "height": 28, "width": 28},
                            {"batch_size": 64, "height": 13, "width": 13},
                            {"batch_size": 8, "height": 56, "width": 56}],
    "multi_init_configs": [{"out_channels": 32, "kernel_size": 3, "init_method": "kaiming"},
                           {"out_channels": 64, "kernel_size": 3, "init_method": "kaiming"}],
    "multi_shared_configs": [{"in_channels": c} for c in (1, 4, 16, 32)],
}


def make(folder):
    task = folder / "task"
    task.mkdir(parents=True)
    shutil.copy(ROOT / "tasks" / TASK / "func_forward.py", task)
    config = json.loads((ROOT / "tasks" / TASK / "config_forward.json").read_text())
    (task / "config_forward.json").write_text(json.dumps({**config, **SIZES}, indent=2) + "\n")
    source = (ROOT / "kernels" / TASK / "forward" / "kernel.cu").read_text()
    for way in range(1, len(WAYS) + 1):
        variant, count = re.subn(r"(constexpr int kWay = )\d+;", rf"\g<1>{way};", source)
        assert count == 1, "the kernel has no tunable kWay"
        (folder / f"way{way}.cu").write_text(variant)


def divide_up(a, b):
    return -(-a // b)


def features(way, size, sms):
    """The factors of a way's constants in the model; None if the way does not support the size."""
    is_direct, filters, tile = way
    batch, channels, out_channels = size["batch_size"], size["in_channels"], size["out_channels"]
    kernel = size["kernel_size"]
    out_height = (size["height"] - kernel + 1) // 2
    out_width = (size["width"] - kernel + 1) // 2
    windows = out_height * out_width
    if is_direct:
        steps = channels * kernel * kernel
        groups = divide_up(out_channels, filters)
        columns = divide_up(windows, divide_up(windows, 256))
        blocks = batch * divide_up(windows, columns)
        layers = min(groups, 256 // columns)
        while layers > 1 and blocks * divide_up(groups, layers) < sms:
            layers = (layers + 1) // 2
        rows = min(out_height, (columns + out_width - 2) // out_width + 1) * 2 + kernel - 1
        shared = (layers * filters * steps + channels * rows * size["width"]) * 4
        if shared > 48 * 1024:
            return None
        blocks *= divide_up(groups, layers)
        resident = min(16, 2048 // (columns * layers))
    else:
        steps = divide_up(channels, 16) * kernel * kernel
        least, strip = None, None
        for width in range(min(out_width, 32), min(out_width, 4) - 1, -1):
            tiles = divide_up(out_width, width) * divide_up(width * out_height, tile)
            if least is None or tiles < least:
                least, strip = tiles, width
        pitch = strip * 2 + kernel - 1
        rows = min(out_height, (tile + strip - 2) // strip + 1) * 2 + kernel - 1
        shared = rows * pitch * 132 + 3 * 3 * filters * 64
        if shared > 110 * 1024:
            return None
        resident = 3 if filters < 64 else 2
        blocks = batch * divide_up(out_channels, filters) * least
    resident = min(resident, 227 * 1024 // (shared + 1024))
    waves = divide_up(blocks, sms * resident)
    of_sm = blocks / sms
    return [1, waves * steps, of_sm * steps, of_sm]


def fit(rows, times):
    """Non-negative constants with the least squares of the relative error."""
    x = numpy.array(rows, float) / numpy.array(times)[:, None]
    best = None
    for count in range(1, x.shape[1] + 1):
        for columns in itertools.combinations(range(x.shape[1]), count):
            found, *_ = numpy.linalg.lstsq(x[:, columns], numpy.ones(len(times)), rcond=None)
            if (found < 0).any():
                continue
            error = ((x[:, columns] @ found - 1) ** 2).sum()
            if best is None or error < best[0] - 1e-12:
                constants = numpy.zeros(x.shape[1])
                constants[list(columns)] = found
                best = (error, constants)
    return best[1]


def read(path):
    """Reads {way: {sizes as text: us}} and {sizes as text: sizes} from a cupel.bench/1."""
    measured, sizes = {}, {}
    for setting in json.loads(path.read_text())["settings"]:
        text = setting["description"]
        sizes[text] = {k: int(v) for k, v in (pair.split("=") for pair in text.split()) if v.isdigit()}
        for timing in setting.get("timings", []):
            way = re.search(r"way(\d+)\.cu$", timing["name"])
            if way and timing.get("us") and not timing.get("refused"):
                measured.setdefault(int(way[1]), {})[text] = timing["us"]["estimate"]
    return measured, sizes


def regret(constants, measured, sizes, among, sms):
    """For each size: the time of the chosen way divided by the time of the best way, and both ways."""
    ratios = {}
    for text in among:
        able = {w: features(WAYS[w - 1], sizes[text], sms) for w in constants}
        able = {w: f for w, f in able.items() if f is not None and text in measured.get(w, {})}
        chosen = min(able, key=lambda w: float(numpy.dot(constants[w], able[w])))
        best = min(able, key=lambda w: measured[w][text])
        ratios[text] = (measured[chosen][text] / measured[best][text], chosen, best)
    return ratios


def fit_all(measured, sizes, among, sms):
    constants = {}
    for number, way in enumerate(WAYS, 1):
        texts = [t for t in among if t in measured.get(number, {}) and features(way, sizes[t], sms)]
        if texts:
            constants[number] = fit([features(way, sizes[t], sms) for t in texts],
                                    [measured[number][t] for t in texts])
    return constants


def mean(ratios):
    return math.exp(statistics.fmean(math.log(r) for r, *_ in ratios))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("make").add_argument("folder", type=pathlib.Path)
    of_run = commands.add_parser("fit")
    of_run.add_argument("bench", type=pathlib.Path)
    of_run.add_argument("--sms", type=int, default=132)
    options = parser.parse_args()
    if options.command == "make":
        return make(options.folder)

    measured, sizes = read(options.bench)
    missing = [w for w in range(1, len(WAYS) + 1) if not measured.get(w)]
    if missing:
        sys.exit(f"{options.bench}: no times for kWay = {missing}")
    among = sorted(sizes)
    constants = fit_all(measured, sizes, among, options.sms)
    for number, (is_direct, filters, tile) in enumerate(WAYS, 1):
        values = ", ".join(f"{v:.4g}f" for v in constants[number])
        print(f"    {{{str(is_direct).lower()}, {filters}, {tile}, {values}}},  // {number}")
    inside = regret(constants, measured, sizes, among, options.sms)
    outside = {}
    for text in among:
        others = fit_all(measured, sizes, [t for t in among if t != text], options.sms)
        outside.update(regret(others, measured, sizes, [text], options.sms))
    print(f"over the best way: {mean(inside.values()):.3f} (worst {max(inside.values())[0]:.2f}); "
          f"left out: {mean(outside.values()):.3f} (worst {max(outside.values())[0]:.2f})")
    for text in among:
        row = "  ".join(f"{measured[w][text]:7.2f}" if text in measured.get(w, {}) and
                        features(WAYS[w - 1], sizes[text], options.sms) else "      -"
                        for w in range(1, len(WAYS) + 1))
        print(f"{row}  chosen {inside[text][1]}, best {inside[text][2]} ({inside[text][0]:.2f})  {text}")


if __name__ == "__main__":
    sys.exit(main())
