# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the elements that threads work on and in how threads cooperate: bounds, indices, strides,
barriers, shuffles, atomics."""

from .operators import operator


@operator("bounds")
def comparison(s):
    swap = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
    for i in s.where(*swap):
        if i not in s.angles:
            yield i, i, swap[s.at(i)]


@operator("bounds")
def bound_shifted(s):
    for i in s.where("<", "<=", ">="):
        last = None if i in s.angles else s.operand_end(i + 1)
        if last and s.at(last + 1) in (";", ")", "&&", "?"):
            yield i + 1, last, f"{s.slice(i + 1, last)} - 1"
            yield i + 1, last, f"{s.slice(i + 1, last)} + 1"


@operator("bounds")
def guard_removed(s):
    for i in s.where("if"):
        if s.at(i + 1) != "(":
            continue
        closing = s.partner[i + 1]
        if s.at(closing + 1) in ("return", "continue", "break") and s.at(closing + 2) == ";":
            yield i, closing + 2, ";"
        elif not any(s.at(k) == "else" for k in (s.partner.get(closing + 1, closing) + 1,
                                                   (s.statement_end(closing + 1) or closing) + 1)):
            yield i + 1, closing, "(true)"


@operator("bounds")
def conjunct_dropped(s):
    for i in s.where("&&", "||"):
        left = i - 1
        while left > 0 and s.at(left) not in ("(", "&&", "||", "=", ";", "return", "{", "?", ":"):
            left = s.partner.get(left, left) - 1 if s.at(left) in (")", "]") else left - 1
        right = i + 1
        while s.at(right) not in (")", "&&", "||", ";", "?", ""):
            right = s.partner.get(right, right) + 1
        yield left + 1, i, ""
        yield i, right - 1, ""


# ---- indices and strides ----

def _subscripts(s):
    for i in s.where("["):
        if i in s.partner and s.kind(i - 1) == "name" and s.at(i - 2) not in ("float", "scalar_t", "int") \
                or s.at(i - 1) in ("]", ")"):
            if s.partner[i] > i + 1:
                yield i + 1, s.partner[i] - 1


@operator("index")
def index_off_by_one(s):
    for first, last in _subscripts(s):
        yield first, last, s.slice(first, last) + " + 1"
        yield first, last, s.slice(first, last) + " - 1"


@operator("index")
def axis_swapped(s):
    swap = {"x": "y", "y": "x", "z": "w", "w": "z"}
    for i in s.where(*swap):
        if s.at(i - 1) == ".":
            yield i, i, swap[s.at(i)]


@operator("index")
def row_column_swapped(s):
    for i in s.where("*"):
        a, b, c = i - 1, i + 1, i + 3
        if all(s.kind(k) == "name" for k in (a, b, c)) and s.at(i + 2) == "+" and \
                s.at(a - 1) not in (".", "->", "*") and s.at(c + 1) not in ("(", "[", ".", "*", "->"):
            yield a, c, f"{s.at(c)} * {s.at(b)} + {s.at(a)}"


@operator("stride")
def loop_stride(s):
    for i in s.where("for"):
        closing = s.partner.get(i + 1, i)
        for k in range(i, closing):
            if s.at(k) in ("+=", "-="):
                step = s.slice(k + 1, closing - 1)
                yield k + 1, closing - 1, f"2 * ({step})"
                yield k + 1, closing - 1, f"({step}) - 1"
            elif s.at(k) == "++":
                name = s.at(k + 1) if s.kind(k + 1) == "name" else s.at(k - 1)
                yield min(k, k + 1 if s.kind(k + 1) == "name" else k - 1), \
                    max(k, k + 1 if s.kind(k + 1) == "name" else k - 1), f"{name} += 2"


@operator("stride")
def row_stride(s):
    for first, last in _subscripts(s):
        for i in range(first, last):
            if s.at(i) == "*" and s.kind(i - 1) == "name" and s.kind(i + 1) == "name" and \
                    s.at(i + 2) not in (".", "(", "["):
                yield i + 1, i + 1, f"({s.at(i + 1)} + 1)"
                yield i + 1, i + 1, f"({s.at(i + 1)} - 1)"


# ---- cooperation ----

@operator("barrier")
def barrier_removed(s):
    calls = {"__syncthreads", "__syncwarp", "__threadfence", "__threadfence_block", "wait", "sync",
             "arrive_and_wait", "cluster_sync", "__pipeline_wait_prior", "__pipeline_commit"}
    for i in s.where(*calls):
        if s.at(i + 1) == "(" and s.at(s.partner[i + 1] + 1) == ";":
            first = i
            while s.at(first - 1) in (".", "->", "::"):
                first -= 2
            yield first, s.partner[i + 1] + 1, ";"
    for i in s.where("asm"):
        end = s.statement_end(i)
        if end and any(word in s.slice(i, end) for word in ("wait", "barrier", "fence", "bar.sync")):
            yield i, end, ";"


_SHUFFLES = ("__shfl_sync", "__shfl_down_sync", "__shfl_up_sync", "__shfl_xor_sync")


@operator("shuffle")
def shuffle_mask(s):
    for i in s.where(*_SHUFFLES, "__ballot_sync", "__any_sync", "__all_sync", "__reduce_add_sync"):
        first, last = s.arguments(i + 1)[0]
        yield first, last, "0x0000ffffu"
        yield first, last, "0x7fffffffu"


@operator("shuffle")
def shuffle_lane(s):
    for i in s.where(*_SHUFFLES):
        arguments = s.arguments(i + 1)
        if len(arguments) >= 3:
            first, last = arguments[2]
            yield first, last, f"({s.slice(first, last)}) + 1"
            yield first, last, f"({s.slice(first, last)}) / 2"


@operator("atomic")
def atomic_to_store(s):
    signs = {"atomicAdd": "+", "atomicSub": "-", "atomicOr": "|", "atomicAnd": "&"}
    for i in s.where(*signs, "atomicMax", "atomicMin", "atomicExch"):
        if len(s.arguments(i + 1)) == 2 and s.at(s.partner[i + 1] + 1) == ";":
            (a, b), (c, d) = s.arguments(i + 1)
            place, value = f"*({s.slice(a, b)})", s.slice(c, d)
            if s.at(i) in signs:
                yield i, s.partner[i + 1], f"{place} = {place} {signs[s.at(i)]} ({value})"
            yield i, s.partner[i + 1], f"{place} = {value}"
