# Cases whose inputs have another distribution (distributions.py), or why there is none: draws them, and
# finds their error scale. Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
import random
import time

import torch

import float64_place
import memory_limit
from carried_integers import Carried
from case_file import write_case
from distribution_checks import Inapplicable, check_applicable
from distributions import LAYOUTS, OF_ANY, TINY, WAYS, Spread
from draw_base import Draw
from error_scale import (
    EQUAL_TERMS,
    MOST_OF_EQUAL_TERMS,
    PEAK_SHARE,
    float32_share,
    flush_errors,
    least_error,
    own_share,
    squares,
)
from loaded_task import Task
from oracle_types import Json, Report
from task_code import seed_from
from task_error import describe
from tensor_values import Noise, Outputs, is_float, leaves, roundoff

SCALE_DRAWS = 4  # draws pooled for E
LARGE_OUTPUT, LARGE_INPUT = 1 << 19, 1 << 22  # elements; one draw of more is a good sample
GOOD_SAMPLE = 1 << 8  # outputs, if the inputs are large
ATTEMPTS = 3  # draws of a case until one is applicable
STEEP = 2.0 ** -10  # far below zero, rounding of the inputs may change a result by this share at most
STEEP_ELEMENT = 2.0 ** -14  # the same for a single element, if there are products, as a share of all elements' RMS
# Inputs whose products are sums of terms of one sign. Rounding of large partial sums moves them by more than rounding
# of the inputs: a softmax of large scores depends on it where two of them nearly tie.
OF_ONE_SIGN = ("uniform", "offset", "one_offset", "negative", "huge_offset", "extremes", "large")
# Rounding error allowed in a result, in units of its roundoff. Terms of one sign make sums grow. Equal
# terms are rounded the same way each time, so errors that usually cancel add up: a correct kernel may
# sum 16384 equal numbers serially.
ROUNDINGS = {**dict.fromkeys(OF_ONE_SIGN, 16), "heavy": 64, "constant": EQUAL_TERMS, "zeros": EQUAL_TERMS,
             "denormals": EQUAL_TERMS}
# Sums of equal terms move by more than the random changes that show conditioning: a normalisation of equal numbers
# divides the error of their mean by a small number.
CONDITIONING = {"constant": EQUAL_TERMS / 4}
# Rounding of intermediate results that are larger than the result: exp(x) - 1 near zero. In units of float32's
# roundoff, as a share of the result for the task's own numbers.
INTERMEDIATE = 1 / 8
MOST_INTERMEDIATE = 2.0 ** -14  # of the result: functions that only get smaller faster must not pass as zeros
SAME = 2.0 ** -20  # relative difference of results that only a factor distinguishes
LEAST_ROUNDING = MOST_OF_EQUAL_TERMS  # limit of errors above 4 units, since sums are computed in float32


def rounding(kind: str, dtype: torch.dtype) -> float:
    """The relative error that rounding may cause."""
    u = roundoff(dtype)
    return max(least_error(dtype), min(ROUNDINGS.get(kind, 0) * u, LEAST_ROUNDING))


def is_large(draw: Draw) -> bool:
    """True if one draw of such a call is a good sample of its errors."""
    taken = sum(v.numel() for v in leaves(draw.args) if is_float(v))
    given = sum(t.numel() for t in draw.reference() if t is not None)
    return given > LARGE_OUTPUT or (taken > LARGE_INPUT and given >= GOOD_SAMPLE)


def note_carried(task: Task, init: Json, inputs: Json, draw: Draw) -> None:
    """Remembers which numbers of a setting's calls the reference converts to integers, from a draw of the task's own
    numbers."""
    task.carried.setdefault(json.dumps([init, inputs], sort_keys=True), draw.trace.carried)


def carried_of(task: Task, init: Json, inputs: Json) -> Carried:
    """Which numbers of a setting's calls the reference converts to integers."""
    key = json.dumps([init, inputs], sort_keys=True)
    if key not in task.carried:
        try:
            draw = task.draw(seed_from("carried integers|" + key), init, inputs)
            draw.reference()
        except Exception as error:
            if memory_limit.is_exceeded(error):
                raise
            raise Inapplicable("the reference fails: " + describe(error, task.path)[:300]) from error
        note_carried(task, init, inputs, draw)
    return task.carried[key]


