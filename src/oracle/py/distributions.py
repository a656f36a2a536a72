# Inputs that a task does not draw itself: other distributions, special values and other layouts of
# every tensor of a call (docs/judging.md, "Other inputs"). Keeps structure that the operation may
# depend on: zeros among other numbers (triangles, masks), symmetric matrices, tensors of few different
# numbers (labels). Imported after PyTorch is loaded.
# SPDX-License-Identifier: Apache-2.0
import json
import math
import time

import torch

import float64_place
import float8
import memory_limit
import steady_draws
from case_file import write_case
from error_scale import PEAK_SHARE, float32_share, least_error, own_share, squares
from steady_draws import depends_on_rounding
from task_code import seed_from
from task_error import describe
from tensor_values import Noise, is_float, leaves, random_bits, roundoff

SCALE_DRAWS = 4  # draws pooled for E
LARGE_OUTPUT, LARGE_INPUT = 1 << 19, 1 << 22  # elements; one draw of more is a good sample
GOOD_SAMPLE = 1 << 8  # outputs, if the inputs are large
ATTEMPTS = 3  # draws of a case until one is applicable
EXTREME, EXTREMES = 1000.0, 8  # planted extremes: their factor, and the maximum number in a tensor
OFFSET, HUGE_OFFSET = 10.0, 1000.0  # standard deviations
TINY = 2.0 ** -10  # factor
FAR = 20.0  # factor: far below zero, the exponential of nearly every number is 0 in float32
STEEP = 2.0 ** -10  # far below zero, rounding of the inputs may change a result by this share at most
STRUCTURE_SHARE = 64  # zeros are structure if at least one of so many elements is zero
LABELS, PROBED = 8, 4096  # a tensor with at most LABELS different numbers contains labels
# The distance by which inputs are moved to find ties and kinks. Sums of zeros are exact, so zeros are
# moved by very little: an epsilon of 1e-8 makes a norm steep, not ambiguous.
MOVE, MOVE_ZEROS, MOVE_DENORMALS = 2.0 ** -20, 2.0 ** -40, 2.0 ** -146
EXACT_BOUND = 2.0 ** 22  # limit of every partial sum, in any order
EXACT_STEP = 2.0 ** -12  # results are multiples of this
# Rounding error allowed in a result, in units of its roundoff. Terms of one sign make sums grow. Equal
# terms are rounded the same way each time, so errors that usually cancel add up: a correct kernel may
# sum 16384 equal numbers serially.
ROUNDINGS = {"uniform": 16, "offset": 16, "negative": 16, "huge_offset": 16, "extremes": 16,
             "heavy": 64, "constant": 256, "zeros": 256}
LEAST_ROUNDING = 2.0 ** -16  # limit of errors above 4 units, since sums are computed in float32


class Inapplicable(Exception):
    """The distribution does not apply to the setting or to this draw. str() says why."""


# --- values ---------------------------------------------------------------------------------------


def offset(t, deviations):
    return t + deviations * float(t.std(unbiased=False))


def below(t, factor=1.0):
    """Makes all numbers negative: a maximum that starts at zero is then wrong."""
    return t if is_constant(t) else -factor * offset(t, -OFFSET).abs()


def heavy(t):
    """Student's t with three degrees of freedom."""
    chi_squared = sum(torch.randn(t.shape).square() for _ in range(3))
    return torch.randn(t.shape) / (chi_squared / 3).sqrt()


def places(t, count):
    """Secret indices into the flattened tensor."""
    return torch.randint(t.numel(), (count,))


