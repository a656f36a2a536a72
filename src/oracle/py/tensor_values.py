# Nested values of calls and the tensors in them: copies, moves to float64, and random noise on inputs.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import torch

import cuda_on_cpu
import float64_place

Outputs = Sequence[torch.Tensor | None]  # of one call; None where the function returns None
Change = Callable[[torch.Tensor], torch.Tensor]  # of a float64 tensor


def tree_map(f: Callable[[Any], Any], value: Any) -> Any:
    """Applies f to the leaves of nested lists and tuples."""
    if isinstance(value, (list, tuple)):
        return tuple(tree_map(f, v) for v in value)
    return f(value)


def rounded(value: Any) -> Any:
    """A float of 1/2 and more as float32, all else as it is. Of smaller numbers, 1 - 0.1 differs by no more than a
    float32 constant."""
    if type(value) is not float or not 0.5 <= abs(value) <= torch.finfo(torch.float32).max:
        return value
    return struct.unpack("f", struct.pack("f", value))[0]


def leaves(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in leaves(v)]
    return [value]


def is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def roundoff(dtype: torch.dtype) -> float:
    """Unit roundoff u: half the spacing at 1."""
    return torch.finfo(dtype).eps / 2


def step_of(dtype: torch.dtype) -> float:
    """The relative amount by which inputs of a type are moved: 4u, at most that of bfloat16, since larger
    moves would show more than the result's slope."""
    return min(4 * roundoff(dtype), 2.0 ** -6)


def unchanged(value: Any) -> Any:
    return value


def flushed(tensor: torch.Tensor) -> torch.Tensor:
    """With zeros instead of numbers that are subnormal in float32."""
    return torch.where(tensor.abs() < torch.finfo(torch.float32).tiny, torch.zeros_like(tensor), tensor)


def has_subnormals(value: Any) -> bool:
    """True if one of the tensors has a number that is subnormal in float32 and bfloat16."""
    tiny = torch.finfo(torch.float32).tiny
    return any(bool(((v != 0) & (v.abs() < tiny)).any()) for v in leaves(value)
               if is_float(v) and v.dtype in (torch.float32, torch.bfloat16))


def overlaps(tensor: torch.Tensor) -> bool:
    """True if elements share memory, as of expanded tensors."""
    reach = 0  # of the elements along the dimensions of smaller strides
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False


def as_on_device(tensor: torch.Tensor) -> torch.Tensor:
    """Gives the tensor the strides that `.to("cuda")` gives: keeps dense ones, else contiguous. A tensor that the
    task's code has made there keeps its own."""
    if tensor.is_contiguous() or (cuda_on_cpu.is_there(tensor) and not overlaps(tensor)):
        return tensor
    return tensor.clone(memory_format=torch.preserve_format)


def detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def cloned(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def random_bits(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """0 or 1 for each element of the tensor, as float64 on its device. bernoulli_ is ten times slower."""
    count = tensor.numel()
    words = torch.empty(-(-count // 64), dtype=torch.int64).random_(-2 ** 63, None, generator=generator)
    octets = words.view(torch.uint8)
    masks = torch.tensor([1 << bit for bit in range(8)], dtype=torch.uint8)
    octets, masks = (float64_place.to_place_of(t, tensor) for t in (octets, masks))
    bits = octets.unsqueeze(1).bitwise_and(masks).ne(0)
    return bits.reshape(-1)[:count].to(torch.float64).reshape(tensor.shape)


class Noise:
    """Moves each element by step_of() its own type, or by `relative`, with random signs. With direction -1,
    the signs are the opposite of those with 1. `lines`: moves each line of n elements, along each dimension,
    together, too, sqrt(n) / 8 times as far. If all terms have one sign, a sum over the line then moves as far as by
    rounding of its partial sums, one after another, or three times as far. Moves of single elements average out."""

    def __init__(self, seed: int, direction: int = 1, relative: float | None = None, lines: bool = False) -> None:
        self.generator, self.direction, self.relative = torch.Generator(), direction, relative
        self.lines = lines
        self.generator.manual_seed(seed & 0x7FFFFFFFFFFFFFFF)

    def factors(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        step = self.direction * (self.relative or step_of(dtype))
        factors = random_bits(tensor, self.generator).mul_(2 * step).add_(1 - step)
        for dim in range(tensor.dim() if self.lines else 0):
            if tensor.numel() > 0:
                far = step * math.sqrt(tensor.size(dim)) / 8
                factors *= random_bits(tensor.narrow(dim, 0, 1), self.generator).mul_(2 * far).add_(1 - far)
        return factors


def to_double(value: Any, noise: Noise | Change | None = None, place: float64_place.Cpu | None = None) -> Any:
    """A float64 copy at `place`, perturbed by `noise`: a Noise (2^-22 for float32) or a Change."""
    if not isinstance(value, torch.Tensor):
        return value
    value = (place or float64_place.CPU).put(value.detach())
    if not value.is_floating_point():
        return value.clone()
    result = value.to(torch.float64, copy=True)
    if callable(noise):
        return noise(result)
    if noise is not None:
        result *= noise.factors(result, value.dtype)
    return result


def storage_bytes(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes()
