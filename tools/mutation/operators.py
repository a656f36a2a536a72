# SPDX-License-Identifier: Apache-2.0
"""The mistakes: each operator yields edits that turn a right kernel into a probably wrong one.

An operator is a generator over a Source that yields (first token, last token, what stands there
instead). It registers itself under the family of mistakes that it belongs to: place_operators.py has
those about where threads work, value_operators.py those about what they compute, host_operators.py
those about what the host asks for. Whether a result compiles, differs or is wrong is found out later.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Edit:
    operator: str
    line: int
    start: int
    end: int
    after: str
    prologue: str = ""  # in front of the whole text, without a line break

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
            # Lines stay where they are, so that line numbers in what is compiled do not differ.
            after += "\n" * max(0, source.text.count("\n", start, end) - after.count("\n"))
            if after != source.text[start:end] and (start, end, after) not in seen:
                seen.add((start, end, after))
                edits.append(Edit(name, source.line(first), start, end, after, *prologue))
        out[name] = edits
    return out