def extremes(t):
    """Plants extremes at secret places, some at the ends of rows, where loops often have errors."""
    flat = t.flatten().clone()
    where = places(t, min(EXTREMES, max(1, t.numel() // 16)))
    width = t.shape[-1] if t.dim() else 1
    if len(where) == EXTREMES:
        where[:2] -= where[:2] % width
        where[2:4] += width - 1 - where[2:4] % width
    flat[where] *= EXTREME
    return flat.reshape(t.shape)


def strided_view(t):
    """A view of every second element of rows of twice the length. The other elements are NaN."""
    wide = torch.full(tuple(t.shape) + (2,), math.nan, dtype=t.dtype)
    view = wide[..., 0]
    view.copy_(t)
    return view


def shifted_view(t):
    """Contiguous, but one element after an aligned address."""
    view = torch.empty(t.numel() + 1, dtype=t.dtype)[1:].view(t.shape)
    return view.copy_(t)


# New values from a float64 copy of the task's own tensor, which they do not change, and its type.
VALUES = {
    "usual": lambda t, _: t,
    "integers": lambda t, _: torch.randint(-2, 3, t.shape),
    "tiny": lambda t, _: t * TINY,
    "normal": lambda t, _: torch.randn(t.shape),
    "uniform": lambda t, _: torch.rand(t.shape),
    "offset": lambda t, _: offset(t, OFFSET),
    "heavy": lambda t, _: heavy(t),
    "constant": lambda t, _: torch.randn(()).expand(t.shape),
    "zeros": lambda t, _: torch.zeros_like(t),
    "extremes": lambda t, _: extremes(t),
    "denormals": lambda t, dtype: t * (torch.finfo(dtype).tiny / 8),
    "huge_offset": lambda t, _: offset(t, HUGE_OFFSET),
    "below": lambda t, _: below(t),
    "far_below": lambda t, _: below(t, FAR),
}
# Kinds with several ways to draw, of which the first applicable one is used: the values, and whether
# tensors without a negative number (variances, probabilities) are kept.
WAYS = {"negative": [("far_below", False), ("far_below", True), ("below", False), ("below", True)]}
LAYOUTS = {"strided": strided_view, "shifted": shifted_view}
PLANTED = {"nan": math.nan, "infinity": math.inf}


def is_constant(t):
    flat = t.flatten()
    return all(bool((part == flat[0]).all()) for part in (flat[:PROBED], flat))


def holds_labels(t):
    """True if the tensor has a few different numbers, at least two: classes, signs, masks, one-hot."""
    flat = t.detach().flatten()
    if t.numel() <= 2 * LABELS:
        return bool((flat == flat.round()).all()) and not is_constant(t)
    probe = flat[::max(1, flat.numel() // PROBED)].unique()
    if len(probe) > LABELS:
        return False
    kept = torch.zeros(flat.shape, dtype=torch.bool)
    for number in probe:
        kept |= flat == number
    return bool(kept.all()) and not is_constant(t)


def with_structure_of(own, t):
    """`t` with the zeros and the symmetry of the task's own tensor. A constant tensor counts as without
    structure: it is an initial value, which must not stay constant."""
    if is_constant(own):
        return t
    if own.dim() >= 2 and own.shape[-1] == own.shape[-2] > 1:
        if torch.equal(own, own.transpose(-1, -2)):
            t = t.tril() + t.tril(-1).transpose(-1, -2)
    zeros = own.numel() - int(torch.count_nonzero(own))
    is_structure = STRUCTURE_SHARE * zeros >= own.numel()  # fewer zeros are by chance
    return t.masked_fill(own == 0, 0) if is_structure else t


def all_the_same(kind, t):
    """An integer tensor (classes, indices, counts) filled with one of its own numbers, a random one or
    the smallest, so that it stays valid. None if its numbers do not repeat, as in a permutation."""
    if kind not in ("constant", "zeros") or t.dtype == torch.bool or t.numel() < 2:
        return None
    flat = t.detach().flatten()
    if is_constant(flat) or flat.unique().numel() == flat.numel():
        return None
    number = flat.min() if kind == "zeros" else flat[places(flat, 1)[0]]
    return torch.empty_like(t).fill_(number)


class Spread:
    """Replaces the tensors of one draw, using PyTorch's seeded generator."""

    def __init__(self, kind, values, keeps_unsigned):
        self.kind, self.values, self.keeps_unsigned = kind, values, keeps_unsigned
        self.replaced = self.kept = 0  # tensors

    def __call__(self, value):
        if not isinstance(value, torch.Tensor):
            return value
        if not value.is_floating_point():
            made = all_the_same(self.kind, value)
            self.replaced += made is not None
            return value if made is None else made
        if value.numel() == 0 or value.dtype in float8.KEEPS.get(self.values, ()):
            return value
        value = value.detach()
        with torch.no_grad():
            if self.kind in LAYOUTS:
                self.replaced += 1
                return LAYOUTS[self.kind](value)
            if self.kind in PLANTED and (self.replaced or value.numel() < 2):
                return value  # only one tensor gets them: with more, the result shows nothing else
            own = value.double()  # old PyTorch lacks many operations in half precision
            if holds_labels(own):
                return value
            if self.keeps_unsigned and bool((own >= 0).all()):
                self.kept += 1
                return value
            self.replaced += 1
            if self.kind in PLANTED:
                flat = own.flatten().clone()
                flat[places(own, min(2, own.numel() // 16 + 1))] = PLANTED[self.kind]
                made = flat.reshape(own.shape)
            else:
                made = with_structure_of(own, VALUES[self.values](own, value.dtype))
            return float8.like(value, made)


# --- applicability --------------------------------------------------------------------------------


class Jitter:
    """Moves every element of a tensor by the same amount with a random sign, away from ties and kinks.
    Tensors of small numbers are moved by less."""

    def __init__(self, seed, move=MOVE):
        self.move = move
        self.generator = torch.Generator()
        self.generator.manual_seed(seed)

    def __call__(self, tensor):
        signs = random_bits(tensor, self.generator).mul_(2).sub_(1)
        return tensor + signs.mul_(self.move * self.scale_of(tensor))

    def scale_of(self, tensor):
        if self.move != MOVE:
            return 1.0  # other values of `move` already suit their kind of inputs
        total, count, _ = squares(tensor)
        return min(1.0, math.sqrt(total / count)) or 1.0 if count else 1.0


def largest_of(outputs):
    """The largest magnitude among finite elements."""
    largest = 0.0
    for t in outputs:
        if t is not None and t.numel():
            with float64_place.place_of(t).work():
                t = t.to(torch.float64).abs()
                largest = max(largest, float(t.masked_fill_(~torch.isfinite(t), 0).max()))
    return largest


def jumps(truth, moved, largest):
    """True if a result depends on how a tie is broken, or on the inputs' side of a kink. Elements that
    are not finite must be the same in both."""
    return any(t is not None and t.numel() and jumps_to(m, t, largest)
               for t, m in zip(truth, moved))


def jumps_to(moved, truth, largest):
    with float64_place.place_of(truth).work():
        if not truth.is_floating_point():
            return not torch.equal(truth, moved)
        finite = torch.isfinite(truth)
        if not same_where_not_finite(truth, moved, finite):
            return True
        change = (truth - moved).abs_().masked_fill_(~finite, 0)
        return not float(change.max()) <= 2.0 ** -10 * (1 + largest)


def same_where_not_finite(a, b, finite):
    if not torch.equal(finite, torch.isfinite(b)):
        return False
    if bool(finite.all()):
        return True
    a, b = a[~finite].double(), b[~finite].double()
    return torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(0), b.nan_to_num(0))


def is_multiple(reference, truth):
    """True if both are equal (without NaN) and multiples of EXACT_STEP."""
    with float64_place.place_of(truth).work():
        if not torch.equal(float64_place.to_place_of(reference, truth).to(truth.dtype), truth):
            return False
        return not reference.is_floating_point() or torch.equal(
            (truth / EXACT_STEP).round() * EXACT_STEP, truth)


def is_finite(tensor):
    with float64_place.place_of(tensor).work():
        return bool(torch.isfinite(tensor).all())


def is_exact(draw, reference, truth, seed):
    """True if any correct arithmetic gives these results exactly: float32 and float64 agree, no partial
    sum overflows the significand, and no result depends on how a tie is broken."""
    if not all(r is None or is_multiple(r, t) for r, t in zip(reference, truth)):
        return False
    bounds = [m for m in draw.truth(torch.abs) if m is not None and m.numel()]
    if not all(is_finite(m) for m in bounds):
        return False
    largest = largest_of(bounds)
    if not largest < EXACT_BOUND:
        return False
    return not any(jumps(truth, draw.truth(Jitter(seed + i)), largest) for i in range(2))


def check_finite(kind, reference, truth):
    rounded, reference = truth.to(reference.dtype).to(truth.dtype), float8.wide(reference)
    finite = torch.isfinite(rounded)
    if kind not in PLANTED and not bool(finite.all()):
        raise Inapplicable("the correct result is not finite")
    if not same_where_not_finite(rounded, reference, finite):
        raise Inapplicable("only one of PyTorch's own result and the correct result is not finite")


def check_applicable(kind, spread, draw, reference, truth, seed):
    """Raises Inapplicable if a correct kernel could differ, or if no tensor was replaced."""
    if not spread.replaced:
        raise Inapplicable("the call has no tensor to replace")
    if kind == "integers":
        if not is_exact(draw, reference, truth, seed & 0xFFFFFFFF):
            raise Inapplicable("the task is not exact on small integers")
        return
    for r, t in zip(reference, truth):
        if t is not None and t.is_floating_point():
            with float64_place.place_of(t).work():
                check_finite(kind, float64_place.to_place_of(r, t), t)
    if kind == "tiny":  # judged by the shadow values first, which detect other ties
        # Products are smaller by TINY than a bias that is added, and lose that many digits.
        moves = (steady_draws.MOVE, steady_draws.MOVE / TINY)
        if any(depends_on_rounding(draw, truth, seed, move) for move in moves):
            raise Inapplicable("a gradient depends on the sign of a number that is zero except for rounding")
        return
    move = {"zeros": MOVE_ZEROS, "denormals": MOVE_DENORMALS}.get(kind, MOVE)
    if jumps(truth, draw.truth(Jitter(seed & 0xFFFFFFFF, move)), largest_of(truth)):
        raise Inapplicable("the result jumps if the inputs change by 2^%d" % math.log2(move))


# --- cases ----------------------------------------------------------------------------------------


def rounding(kind, dtype):
    """The relative error that rounding may cause."""
    u = roundoff(dtype)
    return max(least_error(dtype), min(ROUNDINGS.get(kind, 0) * u, LEAST_ROUNDING))


class Answer:
    """One draw of the distribution with both results, and the truth of perturbed inputs."""

    def __init__(self, task, init, inputs, kind, seed):
        self.kind, refusals = kind, []
        for values, keeps_unsigned in WAYS.get(kind, [(kind, False)]):
            try:
                self.compute(task, init, inputs, Spread(kind, values, keeps_unsigned), seed)
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

    def compute(self, task, init, inputs, spread, seed):
        self.draw = task.draw(seed, init, inputs, spread)
        if spread.keeps_unsigned and not spread.kept:
            raise Inapplicable("no tensor has numbers of only one sign")  # same as the previous way
        self.reference, self.truth = self.draw.reference(), self.draw.truth()
        check_applicable(self.kind, spread, self.draw, self.reference, self.truth, seed)
        self.perturbed = self.draw.truth(Noise(seed))
        if spread.values == "far_below" and self.is_steep():
            raise Inapplicable("rounding of the inputs changes the result too much")

    def is_steep(self):
        share = float32_share(self.draw)
        for p, t in zip(self.perturbed, self.truth):
            if t is not None and t.is_floating_point():
                change, size = squares(p, t)[0], squares(t)[0]
                if share ** 2 * change > STEEP ** 2 * size:
                    return True
        return False

    def is_large(self):
        taken = sum(v.numel() for v in leaves(self.draw.args) if is_float(v))
        given = sum(t.numel() for t in self.truth if t is not None)
        return given > LARGE_OUTPUT or (taken > LARGE_INPUT and given >= GOOD_SAMPLE)

    def errors(self):
        """For each output: RMS of (PyTorch's error, effect of inputs perturbed as if they were float32,
        rounding), and the largest error of all three. None for outputs that must be exact."""
        found, share = [], float32_share(self.draw)
        for r, t, p in zip(self.reference, self.truth, self.perturbed):
            if r is None or not r.is_floating_point():
                found.append(None)
                continue
            relative = rounding(self.kind, r.dtype)
            sums = [squares(r, t), squares(p, t), squares(t)]
            own, perturbed, size = (math.sqrt(s / count) if count else 0.0 for s, count, _ in sums)
            part = own_share(self.draw, own, sums[0][2], size, r.numel())
            peak = max(factor * largest for factor, (_, _, largest) in zip((part, share, relative), sums))
            found.append((part * own, share * perturbed, relative * size, peak))
        return found


def pooled_ratios(task, init, inputs, kind, report):
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
        if answer.is_large():
            wanted = 1
        report("error scale of %s inputs, draw %d of %d" % (kind, done, wanted))
    if not done:
        raise refusals[0]
    task.scales[key] = [max(1.0, math.sqrt(s[0] / s[1])) if s[1] > 0 else 1.0 for s in sums]
    return task.scales[key]


def scales_of(answer, ratios):
    """E of this case, and its conditioning (docs/judging.md)."""
    scales, conditions = [], []
    for e, ratio in zip(answer.errors(), ratios):
        own, perturbed, rounded, peak = e or (0.0, 0.0, 0.0, 0.0)
        scales.append(max(own, ratio * max(perturbed, rounded), peak / PEAK_SHARE))
        conditions.append(perturbed)
    return scales + conditions


def applicable_answer(task, init, inputs, kind, seed):
    """The Answer of the case's own seed, or of a seed derived from it."""
    for attempt in range(ATTEMPTS):
        try:
            return Answer(task, init, inputs, kind, seed)
        except Inapplicable as error:
            refusal = error
        seed = seed_from("another draw|%d|%d" % (seed, attempt))
    raise refusal


def make_case(task, request, folders, name, report):
    """A case of another distribution, or why it does not apply. `lasting`: it applies for no seed."""
    started, known = time.time(), request.get("scales")
    kind, init, inputs = request["distribution"], request["init"], request["inputs"]
    try:
        # A layout does not change the numbers, so it has the usual error scale.
        pooled = "usual" if kind in LAYOUTS else kind
        ratios = known or pooled_ratios(task, init, inputs, pooled, report)
    except Inapplicable as error:
        return {"inapplicable": str(error), "lasting": True}
    scaled = time.time()
    try:
        answer = applicable_answer(task, init, inputs, kind, request["seed"])
    except Inapplicable as error:
        return {"inapplicable": str(error), "lasting": False}
    report("case computed")
    reply = write_case(task, request, folders, name, answer.draw, answer.reference,
                              answer.truth, scales_of(answer, ratios))
    return dict(reply, scales=ratios, draws=0 if known else SCALE_DRAWS,
                seconds=time.time() - scaled, scale_seconds=scaled - started)
