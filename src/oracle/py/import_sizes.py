# Sizes of an imported problem: finds those that a kernel can see, and smaller ones at which a call is
# fast on a CPU. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from collections.abc import Callable

import torch

import import_text
from import_calls import Call, ImportCalls
from import_text import Size, Sizes

GOAL_ELEMENTS, GOAL_FLOPS = 1 << 22, 1 << 27  # the maximum cost at reduced sizes
SMALLEST_ROWS, SMALLEST_FEATURES = 2, 8  # smaller sizes are not used
# Sizes other than a batch's are kept at these if possible: kernels have tiles of 32 and 64, and many are
# correct only for whole tiles.
TILES = (64, 32)
QUICK = 1.0  # seconds; slower calls are not repeated to find visible sizes
CHANGES = (lambda v: 2 * v, lambda v: max(1, v // 2), lambda v: v + 1)  # tried in this order


def resized(size: Size, change: Callable[[int], int]) -> Size:
    return type(size)(map(change, size)) if isinstance(size, (tuple, list)) else change(size)


def divided(size: Size, factor: int, floor: int) -> Size:
    """The size divided by a factor, but not below `floor` if it is larger now."""
    return resized(size, lambda v: max(min(v, floor), v // factor))


def equal_sizes(sizes: Sizes) -> list[list[str]]:
    """Groups of two or more names with the same value."""
    groups = {}
    for key, size in sizes.items():
        groups.setdefault(import_text.largest(size), []).append(key)
    return [keys for keys in groups.values() if len(keys) > 1]


def excess_of(importing: ImportCalls, call: Call) -> float:
    """The cost of a call divided by the maximum cost."""
    if not importing.fake_forward:  # estimate the cost as for a recurrent layer
        tensors = [t for t in call.arguments if isinstance(t, torch.Tensor)]
        inputs, state = tensors[:len(importing.inputs)], tensors[len(importing.inputs):]
        rows = max([t.numel() // max(1, t.shape[-1] if t.dim() else 1) for t in inputs] + [1])
        call.cost.flops = 2 * rows * sum(t.numel() for t in state)
    return max(call.cost.elements / GOAL_ELEMENTS, call.cost.flops / GOAL_FLOPS,
               call.argument_elements() / GOAL_ELEMENTS)


def keep_visible_sizes(importing: ImportCalls, base: Call) -> None:
    """Keeps a size as an argument only if kernels can see it. They can if a change of the size (alone or
    together with equal sizes) changes the shapes of the arguments, but not their number or ranks."""
    generated, sizes = importing.generated(), importing.sizes()
    quick = base.seconds < QUICK

    def is_visible(keys: list[str]) -> bool | None:
        for change in CHANGES:
            changed = {k: resized(sizes[k], change) for k in keys}
            if changed == {k: sizes[k] for k in keys} or time.monotonic() > importing.deadline:
                continue
            try:
                other = importing.call(generated, dict(sizes, **changed), quick)
            except Exception:  # this size is not allowed, but another one may be
                continue
            same_ranks = [len(s) for s in base.shapes()] == [len(s) for s in other.shapes()]
            return same_ranks and other.shapes() != base.shapes()
        return None

    found = {k: is_visible([k]) for k in sizes}
    for keys in equal_sizes(sizes):
        if all(found[k] is None for k in keys) and is_visible(keys):
            found.update(dict.fromkeys(keys, True))
    importing.facts.keys = [k for k in sizes if found[k]]
    kept = importing.facts.keys
    # Numbers that the constructor uses and that no shape shows.
    hidden = [k for k in importing.source.numbers if k not in kept and importing.is_for_init(k)]
    importing.facts.fixed = ["%s = %r" % (k, importing.source.numbers[k]) for k in hidden]


def is_batch(key: str) -> bool:
    return "batch" in key.lower() or key.lower() in ("b", "bs", "bsz")  # but not N, often a size of a matrix


def reduce(importing: ImportCalls, base: Call) -> Sizes:
    """Sizes at which a call is fast on a CPU. Divides the largest sizes first."""
    sizes = dict(importing.sizes())
    rows = set(importing.split(sizes)[0]) - set(importing.split(sizes)[1])
    floors = {k: SMALLEST_ROWS if k in rows else SMALLEST_FEATURES for k in sizes}
    start = excess = excess_of(importing, base)
    for tile in TILES + (0,):
        at_least = {k: floors[k] if is_batch(k) else max(floors[k], tile) for k in sizes}
        sizes, excess = reduced_to(importing, sizes, excess, at_least)
    return sizes if sizes != importing.sizes() and excess < start else {}


def reduced_to(importing: ImportCalls, sizes: Sizes, excess: float, floors: dict[str, int]) -> tuple[Sizes, float]:
    """(sizes reduced to `floors` at the lowest, the excess of a call at these sizes)."""
    generated, stuck = importing.generated(), set()
    while excess > 1 and time.monotonic() < importing.deadline:
        moves = [(k,) for k in sizes] + [tuple(g) for g in equal_sizes(sizes)]
        movable = [m for m in moves if m not in stuck
                   and all(import_text.largest(sizes[k]) > floors[k] for k in m)]
        if not movable:
            break
        move = max(movable, key=lambda m: import_text.largest(sizes[m[0]]) / floors[m[0]])
        stuck.add(move)
        for factor in (8, 4, 2) if excess > 8 else (2,):
            tried = dict(sizes, **{k: divided(sizes[k], factor, floors[k]) for k in move})
            try:
                call = importing.call(generated, tried)
                if call.cost.is_empty:
                    continue
                found = excess_of(importing, call)
            except Exception:  # this size does not work with the others
                continue
            if found < excess:
                sizes, excess = tried, found
                stuck.discard(move)
                break
    return sizes, excess
