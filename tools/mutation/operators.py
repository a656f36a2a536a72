# SPDX-License-Identifier: Apache-2.0
"""Mutation operators: each yields edits that turn a correct kernel into a probably wrong one.

An operator is a generator over a Source. It yields (first token, last token, replacement), and optionally
text to insert at the start of the source. It registers itself under a family of mistakes:
- place_operators.py: which elements threads work on, and how threads cooperate
- value_operators.py: what threads compute
- host_operators.py: launches and other host code
tools/mutation/judge.py finds out later whether a result compiles, differs from its parent, or is wrong.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Edit:
    operator: str
    line: int
    start: int
    end: int
    after: str
    prologue: str = ""  # inserted before the whole text

    def apply(self, text):
        return self.prologue + text[:self.start] + self.after + text[self.end:]


OPERATORS = {}  # name -> (family, generator)


def operator(family):
    def register(function):
        OPERATORS[function.__name__] = (family, function)
        return function
    return register


def all_edits(source):
    """Operator -> its edits, in the order of the text."""
    out = {}
    for name, (_, function) in OPERATORS.items():
        seen, edits = set(), []
        for first, last, after, *prologue in function(source):
            start, end = source.tokens[first].start, source.tokens[last].end
            # Keep the number of lines: different line numbers would change the compiled program.
            after += "\n" * max(0, source.text.count("\n", start, end) - after.count("\n"))
            if after != source.text[start:end] and (start, end, after) not in seen:
                seen.add((start, end, after))
                edits.append(Edit(name, source.line(first), start, end, after, *prologue))
        out[name] = edits
    return out
