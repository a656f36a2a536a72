#!/usr/bin/env python3
"""Writes view_table.txt: PyTorch's results for views of tensors of many shapes.

One line per question: sizes|strides|offset|storage elements|operation arguments|answer, where the
answer is "sizes|strides|offset" (offset "copy" if the result has its own memory) or "error".
Run it again with any PyTorch from 1.13 to check the table.

SPDX-License-Identifier: Apache-2.0
"""
import random

import torch

rng = random.Random(20)


def bases():
    def of(tensor):
        return tuple(tensor.size()), tuple(tensor.stride()), tensor.storage_offset()

    e = torch.empty
    yield from map(of, [
        e(()), e(1), e(7), e(0), e(1, 1), e(3, 1), e(1, 5), e(4, 6), e(0, 3), e(3, 0), e(2, 3, 4),
        e(2, 1, 4), e(1, 3, 1), e(2, 0, 3), e(2, 3, 4, 5), e(1, 3, 4, 5), e(2, 1, 4, 5),
        e(2, 3, 1, 1), e(2, 3, 4, 5, 6)[:, :, :, :, :2],
        e(4, 6).t(), e(2, 3, 4).transpose(0, 2), e(2, 3, 4).transpose(1, 2),
        e(2, 3, 4).permute(1, 2, 0), e(4, 6)[:, 1:4], e(4, 6)[1:3], e(4, 6)[::2], e(4, 6)[:, ::3],
        e(8)[3:], e(8)[::2], e(3, 1).expand(3, 5), e(1, 4).expand(6, 4), e(1).expand(2, 3),
        e(2, 1, 3).expand(2, 4, 3), e(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        e(2, 1, 4, 5).contiguous(memory_format=torch.channels_last),
        e(2, 3, 1, 1).contiguous(memory_format=torch.channels_last),
        e(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)[:, :2],
        e(2, 3, 2, 2, 3).contiguous(memory_format=torch.channels_last_3d),
        e(2, 3, 4, 5).permute(0, 2, 3, 1), e(6, 4, 2)[:, 1], e(6, 4, 2)[2:, :, 1:],
        e(2, 2, 3, 2).permute(3, 0, 2, 1), e(1, 4, 1, 6).transpose(1, 3)])
    for _ in range(25):  # random sizes and strides
        n = rng.randint(1, 4)
        sizes = tuple(rng.choice([1, 1, 2, 3, 4]) for _ in range(n))
        strides = tuple(rng.choice([0, 1, 1, 2, 3, 4, 6, 12]) for _ in range(n))
        yield sizes, strides, rng.choice([0, 0, 5])


def dim(n):
    return rng.randint(-n - 1, n)


def shape_for(numel):
    """A shape of about `numel` elements; some do not fit, some leave one dimension open."""
    shape, rest = [], numel
    for _ in range(rng.randint(0, 3)):
        f = rng.choice([d for d in range(1, max(rest, 1) + 1) if rest and rest % d == 0] or [1, 0])
        shape.append(f)
        rest = rest // f if f else 0
    shape.append(rest)
    rng.shuffle(shape)
    if rng.random() < 0.4:
        shape[rng.randrange(len(shape))] = -1
    if rng.random() < 0.1:
        shape[rng.randrange(len(shape))] = rng.choice([2, -2, 5])
    return shape


def questions(t):
    n, numel = t.dim(), t.numel()
    yield 'flags', []
    for op in 'contiguous', 'clone', 'empty_like', 'to_double', 'squeeze_all', 't', 'numpy_T':
        yield op, []
    yield 'channels_last', []
    for _ in range(3):
        yield 'view', [shape_for(numel)]
        yield 'reshape', [shape_for(numel)]
    yield 'flatten', [dim(n), dim(n)]
    yield 'flatten', [0, -1]
    yield 'unflatten', [dim(n), rng.choice([[2, -1], [1, -1], [2, 2], [3, -1]])]
    yield 'squeeze', [dim(n)]
    yield 'unsqueeze', [dim(n + 1)]
    yield 'transpose', [dim(n), dim(n)]
    order = list(range(n))
    rng.shuffle(order)
    yield 'permute', [[o - n if rng.random() < 0.3 else o for o in order]]
    yield 'permute', [[rng.randint(0, n) for _ in range(rng.choice([n, n, n + 1]))]]
    yield 'movedim', [dim(n), dim(n)]
    yield 'narrow', [dim(n), rng.randint(-3, 4), rng.randint(-1, 3)]
    yield 'narrow', [0, 0, rng.randint(0, 2)]
    yield 'select', [dim(n), rng.randint(-4, 4)]
    yield 'select', [0, 0]
    for _ in range(2):
        yield 'slice', [dim(n), rng.randint(-6, 6), rng.randint(-6, 8), rng.choice([1, 1, 2, 3, 0])]
    yield 'expand', [[rng.choice([-1, 2, 3]) for _ in range(rng.choice([0, 0, 1]))] +
                     [s if s != 1 else rng.choice([1, -1, 4]) for s in t.size()]]
    yield 'expand', [[rng.choice([-1, 1, 3]) for _ in range(rng.choice([n, n + 1, n - 1, 1]))]
                     if n else [2]]
    yield 'as_strided', [[rng.randint(0, 3) for _ in range(2)],
                         [rng.randint(0, 4) for _ in range(2)], rng.randint(0, 6)]
    yield 'split', [rng.randint(1, 3), dim(n)]
    yield 'chunk', [rng.randint(0, 3), dim(n)]


def answer(t, op, args):
    last = torch.channels_last if t.dim() == 4 else torch.channels_last_3d
    if op == 'flags':
        return f'{int(t.is_contiguous())}{int(t.dim() in (4, 5) and t.is_contiguous(memory_format=last))}' \
               f'{int(torch.ops.aten.is_non_overlapping_and_dense(t)) if DENSE else "?"}'
    try:
        if op == 'to_double':
            r = t.to(torch.float64)
        elif op == 'channels_last':
            r = t.contiguous(memory_format=last)
        elif op == 'squeeze_all':
            r = t.squeeze()
        elif op == 'numpy_T':
            r = t.permute(list(range(t.dim() - 1, -1, -1)))
        elif op == 'empty_like':
            r = torch.empty_like(t)
        elif op == 'slice':
            r = torch.ops.aten.slice(t, *args)
        elif op == 'unflatten':
            at = args[0] + t.dim() if args[0] < 0 else args[0]
            if not -t.dim() <= args[0] < t.dim():
                return 'error'
            r = t.unflatten(at, args[1])
        elif op in ('split', 'chunk'):
            r = getattr(t, op)(*args)[-1]
        else:
            r = getattr(t, op)(*args)
    except (RuntimeError, IndexError, ValueError):
        return 'error'
    own = op in ('clone', 'empty_like', 'to_double') or (
        op in ('reshape', 'contiguous', 'flatten', 'channels_last') and
        r.storage().data_ptr() != t.storage().data_ptr())
    return '|'.join([commas(r.size()), commas(r.stride()), 'copy' if own else str(r.storage_offset())])


def commas(values):
    return ','.join(map(str, values))


try:
    torch.ops.aten.is_non_overlapping_and_dense(torch.empty(2))
    DENSE = True
except Exception:  # the operator is newer than this PyTorch
    DENSE = False

lines = []
for sizes, strides, offset in bases():
    storage = offset + 1 + sum((s - 1) * d for s, d in zip(sizes, strides)) if 0 not in sizes else 64
    storage += rng.choice([0, 3])
    t = torch.empty(storage).as_strided(sizes, strides, offset)
    for op, args in questions(t):
        text = ' '.join([op] + ['[' + commas(a) + ']' if isinstance(a, list) else str(a) for a in args])
        head = '|'.join([commas(sizes), commas(strides), str(offset), str(storage), text])
        lines.append(head + '|' + answer(t, op, args))
print('# Made by make_view_table.py. Do not edit.')
print('\n'.join(dict.fromkeys(lines)))
