# Draws whose gradients do not depend on rounding: correct kernels could differ on the others.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import torch

import float64_place
from draw_backward import BackwardDraw
from draw_base import Draw
from loaded_task import Task
from oracle_types import Json
from task_code import seed_from
from tensor_values import Noise, Outputs

STEADY_ATTEMPTS = 8  # draws of a backward case, until no gradient depends on rounding
MOVE, MOVES = 2.0 ** -22, 2  # to detect that: the relative change of the inputs, and the number of tries
UNEVEN = 1 / 16  # of the largest change: how much the two directions may differ
NOTHING = 2.0 ** -40  # of the largest gradient: smaller changes are float64's own rounding


def depends_on_rounding(draw: Draw, truth: Outputs, seed: int, move: float = MOVE) -> bool:
    """True if the inputs lie within rounding of a kink (ReLU's zero, the larger of two values) and a
    gradient depends on the side: moving the inputs in opposite directions changes it unequally."""
    if not isinstance(draw, BackwardDraw):
        return False
    for signs in range(seed, seed + MOVES):
        moved, opposite = (draw.truth(Noise(signs, direction, move)) for direction in (1, -1))
        if any(is_uneven(*triple) for triple in zip(truth, moved, opposite)):
            return True
    return False


def is_uneven(truth: torch.Tensor | None, moved: torch.Tensor | None, opposite: torch.Tensor | None) -> bool:
    if truth is None or truth.numel() == 0:
        return False
    with float64_place.place_of(truth).work():
        ahead, behind = (moved - truth).nan_to_num(0), (opposite - truth).nan_to_num(0)
        effect = max(float(ahead.abs().max()), float(behind.abs().max()))
        uneven = float((ahead + behind).abs().max())
        return (uneven > UNEVEN * effect and
                effect > NOTHING * float(truth.nan_to_num(0).abs().max()))


def steady_draw(task: Task, seed: int, init: Json, inputs: Json) -> tuple[Draw, Outputs]:
    """(draw, truth) of the seed, or of the first seed derived from it whose gradients do not depend on
    rounding. Correct kernels that sum in another order could differ on the others."""
    for attempt in range(STEADY_ATTEMPTS):
        draw = task.draw(seed, init, inputs)
        truth = draw.truth()
        if not depends_on_rounding(draw, truth, seed):
            return draw, truth
        seed = seed_from("steadier draw|%d|%d" % (seed, attempt))
    task.warn("in each of %d draws a gradient depends on the sign of a number that is zero except for "
              "rounding (ReLU, a maximum): a correct kernel may differ there" % STEADY_ATTEMPTS)
    return draw, truth
