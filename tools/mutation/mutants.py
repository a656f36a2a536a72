# SPDX-License-Identifier: Apache-2.0
"""Draws mutants from parents. The same seed gives the same mutants; drawing more only adds mutants."""

import dataclasses
import hashlib
import random

from . import operators, source


@dataclasses.dataclass(frozen=True)
class Mutant:
    id: str
    parent: str
    operator: str
    family: str
    line: int
    before: str
    after: str
    text: str  # the whole mutated source

    def record(self):
        out = dataclasses.asdict(self)
        del out["text"]
        return out


def draw(parent, seed, most):
    """At most `most` mutants of a parent. The operators that apply to it take turns."""
    text = parent.kernel.read_text(errors="replace")
    queues = []
    for name, edits in operators.all_edits(source.Source(text)).items():
        generator = random.Random(f"{seed}:{parent.name}:{name}")
        generator.shuffle(edits)
        if edits:
            queues.append(edits)
    random.Random(f"{seed}:{parent.name}").shuffle(queues)
    out, turn = [], 0
    while len(out) < most and any(turn < len(queue) for queue in queues):
        out += [_mutant(parent, text, queue[turn]) for queue in queues if turn < len(queue)]
        turn += 1
    return out[:most]


def _mutant(parent, text, edit):
    mutated = edit.apply(text)
    digest = hashlib.sha256(mutated.encode()).hexdigest()[:8]
    return Mutant(f"{parent.name}-{digest}", parent.name, edit.operator, operators.OPERATORS[edit.operator][0],
                  edit.line, text[edit.start:edit.end], edit.after, mutated)
