# SPDX-License-Identifier: Apache-2.0
"""Mistakes in what threads compute: initial values, reductions, types, constants, terms."""

from .operators import operator


_LEAST = {"FLT_MAX", "INFINITY", "FLT_MIN", "CUDART_INF_F"}


def _initial_values(s):
    for i in s.where("="):
        if s.kind(i - 1) != "name" and s.at(i - 1) != "]":
            continue
        end = s.statement_end(i)
        if end and i + 1 <= end - 1 <= i + 4 and s.at(end - 1) != ")":
            yield i, end


@operator("initial")
def initial_value(s):
    for i, end in _initial_values(s):
        value = s.slice(i + 1, end - 1)
        number = s.at(end - 1).lower().rstrip("fu")
        if value.startswith("-") and (s.at(end - 1) in _LEAST or "e" in number):
            yield i + 1, end - 1, "0"
        elif number in ("0", "0.0", "0."):
            yield i + 1, end - 1, "1"
        elif value in ("true", "false"):
            yield i + 1, end - 1, "false" if value == "true" else "true"
    for i in s.where("="):
        if s.at(i - 1) != "]" and s.at(i + 1) == "scalar_t" and s.at(i + 3) == "0":
            yield i + 3, i + 3, "1"


@operator("initial")
def initial_dropped(s):
    for i, end in _initial_values(s):
        named = s.kind(i - 2) == "name" and s.at(i - 2) in ("float", "scalar_t", "int", "double", "accscalar_t")
        if s.at(i - 1) == "]" or named and s.at(i - 3) not in ("const", "(", "constexpr"):
            if s.at(i - 1) == "]" and s.at(i + 1) != "{":
                continue
            yield i, end - 1, ""


@operator("reduction")
def reduction_changed(s):
    swap = {"fmaxf": "fminf", "fminf": "fmaxf", "max": "min", "min": "max"}
    for i in s.where(*swap):
        if s.at(i + 1) == "(":
            yield i, i, swap[s.at(i)]
    for i in s.where("+=", "*="):
        if not _in_for_head(s, i):
            yield i, i, "-=" if s.at(i) == "+=" else "="
            yield i, i, "="


def _in_for_head(s, i):
    end = s.statement_end(i)
    return end is None


@operator("reduction")
def step_dropped(s):
    for i in s.where("for"):
        opening = i + 1
        closing = s.partner.get(opening, i)
        clause = [k for k in range(opening, closing) if s.at(k) == ";"]
        if len(clause) != 2 or not any(s.at(k) in (">>=", "/=", "<<=", "*=") for k in range(clause[1], closing)):
            continue
        for k in range(clause[0], clause[1]):
            if s.at(k) == ">" and s.at(k + 1) == "0":
                yield k + 1, k + 1, "1"  # the last step
        for k in range(opening, clause[0]):
            if s.at(k) == "=":
                yield k + 1, clause[0] - 1, f"({s.slice(k + 1, clause[0] - 1)}) / 2"  # the first step
    for i in s.where("for"):  # the first iteration of an ordinary loop
        closing = s.partner.get(i + 1, i)
        for k in range(i + 1, closing):
            if s.at(k) == "=" and s.at(k + 2) == ";" and s.at(k + 1) == "0":
                yield k + 1, k + 1, "1"


@operator("type")
def integer_accumulator(s):
    for i in s.where("float", "scalar_t", "accscalar_t"):
        if s.kind(i + 1) == "name" and s.at(i + 2) in ("=", "[", ",", ";") and s.at(i - 1) != "const":
            yield i, i, "int"


@operator("type")
def half_accumulator(s):
    for i in s.where("+="):
        end = s.statement_end(i)
        first = i - 1
        while first > 0 and (s.at(first) in ("]", ")") or s.at(first - 1) in (".", "->")):
            first = s.partner[first] - 1 if s.at(first) in ("]", ")") else first - 2
        if end and s.types.get(s.at(first)) in ("float", "scalar_t", "accscalar_t"):
            place, value = s.slice(first, i - 1), s.slice(i + 1, end - 1)
            yield first, end - 1, f"{place} = __half2float(__float2half_rn({place} + ({value})))", \
                "#include <cuda_fp16.h>\n"
            yield i + 1, end - 1, f"__uint_as_float(__float_as_uint({value}) & 0xffff0000u)"


@operator("type")
def index_narrowed(s):
    for i in s.where("int", "int64_t", "size_t", "long"):
        if s.kind(i + 1) == "name" and s.at(i + 2) == "=" and s.at(i - 1) != "<":
            yield i, i, "short"
            yield i, i, "unsigned char"


@operator("constant")
def epsilon_dropped(s):
    for i in s.where("+"):
        last = s.operand_end(i + 1)
        if last and "eps" in s.slice(i + 1, last).lower():
            yield i, last, ""


@operator("constant")
def constant_changed(s):
    for i in s.where(*{t.text for t in s.tokens if t.kind == "number"}):
        text = s.at(i)
        if text.startswith(("0x", "0X")) or s.at(i - 1) == "=" and s.at(i + 1) == ";":
            continue
        if "." in text or "e" in text.lower():
            yield i, i, f"({text} * 1.01f + 1e-3f)"
        else:
            yield i, i, f"({text} + 1)"


@operator("term")
def term_dropped(s):
    for i in s.where("+", "-"):
        if s.kind(i - 1) not in ("name", "number") and s.at(i - 1) not in (")", "]"):
            continue
        last = s.operand_end(i + 1)
        while last and s.at(last + 1) in ("*", "/"):
            last = s.operand_end(last + 2)
        if last:
            yield i, last, ""


@operator("term")
def factor_dropped(s):
    for i in s.where("*", "/", "%"):
        if s.kind(i - 1) in ("name", "number") and s.at(i - 1) not in _TYPE_NAMES or s.at(i - 1) in (")", "]"):
            last = s.operand_end(i + 1)
            if last and s.kind(i + 1) != "mark" or s.at(i + 1) == "(":
                yield i, last, ""


_TYPE_NAMES = {"float", "int", "const", "scalar_t", "void", "char", "float4", "double", "T", "half"}


@operator("term")
def sign_changed(s):
    for i in s.where("+", "-"):
        if s.kind(i - 1) in ("name", "number") or s.at(i - 1) in (")", "]"):
            yield i, i, "-" if s.at(i) == "+" else "+"
