# SPDX-License-Identifier: Apache-2.0
"""Mistakes in host code: launches, missing calls and fills, wrong arguments."""

from .operators import operator


def _launches(s):
    for i in s.where("<<<", region=("host",)):
        if i in s.partner and s.at(s.partner[i] + 1) == "(":
            yield i


@operator("launch")
def grid_short(s):
    for i in _launches(s):
        first, last = s.arguments(i)[0]
        yield first, last, f"({s.slice(first, last)}) - 1"
    for i in s.where("dim3", region=("host",)):
        opening = i + 1 if s.at(i + 1) == "(" else i + 2
        if s.at(opening) == "(":
            for first, last in s.arguments(opening):
                yield first, last, f"({s.slice(first, last)}) - 1"
    for i in s.where("/", region=("host",)):  # (n + b - 1) / b: round down, not up
        opening = s.partner.get(i - 1)
        if s.at(i - 1) == ")" and s.at(i - 2) == "1" and s.at(i - 3) == "-":
            plus = max((k for k in range(opening, i) if s.at(k) == "+"), default=None)
            if plus:
                yield opening, i - 1, s.slice(opening, plus - 1) + ")"


@operator("launch")
def block_short(s):
    for i in _launches(s):
        if len(s.arguments(i)) > 1:
            first, last = s.arguments(i)[1]
            yield first, last, f"({s.slice(first, last)}) / 2"


@operator("launch")
def shared_short(s):
    for i in _launches(s):
        if len(s.arguments(i)) > 2 and s.slice(*s.arguments(i)[2]) != "0":
            first, last = s.arguments(i)[2]
            yield first, last, f"({s.slice(first, last)}) / 2"
            yield first, last, f"({s.slice(first, last)}) - 4"


@operator("launch")
def host_arithmetic(s):
    for i in s.where("+", "-", "*", "/", region=("host",)):
        if s.kind(i - 1) in ("name", "number") and s.kind(i + 1) == "number" or \
                s.at(i - 1) in (")", "]") and s.kind(i + 1) == "number":
            yield i, i + 1, ""
            yield i + 1, i + 1, f"({s.at(i + 1)} + 1)"


@operator("missing")
def call_removed(s):
    for i in _launches(s):
        first = i
        while first > 0 and s.at(first - 1) not in (";", "{", "}"):
            first -= 1
        end = s.statement_end(i)
        if end:
            yield first, end, ";"
    for i in s.where("cudaMemcpyAsync", "cudaMemsetAsync", "cudaMemcpy", "cudaMemset", "zero_", "fill_",
                     region=("host",)):
        end = s.statement_end(i)
        if end and s.at(i - 1) in (";", "{", "}"):
            yield i, end, ";"


@operator("missing")
def fill_dropped(s):
    swap = {"zeros": "empty", "zeros_like": "empty_like", "ones": "empty", "ones_like": "empty_like"}
    for i in s.where(*swap, region=("host",)):
        yield i, i, swap[s.at(i)]


@operator("missing")
def contiguous_dropped(s):
    for i in s.where("contiguous", region=("host",)):
        if s.at(i - 1) == "." and s.at(i + 1) == "(" and s.at(i + 2) == ")":
            yield i - 1, i + 2, ""


@operator("pointer")
def argument_swapped(s):
    for i in _launches(s):
        arguments = s.arguments(s.partner[i] + 1)
        for (a, b), (c, d) in zip(arguments, arguments[1:]):
            if ("data_ptr" in s.slice(a, b)) == ("data_ptr" in s.slice(c, d)):
                yield a, d, f"{s.slice(c, d)}, {s.slice(a, b)}"