def spread_of(task: Task, init: Json, inputs: Json, kind: str, values: str, keeps_unsigned: bool, seed: int) -> Spread:
    """The replacement of a draw's tensors; of one of them, drawn by the seed, for a kind of OF_ANY."""
    carried = carried_of(task, init, inputs)
    spread = Spread(kind, values, keeps_unsigned, carried)
    if kind not in OF_ANY:
        return spread
    key = json.dumps([init, inputs, kind], sort_keys=True)
    if key not in task.movable:
        task.draw(seed, init, inputs, spread)
        task.movable[key] = spread.movable
    movable = task.movable[key]
    if len(movable) < (2 if kind == "one_offset" else 1):
        raise Inapplicable("it replaces one of several tensors, and the call has %d that can be replaced" % len(movable))
    return Spread(kind, values, keeps_unsigned, carried, random.Random(seed).choice(movable))


def intermediate_errors(tiny: Outputs, usual: Outputs) -> list[float]:
    """For each output of inputs scaled down: the error that rounding may cause in intermediate results as large as
    for the task's own inputs. 0 if the function only scales its result, since its intermediate results then are
    small, too."""
    found = []
    for t, u in zip(tiny, usual):
        (small, count, _), (large, _, _) = ((0.0, 0, 0.0),) * 2 if t is None else (squares(t), squares(u))
        if not (small > 0 and large > 0 and t.is_floating_point()):
            found.append(0.0)
            continue
        power = round(math.log(small / large, TINY) / 2)
        scaled = squares(t, u * TINY ** power)[0] <= SAME ** 2 * small
        error = INTERMEDIATE * roundoff(torch.float32) * math.sqrt(large / count)
        found.append(0.0 if scaled else min(error, MOST_INTERMEDIATE * math.sqrt(small / count)))
    return found


class Answer:
    """One draw of the distribution with both results, and the truth of perturbed inputs."""

    def __init__(self, task: Task, init: Json, inputs: Json, kind: str, seed: int) -> None:
        self.kind, refusals = kind, []
        self.intermediate = []  # for each output, if the inputs are scaled down: see intermediate_errors
        for values, keeps_unsigned in WAYS.get(kind, [(kind, False)]):
            try:
                spread = spread_of(task, init, inputs, kind, values, keeps_unsigned, seed)
                self.compute(task, init, inputs, spread, seed)
                return
            except Inapplicable as refusal:
                refusals.append(refusal)
            except float64_place.Trouble:
                raise
            except Exception as error:
                if memory_limit.is_exceeded(error):
                    raise  # this depends on the machine, not on the task
                refusals.append(Inapplicable("the reference fails: " +
                                             describe(error, task.path)[:300]))
        raise refusals[0]

    def compute(self, task: Task, init: Json, inputs: Json, spread: Spread, seed: int) -> None:
        self.draw = task.draw(seed, init, inputs, spread)
        if spread.keeps_unsigned and not spread.kept:
            raise Inapplicable("no tensor has numbers of only one sign")  # same as the previous way
        self.reference, self.truth = self.draw.reference(), self.draw.truth()
        check_applicable(self.kind, spread, self.draw, self.reference, self.truth, seed)
        lines = self.kind in OF_ONE_SIGN and self.draw.trace.has_products
        self.perturbed = self.draw.truth(Noise(seed, lines=lines))
        if self.kind == "tiny":
            self.intermediate = intermediate_errors(self.truth, task.draw(seed, init, inputs).truth())
        if spread.values == "far_below" and self.is_steep():
            raise Inapplicable("rounding changes the result too much")

    def is_steep(self) -> bool:
        share, products = float32_share(self.draw), self.draw.trace.has_products
        for p, t, r in zip(self.perturbed, self.truth, self.reference):
            if t is None or not t.is_floating_point():
                continue
            (change, _, largest), (size, count, _) = squares(p, t), squares(t)
            if share ** 2 * change > STEEP ** 2 * size:
                return True
            if not products:
                continue
            # PyTorch's own error is that of its products, unless the result is rounded to a shorter type.
            own = squares(r, t)[2] if roundoff(r.dtype) <= roundoff(torch.float32) else 0.0
            if max(share * largest, own) > STEEP_ELEMENT * math.sqrt(size / max(count, 1)):
                return True
        return False

    def errors(self) -> list[tuple[float, float, float, float] | None]:
        """For each output: RMS of (PyTorch's error, effect of inputs perturbed as if they were float32,
        rounding), and the largest error of all three. None for outputs that must be exact."""
        found, share = [], float32_share(self.draw)
        # What fails on denormal numbers alone is a limit, which says that the kernel flushes them.
        allowed = [0.0] * len(self.truth) if self.kind == "denormals" else flush_errors(self.draw, self.truth)
        for i, (r, t, p) in enumerate(zip(self.reference, self.truth, self.perturbed)):
            if r is None or not r.is_floating_point():
                found.append(None)
                continue
            relative = rounding(self.kind, r.dtype)
            sums = [squares(r, t), squares(p, t), squares(t)]
            own, perturbed, size = (math.sqrt(s / count) if count else 0.0 for s, count, _ in sums)
            part = own_share(self.draw, own, sums[0][2], size, r)
            peak = max(factor * largest for factor, (_, _, largest) in zip((part, share, relative), sums))
            rounded = max(relative * size, self.intermediate[i] if self.intermediate else 0.0)
            moved = CONDITIONING.get(self.kind, 1) * share * perturbed
            found.append((part * own, moved, rounded, max(peak, allowed[i] * PEAK_SHARE)))
        return found


