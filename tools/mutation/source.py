# SPDX-License-Identifier: Apache-2.0
"""CUDA source as tokens. Operators work on tokens, not on raw text.

- There are no tokens for comments, preprocessor lines (with their continuations) and white space, and each
  string or character is one token. Operators therefore change only text that is compiled.
- Brackets are matched. Template brackets are distinguished from comparisons.
- Every token is marked as device code, host code or neither.
"""

import bisect
import dataclasses
import re

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
      |(?P<string>R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      |(?P<number>(?:0[xX][0-9a-fA-F']+|\d[\d']*\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)[uUlLfF]*)
      |(?P<name>[A-Za-z_]\w*)
      |(?P<mark><<<|>>>|<<=|>>=|\.\.\.|->|\+\+|--|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|<<|>>|::|[^\s\w])
    """, re.VERBOSE | re.DOTALL)
_DIRECTIVE = re.compile(r"[ \t]*#(?:\\\n|[^\n])*")
_CASTS = {"static_cast", "reinterpret_cast", "const_cast", "template", "data_ptr", "mutable_data_ptr"}
_CHECKS = {"TORCH_CHECK", "AT_ASSERTM", "TORCH_INTERNAL_ASSERT", "PYBIND11_MODULE", "TORCH_LIBRARY",
           "static_assert", "C10_CUDA_CHECK", "AT_DISPATCH_FLOATING_TYPES"}
_TYPES = {"float", "double", "half", "__half", "scalar_t", "T", "int", "long", "unsigned", "int64_t",
          "int32_t", "uint32_t", "size_t", "float4", "float2", "auto", "bool", "accscalar_t"}


@dataclasses.dataclass(frozen=True)
class Token:
    kind: str  # "name", "number", "string" or "mark"
    text: str
    start: int
    end: int


class Source:
    def __init__(self, text):
        self.text = text
        self.tokens = list(_tokenise(text))
        self._lines = [m.start() for m in re.finditer(r"\n", text)]
        self.partner = self._match()
        self.angles = self._find_angles()
        self.region = self._find_regions()
        self.checked = self._find_checked()
        self.types = self._find_types()

    def __len__(self):
        return len(self.tokens)

    def at(self, i):
        """The text of token i, or "" if i is out of range."""
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def kind(self, i):
        return self.tokens[i].kind if 0 <= i < len(self.tokens) else ""

    def line(self, i):
        return bisect.bisect_left(self._lines, self.tokens[i].start) + 1

    def slice(self, first, last):
        """The text from token first to token last, both included; "" if the range is empty."""
        return self.text[self.tokens[first].start:self.tokens[last].end] if first <= last else ""

    def where(self, *texts, region=("device",)):
        for i, token in enumerate(self.tokens):
            if token.text in texts and self.region[i] in region and not self.checked[i]:
                yield i

    def statement_end(self, i):
        """The `;` that ends the statement or the for-clause of token i."""
        while i < len(self.tokens) and self.at(i) != ";":
            if self.at(i) in ")]}":
                return None
            i = self.partner.get(i, i) + 1
        return i if i < len(self.tokens) else None

    def operand_end(self, i):
        """The last token of the operand that begins at token i, or None if no operand begins there. An
        operand is a name, number or bracket, with the members, subscripts and calls after it."""
        while self.at(i) in ("-", "+", "*", "&", "!"):
            i += 1
        if self.at(i) == "(":
            last = self.partner[i]
        elif self.kind(i) in ("name", "number"):
            last = i
        else:
            return None
        while True:
            if self.at(last + 1) in ("(", "[") or last + 1 in self.angles and self.at(last + 1) == "<":
                last = self.partner.get(last + 1, self.angles.get(last + 1))
            elif self.at(last + 1) in (".", "->", "::"):
                last += 2
            else:
                return last

    def arguments(self, opening):
        """(first, last) of each argument between the bracket `opening` and its partner."""
        closing = self.angles.get(opening, self.partner.get(opening))
        out, first, i = [], opening + 1, opening + 1
        while i < closing:
            if self.at(i) == ",":
                out.append((first, i - 1))
                first = i + 1
            i = max(self.partner.get(i, i), self.angles.get(i, i)) + 1
        return out + [(first, closing - 1)] if closing > opening + 1 else out

    def _match(self):
        partner, stack = {}, []
        for i, token in enumerate(self.tokens):
            if token.text in ("(", "[", "{", "<<<") and token.kind == "mark":
                stack.append(i)
            elif token.text in (")", "]", "}", ">>>") and token.kind == "mark":
                opening = {")": "(", "]": "[", "}": "{", ">>>": "<<<"}[token.text]
                if stack and self.at(stack[-1]) == opening:
                    partner[stack[-1]] = i
                    partner[i] = stack.pop()
        return partner

    def _find_angles(self):
        """Maps each `<` that could open template arguments to its `>`, and the reverse."""
        angles = {}
        for i, token in enumerate(self.tokens):
            if token.text != "<" or self.kind(i - 1) != "name":
                continue
            j = i + 1
            while (self.kind(j) in ("name", "number") or self.at(j) in ("::", "*", "&", ",", "+", "-", "/")
                   or j in angles):
                j = angles.get(j, j) + 1
            if self.at(j) != ">":
                continue
            if self.at(i - 1) in _CASTS or self.at(j + 1) in ("(", "::", "<<<", ">", ",", ")", "{", ";", "*",
                                                             "&", ":") or self.kind(j + 1) == "name":
                angles[i], angles[j] = j, i
        return angles

    def _find_regions(self):
        region = ["file"] * len(self.tokens)
        i = 0
        while i < len(self.tokens):
            if self.at(i) in ("__global__", "__device__"):
                body = self._body(i)
                if body:
                    region[i:body] = ["head"] * (body - i)
                    region[body:self.partner[body] + 1] = ["device"] * (self.partner[body] + 1 - body)
                    i = self.partner[body]
            elif self.at(i) == "{" and self.at(i - 1) in (")", "const", "noexcept") and i in self.partner:
                region[i:self.partner[i] + 1] = ["host"] * (self.partner[i] + 1 - i)
                i = self.partner[i]
            i += 1
        return region

    def _body(self, i):
        while i < len(self.tokens) and self.at(i) not in ("{", ";", "="):
            i = self.partner.get(i, i) + 1 if self.at(i) == "(" else i + 1
        return i if self.at(i) == "{" and i in self.partner else None

    def _find_checked(self):
        """Marks tokens inside assertions: a change there only changes which inputs are rejected."""
        checked = [False] * len(self.tokens)
        for i in range(len(self.tokens) - 1):
            if self.at(i) in _CHECKS - {"AT_DISPATCH_FLOATING_TYPES"} and self.at(i + 1) == "(":
                last = self.partner.get(i + 1, i)
                checked[i:last + 1] = [True] * (last + 1 - i)
        return checked

    def _find_types(self):
        """Maps each variable name to the last type it is declared with. A guess, but good enough."""
        types = {}
        for i in range(1, len(self.tokens)):
            if self.at(i - 1) in _TYPES and self.kind(i) == "name":
                types[self.at(i)] = self.at(i - 1)
        return types


def _tokenise(text):
    position, fresh = 0, True  # fresh: only white space so far on this line
    while position < len(text):
        directive = _DIRECTIVE.match(text, position) if fresh else None
        if directive:
            position = directive.end()
            continue
        match = _TOKEN.match(text, position)
        if not match:
            raise ValueError(f"no token at offset {position}: {text[position:position + 20]!r}")
        if match.lastgroup == "skip" or match.group("skip"):
            fresh = "\n" in match.group() or (fresh and match.group().isspace())
        else:
            fresh = False
            kind = next(k for k in ("string", "number", "name", "mark") if match.group(k) is not None)
            yield Token(kind, match.group(), match.start(), match.end())
        position = match.end()
