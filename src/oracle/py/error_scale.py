# The error scale E of each output (docs/judging.md): how far a correct kernel may be from the truth.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math

import torch

import float8
import float64_place
from draw_base import Draw
from loaded_task import Task
from oracle_types import Json, Report
from steady_draws import steady_draw
from task_code import seed_from
from tensor_values import Noise, Outputs, flushed, has_subnormals, is_float, leaves, roundoff, step_of

SCALE_DRAWS = 8  # draws pooled for E, fewer for huge outputs or inputs
HUGE_OUTPUTS = 1 << 25  # elements, of which the draw of a case is sample enough
# Elements of inputs, and how many times those of the outputs, from which on SAMPLE outputs are a good sample.
LARGE_INPUTS, MUCH_LARGER, SAMPLE = 1 << 22, 16, 1 << 16
RMS_FACTOR, MAX_FACTOR = 16, 128  # of E: the tolerance of the RMS error and of the largest error
ROUNDING_FACTOR = 4  # of the part of E that is the rounding of a 16-bit result, in place of RMS_FACTOR
PEAK_SHARE = MAX_FACTOR // 4  # a kernel may exceed the largest of PyTorch's own errors fourfold
FLOAT8_ALLOWED, FLOAT8_SPREAD = 1.5, 3  # see own_share
ABSURD, MUCH_LESS = 2.0 ** -6, 2.0 ** 8  # a change of the output by inputs moved by 2^-22, and a usual one
FLUSH_MARGIN, MOST_FLUSHED = 1.25, 2.0 ** -100  # of a larger change, the function is to blame: a sign
FLOAT8_IGNORED = 2.0 ** -9  # of the output's scale
# A sum of equal numbers is rounded the same way in each step, so the errors add up: in units of the roundoff, at most.
EQUAL_TERMS, MOST_OF_EQUAL_TERMS = 256, 2.0 ** -16


def squares(a: torch.Tensor, b: torch.Tensor | None = None) -> tuple[float, int, float]:
    """(sum of squares of a-b over finite elements, their number, the largest magnitude). If `a` is float8,
    without its own rounding. Works in chunks to limit memory."""
    a = a.detach().reshape(-1)
    b = None if b is None else b.detach().reshape(-1)
    place = float64_place.place_of(a, b)
    total, count, largest = 0.0, 0, 0.0
    with place.work():
        for start in range(0, a.numel(), place.chunk):
            end = start + place.chunk
            d = place.put(a[start:end])
            if b is not None:
                other = place.put(b[start:end]).to(torch.float64)
                d = float8.nearest(d, other) if float8.is_float8(d.dtype) else d
                d = d.to(torch.float64) - other
            d = d.to(torch.float64)
            part = float(d.dot(d))
            if not math.isfinite(part):
                d = d[torch.isfinite(d)]
                part = float(d.dot(d))
            count += d.numel()
            total += part
            if d.numel():
                low, high = torch.aminmax(d)
                largest = max(largest, -float(low), float(high))
    return total, count, largest


def rms(a: torch.Tensor) -> float:
    total, count, _ = squares(a)
    return math.sqrt(total / count) if count else 0.0


def float32_share(draw: Draw) -> float:
    """Inputs are moved by the step of their own types (step_of). Returns the step of float32 as a share of the
    largest of these steps; at most 1."""
    types = {v.dtype for v in leaves(draw.args) if is_float(v)}
    return min([1.0] + [step_of(torch.float32) / step_of(t) for t in types])


def least_error(dtype: torch.dtype) -> float:
    """The lower limit of E as a share of the output's scale: 4u. For 16-bit types u/2, because their
    kernels compute in float32 and round once; 4u of 16-bit types would accept 8-bit floats. Float8 counts
    as float16, since its own rounding is left out of errors."""
    u = roundoff(torch.float16 if float8.is_float8(dtype) else dtype)
    return 4 * u if u <= roundoff(torch.float32) else u / 2


def rounding_reserve(dtype: torch.dtype, size: float) -> float:
    """What E needs in addition, if a 16-bit result of RMS `size` is to have RMS_FACTOR times E as the limit of its RMS
    error: the part of E that is its rounding has the smaller factor ROUNDING_FACTOR."""
    if dtype not in (torch.float16, torch.bfloat16):
        return 0.0
    return (1 - ROUNDING_FACTOR / RMS_FACTOR) * least_error(dtype) * size


def own_share(draw: Draw, own: float, largest: float, size: float, output: torch.Tensor) -> float:
    """The share of PyTorch's own error that E takes, for an output with RMS error `own`, largest error `largest`
    and RMS `size`. If the reference rounds to float8, which the truth does not, most
    of PyTorch's error is that rounding. A kernel repeats it, but makes no larger error, so the limit of the RMS error
    is 1.5 times PyTorch's error, and more if few elements make most of the error, since it then varies."""
    if not draw.trace.rounds_to_float8 or own == 0:
        return 1.0
    allowed = FLOAT8_ALLOWED + FLOAT8_SPREAD * largest / own / math.sqrt(max(output.numel(), 1))
    least = allowed / RMS_FACTOR + rounding_reserve(output.dtype, size) / own
    return min(1.0, max(least, FLOAT8_IGNORED * size / own))


def flush_errors(draw: Draw, truth: Outputs) -> list[float]:
    """For each output: E that allows the effect of zeros instead of subnormal arguments. GPUs may flush them, and a
    result may be larger than the argument."""
    if not has_subnormals(draw.args):
        return [0.0] * len(truth)
    found = []
    for f, t, r in zip(draw.truth(flushed), truth, draw.reference()):
        total, count, largest = squares(f, t) if is_float(t) else (0.0, 0, 0.0)
        if total == 0 or largest > MOST_FLUSHED:
            found.append(0.0)
            continue
        needed = max(math.sqrt(total / count) / RMS_FACTOR, largest / MAX_FACTOR)
        found.append(FLUSH_MARGIN * needed + rounding_reserve(r.dtype, rms(t)))
    return found