def pooled_ratios(task: Task, init: Json, inputs: Json, kind: str, report: Report) -> list[float]:
    """For each output, PyTorch's own error relative to the error that conditioning and rounding explain,
    pooled over draws that depend on the setting only. A ratio, because draws of one distribution may
    differ in size by orders of magnitude."""
    key = json.dumps([init, inputs, kind], sort_keys=True)
    if key in task.scales:
        return task.scales[key]
    sums, done, refusals = None, 0, []
    wanted = 1 if kind == "integers" else SCALE_DRAWS  # integers are judged without E
    for i in range(SCALE_DRAWS + ATTEMPTS - 1):
        if done >= wanted or (not done and len(refusals) >= ATTEMPTS):
            break
        seed = seed_from("error scale|%s|%s|%d" % (task.hash, key, i))
        try:
            answer = Answer(task, init, inputs, kind, seed)
        except Inapplicable as error:
            refusals.append(error)
            continue
        errors = answer.errors()
        sums = sums or [[0.0, 0.0] for _ in errors]
        for s, e in zip(sums, errors):
            if e is not None:
                s[0] += e[0] ** 2
                s[1] += max(e[1], e[2]) ** 2
        done += 1
        if is_large(answer.draw):
            wanted = 1
        report("error scale of %s inputs, draw %d of %d" % (kind, done, wanted))
    if not done:
        raise refusals[0]
    task.scales[key] = [max(1.0, math.sqrt(s[0] / s[1])) if s[1] > 0 else 1.0 for s in sums]
    return task.scales[key]


def scales_of(answer: Answer, ratios: list[float]) -> list[float]:
    """E of this case, and its conditioning (docs/judging.md)."""
    scales, conditions = [], []
    for e, ratio in zip(answer.errors(), ratios):
        own, perturbed, rounded, peak = e or (0.0, 0.0, 0.0, 0.0)
        scales.append(max(own, ratio * max(perturbed, rounded), peak / PEAK_SHARE))
        conditions.append(perturbed)
    return scales + conditions


def applicable_answer(task: Task, init: Json, inputs: Json, kind: str, seed: int) -> Answer:
    """The Answer of the case's own seed, or of a seed derived from it."""
    for attempt in range(ATTEMPTS):
        try:
            return Answer(task, init, inputs, kind, seed)
        except Inapplicable as error:
            refusal = error
        seed = seed_from("another draw|%d|%d" % (seed, attempt))
    raise refusal


def make_case(task: Task, request: Json, folders: list[str], name: str, report: Report) -> Json:
    """A case of another distribution, or why it does not apply. `lasting`: it applies for no seed."""
    started, ratios, draws = time.time(), request.get("scales"), 0
    kind, init, inputs = request["distribution"], request["init"], request["inputs"]
    answer, refusal = None, ""
    try:
        answer = applicable_answer(task, init, inputs, kind, request["seed"])
    except Inapplicable as error:
        refusal = str(error)
    drawn = time.time()
    if not ratios and answer is not None and is_large(answer.draw):
        ratios = [1.0] * len(answer.truth)  # its own errors are a good sample
    if not ratios:
        draws = SCALE_DRAWS
        try:
            # A layout does not change the numbers, so it has the usual error scale.
            ratios = pooled_ratios(task, init, inputs, "usual" if kind in LAYOUTS else kind, report)
        except Inapplicable as error:
            return {"inapplicable": str(error), "lasting": True}
    scaled = time.time()
    if answer is None:
        return {"inapplicable": refusal, "lasting": False}
    report("case computed")
    reply = write_case(task, request, folders, name, answer.draw, answer.reference,
                       answer.truth, scales_of(answer, ratios))
    return dict(reply, scales=ratios, draws=draws, seconds=time.time() - scaled + drawn - started,
                scale_seconds=scaled - drawn)
