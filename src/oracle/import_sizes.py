# Sizes of a problem that is imported: which of them a kernel can see, and smaller ones at which a call
# is a moment's work on a CPU. SPDX-License-Identifier: Apache-2.0
import time

import oracle

GOAL_ELEMENTS, GOAL_FLOPS = 1 << 22, 1 << 27  # what reduced sizes cost at most
SMALLEST_ROWS, SMALLEST_FEATURES = 2, 8  # below which sizes are not reduced
# Sizes but those of a batch are first kept at these: kernels have tiles of 32 and 64, and many are right
# at whole tiles alone.
TILES = (64, 32)
QUICK = 1.0  # seconds; slower calls are not repeated to learn of sizes
CHANGES = (lambda v: 2 * v, lambda v: max(1, v // 2), lambda v: v + 1)  # tried in turn


def resized(size, change):
    return type(size)(map(change, size)) if isinstance(size, (tuple, list)) else change(size)


def largest(size):
    return max(size) if isinstance(size, (tuple, list)) else size


def equal_sizes(sizes):
    """Groups of names of two and more with one value."""
    groups = {}
    for key, size in sizes.items():
        groups.setdefault(largest(size), []).append(key)
    return [keys for keys in groups.values() if len(keys) > 1]


def excess_of(importing, call):
    """How many times what a call may cost at most it costs."""
    if not importing.fake_forward:  # what a recurrent layer would cost
        tensors = [t for t in call.arguments if isinstance(t, oracle.torch.Tensor)]
        inputs, state = tensors[:len(importing.inputs)], tensors[len(importing.inputs):]
        rows = max([t.numel() // max(1, t.shape[-1] if t.dim() else 1) for t in inputs] + [1])
        call.cost.flops = 2 * rows * sum(t.numel() for t in state)
    return max(call.cost.elements / GOAL_ELEMENTS, call.cost.flops / GOAL_FLOPS,
               call.argument_elements() / GOAL_ELEMENTS)


def keep_visible_sizes(importing, base):
    """A size stays an argument if kernels can see it: when it changes, alone or with those that
    are equal to it, so do the shapes of what they get, and neither their number nor ranks."""
    generated, sizes = importing.generated(), importing.sizes()
    quick = base.seconds < QUICK

    def is_visible(keys):
        for change in CHANGES:
            changed = {k: resized(sizes[k], change) for k in keys}
            if changed == {k: sizes[k] for k in keys} or time.monotonic() > importing.deadline:
                continue
            try:
                other = importing.call(generated, dict(sizes, **changed), quick)
            except Exception:  # this size is not allowed; another one may be
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
    # Numbers that the constructor takes and no shape shows.
    hidden = [k for k in importing.source.numbers if k not in kept and importing.is_for_init(k)]
    importing.facts.fixed = ["%s = %r" % (k, importing.source.numbers[k]) for k in hidden]


def is_batch(key):
    return "batch" in key.lower() or key.lower() in ("b", "bs", "bsz")  # N is often a matrix's


def reduce(importing, base):
    """Sizes at which a call is a moment's work on a CPU: the largest are divided first."""
    sizes = dict(importing.sizes())
    rows = set(importing.split(sizes)[0]) - set(importing.split(sizes)[1])
    floors = {k: SMALLEST_ROWS if k in rows else SMALLEST_FEATURES for k in sizes}
    start = excess = excess_of(importing, base)
    for tile in TILES + (0,):
        at_least = {k: floors[k] if is_batch(k) else max(floors[k], tile) for k in sizes}
        sizes, excess = reduced_to(importing, sizes, excess, at_least)
    return sizes if sizes != importing.sizes() and excess < start else {}


def reduced_to(importing, sizes, excess, floors):
    """The same as far as `floors` let it be, and what a call costs there."""
    generated, stuck = importing.generated(), set()
    while excess > 1 and time.monotonic() < importing.deadline:
        moves = [(k,) for k in sizes] + [tuple(g) for g in equal_sizes(sizes)]
        movable = [m for m in moves if m not in stuck
                   and all(largest(sizes[k]) > floors[k] for k in m)]
        if not movable:
            break
        move = max(movable, key=lambda m: largest(sizes[m[0]]) / floors[m[0]])
        stuck.add(move)
        for factor in (8, 4, 2) if excess > 8 else (2,):
            tried = dict(sizes, **{k: resized(sizes[k], lambda v: max(
                min(v, floors[k]), v // factor)) for k in move})
            try:
                call = importing.call(generated, tried)
                if call.cost.is_empty:
                    continue
                found = excess_of(importing, call)
            except Exception:  # this size does not go with the others
                continue
            if found < excess:
                sizes, excess = tried, found
                stuck.discard(move)
                break
    return sizes, excess