def has_equal_numbers(draw: Draw) -> bool:
    """True if an argument is one number, expanded: the gradient of a sum."""
    return any(is_float(v) and v.numel() > 1 and all(s == 0 or n == 1 for n, s in zip(v.shape, v.stride()))
               for v in leaves(draw.args))


def perturbed_truth(draw: Draw, truth: Outputs, seed: int) -> Outputs:
    """The truth of inputs moved by Noise. If that changes an output entirely, an operation may have made
    integers of numbers of the inputs, unseen by the trace (RoI operators). If the output hardly changes when
    whole numbers stay, they are such integers."""
    perturbed = draw.truth(Noise(seed))
    if not changes_by(ABSURD, perturbed, truth):
        return perturbed
    try:
        draw.keeps_whole_numbers = True
        kept = draw.truth(Noise(seed))
    finally:
        draw.keeps_whole_numbers = False
    return perturbed if changes_by(ABSURD / MUCH_LESS, kept, truth) else kept


def changes_by(share: float, moved: Outputs, truth: Outputs) -> bool:
    """True if the RMS change of an output is larger than this share of its RMS."""
    for m, t in zip(moved, truth):
        if t is not None and t.is_floating_point() and squares(m, t)[0] > share ** 2 * squares(t)[0]:
            return True
    return False


def error_scales(task: Task, init: Json, inputs: Json, report: Report,
                 own: tuple[int, Draw, Outputs]) -> tuple[list[float], int]:
    """E of each output (docs/judging.md), and the number of separate draws that it comes from, so that it does not
    vary with the trials. Of outputs so large that one draw is enough, `own` is that draw (the seed, the draw of a
    case, and its truth), E is for this case only, and the number is 0.
    E is the maximum of: PyTorch's pooled RMS error, the RMS effect of perturbed inputs (as if they were
    float32), the least error, and a share of the largest of all these. The returned list then has the
    second term of each output, the conditioning."""
    key = json.dumps([init, inputs], sort_keys=True)
    if key in task.scales:
        return task.scales[key]
    sums, flush, draws = None, [], enough_draws(own[1])
    for i in range(draws):
        if draws == 1:
            seed, draw, truth = own
        else:
            seed = seed_from("error scale|%s|%s|%d" % (task.hash, key, i))
            draw, truth = steady_draw(task, seed, init, inputs)
        reference, perturbed = draw.reference(), perturbed_truth(draw, truth, seed)
        sums = sums or [[0.0] * 9 for _ in reference]
        for s, r, t, p in zip(sums, reference, truth, perturbed):
            if r is None or not r.is_floating_point():
                continue
            for j, (a, b) in enumerate(((r, t), (p, t), (t, None))):
                total, count, largest = squares(a, b)
                s[3 * j] += total
                s[3 * j + 1] += count
                s[3 * j + 2] = max(s[3 * j + 2], largest)
        flush = [max(pair) for pair in zip(flush or [0.0] * len(truth), flush_errors(draw, truth))]
        report("error scale, draw %d of %d" % (i + 1, draws))
    scales, conditions = [], []
    for s, r, flush_error in zip(sums, reference, flush):
        if r is None or not r.is_floating_point():
            scales.append(0.0)
            conditions.append(0.0)
            continue
        own, perturbed, size = (math.sqrt(s[j] / s[j + 1]) if s[j + 1] else 0.0 for j in (0, 3, 6))
        share, least = float32_share(draw), least_error(r.dtype)
        if has_equal_numbers(draw):
            least = max(least, min(EQUAL_TERMS * roundoff(r.dtype), MOST_OF_EQUAL_TERMS))
        perturbed *= share
        part = own_share(draw, own, s[2], size, r)
        peak = max(part * s[2], share * s[5], least * s[8])
        scales.append(max(part * own, perturbed, least * size, peak / PEAK_SHARE, flush_error))
        conditions.append(perturbed)
        if part < 1:
            task.warn("the reference rounds to float8, which changes the result by a relative %.1g; the "
                      "tolerance follows it" % (own / size if size else math.inf))
        elif own > 2048 * roundoff(r.dtype) * size and own > perturbed:
            task.warn("PyTorch's own result differs from the float64 truth by %.1g (relative %.1g); the "
                      "tolerance follows it" % (own, own / size if size else math.inf))
    if draws == 1:
        return scales + conditions, 0
    task.scales[key] = (scales + conditions, draws)
    return task.scales[key]


def enough_draws(draw: Draw) -> int:
    """SCALE_DRAWS, or fewer if the outputs are so large that fewer draws are a good sample, or if the inputs are so
    much larger than the outputs that drawing them takes most of the time."""
    sizes = [o.numel() for o in draw.reference() if o is not None and o.is_floating_point()]
    total = sum(sizes)
    if not sizes or min(sizes) < 1 << 11:
        return SCALE_DRAWS
    if total >= HUGE_OUTPUTS:
        return 1
    given = sum(v.numel() for v in leaves(draw.args) if isinstance(v, torch.Tensor))
    if given > max(LARGE_INPUTS, MUCH_LARGER * total):
        return min(SCALE_DRAWS, max(2, -(-SAMPLE // min(sizes))))
    if SCALE_DRAWS * total <= 1 << 24:
        return SCALE_DRAWS
    return max(2, -(-(1 << 24) // total))
