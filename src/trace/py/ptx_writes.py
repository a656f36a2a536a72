# Which pointer parameters a kernel's PTX may write through. The answer is about memory that stays the same from call to
# call, such as tables. When in doubt, a kernel writes. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

# Instructions whose operands are addresses that they write, or values that may be addresses elsewhere.
WRITES = re.compile(r"st\.|red\.|atom\.|multimem\.|tensormap\.|cp\.reduce\.|call|cp\.async\.bulk\S*global\.shared")
# Instructions whose results are no addresses that parameters have.
READS = re.compile(r"ldu?\.\S*\b(global|shared|const)\b|cp\.async\.|prefetch|ldmatrix|mbarrier\.|bar")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
NO_INSTRUCTION = re.compile(r"^\s*\.(loc|file)\b.*$|^\s*[$\w]+:", re.MULTILINE)
PARAMETER = re.compile(r"\.param\b[^,]*?([\w$]+)\s*(?:\[\d*\])?\s*(?:,|\Z)")
GUARD = re.compile(r"^[\s{}]*(@!?%\w+)?[\s{}]*")


def end_of_body(ptx: str, begin: int) -> int:
    """Where the block ends whose opening brace is before `begin`."""
    depth = 1
    for brace in re.compile(r"[{}]").finditer(ptx, begin):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    return len(ptx)


def written_parameters(ptx: str, kernel: str, pointers: set[int]) -> set[int]:
    """`pointers`: the numbers of the parameters that matter. Follows addresses through registers."""
    ptx = COMMENT.sub(" ", ptx)
    entry = re.search(r"\.entry\s+%s\s*\(([^)]*)\)[^{]*\{" % re.escape(kernel), ptx)
    if entry is None:
        return set(pointers)
    parameters = {name: i for i, name in enumerate(PARAMETER.findall(entry[1]))}
    body = NO_INSTRUCTION.sub("", ptx[entry.end():end_of_body(ptx, entry.end())])
    name = re.compile(r"[%$A-Za-z_][%$\w]*")
    moves = []  # (a register, what it depends on)
    stores = []
    for statement in body.split(";"):
        words = GUARD.sub("", statement).split(None, 1)
        if len(words) < 2 or words[0].startswith(".") or READS.match(words[0]) and not WRITES.match(words[0]):
            continue
        names: list[int | str] = [parameters.get(word, word) for word in name.findall(words[1])]
        if WRITES.match(words[0]):
            stores += names
        elif names:
            moves.append((names[0], names[1:]))
    known: dict[str | int, set[int]] = {number: {number} for number in pointers}
    changed = True
    while changed:
        changed = False
        for register, sources in moves:
            found = set().union(*(known.get(source, ()) for source in sources))
            if not found <= known.get(register, set()):
                known[register] = known.get(register, set()) | found
                changed = True
    return set().union(*(known.get(operand, ()) for operand in stores))
