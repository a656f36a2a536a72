# Arithmetic in finite fields (docs/proof.md; src/engine/field.h has the same): a number is its residues modulo p and
# modulo q = (p - 1) / 2, for each of several p. Residues are int64 tensors of equal shape.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import fractions
import functools
import math
from collections.abc import Callable, Sequence

import torch

FIELDS = 4
PRIMES: tuple[int, ...] = ()  # those of the present proof (use_primes)
MODULI: tuple[int, ...] = ()  # of the residues: first those modulo p, then modulo q
LEAST_PRIME = 1 << 28
LIMB = 15  # bits; sums of 2^23 products of limbs are exact in float64
INPUTS, LOG2, SIN, COS, ERF = 1024, 1, 2, 3, 4  # what hashed() is asked for
WORD = (1 << 64) - 1
SHORT, ROUNDING = 10 ** 7, 2.0 ** -50  # denominators of short fractions; some roundings of float64
DECIMAL, CANCELLED = 10 ** 4, 2.0 ** -53  # denominators of fractions that sums with 1 leave, and their rounding
LARGEST_EXPONENT = 4096
ROOT = 23171  # above the root of 2^29
BABY, FIRST_PRIMES = 1 << 14, 50  # steps of logarithms; primes below this have no smaller ones to begin with
MOST_VALUES = 1 << 14  # of a table that are looked at
MOST_COMBINED = 16  # numbers of a reference whose products and quotients host code may compute

Residues = list[torch.Tensor]  # one for each of MODULI


def each(f: Callable[..., torch.Tensor], *operands: Residues) -> Residues:
    """f(modulus, residues...) for each modulus."""
    return [f(m, *parts) for m, *parts in zip(MODULI, *operands)]


def add(a: Residues, b: Residues) -> Residues:
    return each(lambda m, x, y: (x + y) % m, a, b)


def neg(a: Residues) -> Residues:
    return each(lambda m, x: -x % m, a)


def sub(a: Residues, b: Residues) -> Residues:
    return each(lambda m, x, y: (x - y) % m, a, b)


def mul(a: Residues, b: Residues) -> Residues:
    return each(lambda m, x, y: x * y % m, a, b)


def power_mod(m: int, base: torch.Tensor, exponent: int) -> torch.Tensor:
    result = torch.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base % m
        base, exponent = base * base % m, exponent >> 1
    return result


def inverse(a: Residues) -> Residues:
    return each(lambda m, x: power_mod(m, x, m - 2), a)


def sqrt(a: Residues) -> Residues:
    return each(lambda m, x: power_mod(m, x, (m + 1) // 4), a)


def two_to(exponents: torch.Tensor, p: int) -> torch.Tensor:
    """2 to powers below 2^28, modulo p."""
    result, base, exponents = torch.ones_like(exponents), 2, exponents.clone()
    for _ in range(28):
        result = torch.where(exponents & 1 == 1, result * base % p, result)
        base, exponents = base * base % p, exponents >> 1
    return result


def shift_right(z: torch.Tensor, bits: int) -> torch.Tensor:
    """Of words without a sign."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def signed(word: int) -> int:
    word &= WORD
    return word - (1 << 64) if word >> 63 else word


def hashed(seed: int, what: int, at: torch.Tensor) -> torch.Tensor:
    """Random numbers of 63 bits, the same for the same arguments."""
    z = at * signed(0xD1B54A32D192ED03) + signed(seed + what * 0x9E3779B97F4A7C15)
    z = (z ^ shift_right(z, 30)) * signed(0xBF58476D1CE4E5B9)
    z = (z ^ shift_right(z, 27)) * signed(0x94D049BB133111EB)
    return shift_right(z ^ shift_right(z, 31), 1)


def is_prime(n: int) -> bool:
    """The test of Miller and Rabin. These bases suffice below 2^31. n: odd, above 7."""
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7):
        powers = [pow(base, odd << i, n) for i in range(twos)]
        if powers[0] != 1 and n - 1 not in powers:
            return False
    return True


def use_primes(seed: int) -> None:
    """Draws the primes of a proof, as engine::FieldPrimes does."""
    global PRIMES, MODULI
    primes: list[int] = []
    for i in range(FIELDS):
        p = LEAST_PRIME + int(hashed(seed, 990 + i, torch.zeros((), dtype=torch.int64))) % LEAST_PRIME // 8 * 8 + 7
        while p in primes or not (is_prime(p // 2) and is_prime(p)):
            p = p + 8 if p + 8 < 2 * LEAST_PRIME else LEAST_PRIME + 7
        primes.append(p)
    PRIMES = tuple(primes)
    MODULI = PRIMES + tuple(p // 2 for p in PRIMES)


def hashed_size(seed: int, function: int, a: Residues) -> Residues:
    """A function that is known only by its argument, and is the same for the opposite of that."""
    sizes = [torch.minimum(part, m - part) for m, part in zip(PRIMES, a)]
    return [hashed(seed, 2 * function + i // FIELDS, sizes[i % FIELDS]) % m for i, m in enumerate(MODULI)]


def odd(seed: int, function: int, a: Residues) -> Residues:
    """The same, but its value is the opposite for the opposite of the argument."""
    values = hashed_size(seed, function, a)
    signs = [(part != 0).long() * (1 - 2 * (part > m - part).long()) for m, part in zip(PRIMES, a)]
    return [value * signs[i % FIELDS] % m for i, (m, value) in enumerate(zip(MODULI, values))]


def log2(seed: int, a: Residues) -> Residues:
    """Modulo q, the discrete logarithm, which has the laws of logarithms. Modulo p, known only by its argument."""
    return hashed_size(seed, LOG2, a)[:FIELDS] + [discrete_log(p, part) for p, part in zip(PRIMES, a)]


def small_quotient(p: int, a: int) -> tuple[int, int]:
    """Numbers below the root of p whose quotient is a or -a modulo p: half of Euclid's algorithm."""
    before, rest, factor_before, factor = p, a, 0, 1
    while rest >= ROOT:
        quotient = before // rest
        before, rest = rest, before - quotient * rest
        factor_before, factor = factor, factor_before - quotient * factor
    return rest, abs(factor)


@functools.lru_cache(maxsize=16)
def small_logarithms(p: int) -> torch.Tensor:
    """Of numbers up to the root of p; that of zero has no meaning. A number and its opposite have the same."""
    largest = [0, 1] + [0] * (ROOT - 1)  # prime divisor
    for n in range(2, ROOT + 1):
        if largest[n] == 0:
            largest[n::n] = [n] * len(range(n, ROOT + 1, n))  # overwrites smaller ones
    baby, power = {}, 1
    for step in range(BABY):
        baby.setdefault(min(power, p - power), step)
        power = power * 2 % p
    giant = pow(power, -1, p)
    of_primes = {1: 0}

    def logarithm(n: int) -> int:
        total = 0
        while n > 1:
            total, n = total + of_primes[largest[n]], n // largest[n]
        return total

    for n in (n for n in range(2, ROOT + 1) if largest[n] == n):
        power, found = n, 0
        if n < FIRST_PRIMES:  # Shanks' baby steps and giant steps
            while (step := baby.get(min(power, p - power))) is None:
                power, found = power * giant % p, found + BABY
            found += step
        else:  # n times a power of 2 is a quotient of numbers whose prime divisors are known
            above, below = n, 1
            while max(largest[above], largest[below]) >= n:
                power, found = power * 2 % p, found - 1
                above, below = small_quotient(p, power)
            found += logarithm(above) - logarithm(below)
        of_primes[n] = found % (p // 2)
    return torch.tensor([0, *(logarithm(n) % (p // 2) for n in range(1, ROOT + 1))])


def discrete_log(p: int, a: torch.Tensor) -> torch.Tensor:
    """k with 2^k = a or -a modulo p; 0 for 0. Half of Euclid's algorithm gives small numbers whose quotient is a."""
    before, rest = torch.full_like(a, p), a.clone()
    factor_before, factor = torch.zeros_like(a), torch.ones_like(a)
    while bool((more := rest >= ROOT).any()):
        quotient = torch.where(more, before // rest.clamp(min=1), 0)
        before, rest = torch.where(more, rest, before), torch.where(more, before - quotient * rest, rest)
        factor_before, factor = (torch.where(more, factor, factor_before),
                                 torch.where(more, factor_before - quotient * factor, factor))
    table = small_logarithms(p)
    return (table[rest] - table[factor.abs()]) % (p // 2)


def inputs(seed: int, index: int, positions: torch.Tensor) -> Residues:
    """The random elements of an input's elements at these positions of its storage."""
    return [hashed(seed, INPUTS + 2 * index + i // FIELDS, positions) % m for i, m in enumerate(MODULI)]


def exp2(seed: int, a: Residues, real: torch.Tensor) -> Residues:
    """Modulo q, 2^k times a function of the rest that is known only by its argument. k: the whole part of `real`."""
    whole = torch.where(real.abs() < LARGEST_EXPONENT, real, 0).floor().long()
    powers, exponents = [], []
    for p, part in zip(PRIMES, a[FIELDS:]):
        q = p // 2
        rest = (part - whole) % q
        hashes = torch.where(rest == 0, 1, hashed(seed, 0, rest) % q)
        powers.append(two_to(part, p))
        exponents.append(hashes * two_to(whole % (q - 1), q) % q)
    return powers + exponents


def bilinear(f: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], a: Residues, b: Residues) -> Residues:
    """f is linear in both operands and adds at most 2^22 products. It gets float64."""
    def parts(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x >> LIMB).double(), (x & ((1 << LIMB) - 1)).double()

    def one(m: int, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        (high, low), (other_high, other_low) = parts(x), parts(y)
        top = f(high, other_high).long() % m
        middle = (f(high, other_low) + f(low, other_high)).long() % m
        return (top * (1 << 2 * LIMB) % m + middle * (1 << LIMB) + f(low, other_low).long()) % m
    return each(one, a, b)


def linear(f: Callable[[torch.Tensor], torch.Tensor], a: Residues) -> Residues:
    """f adds at most 2^23 elements. It gets float64."""
    return each(lambda m, x: f(x.double()).long() % m, a)


def of_fraction(numerator: int, denominator: int) -> list[int]:
    return [numerator * pow(denominator, -1, m) % m for m in MODULI]


def fraction_of(value: float) -> fractions.Fraction:
    """The number that a float stands for: a short fraction within its rounding (0.1 and 1 - 0.9 are 1/10), or itself."""
    exact = fractions.Fraction(value)
    decimal = exact.limit_denominator(DECIMAL)
    if abs(decimal - exact) <= CANCELLED and abs(exact) * DECIMAL > 0.5:  # 1 - 0.9999
        return decimal
    short = exact.limit_denominator(SHORT)
    return short if abs(short - exact) <= abs(exact) * ROUNDING else exact


def of_float(value: float) -> list[int]:
    if not math.isfinite(value):
        return [0] * len(MODULI)
    return of_fraction(*fraction_of(value).as_integer_ratio())


def square_of(value: float) -> fractions.Fraction | None:
    """The short fraction whose root a number is, if it is no short fraction itself."""
    if not math.isfinite(value) or value <= 0 or fraction_of(value).denominator <= SHORT:
        return None
    square = fraction_of(value * value)
    return square if square.denominator <= SHORT else None


def of_number(value: float) -> list[int]:
    """Also of roots of short fractions, which kernels may compute."""
    square = square_of(value)
    if square is None:
        return of_float(value)
    return [pow(r, (m + 1) // 4, m) for r, m in zip(of_fraction(*square.as_integer_ratio()), MODULI)]


def is_known(value: float) -> bool:
    """Whether a number is a short fraction, or the root of one: nothing else has an element of its own."""
    return not math.isfinite(value) or fraction_of(value).denominator <= SHORT or square_of(value) is not None


def has_short_fractions(real: torch.Tensor) -> bool:
    values = torch.unique(real.detach().double())
    return values.numel() <= MOST_VALUES and all(is_known(float(v)) for v in values)


def of_tensor(real: torch.Tensor) -> Residues:
    """What the numbers of a tensor without elements stand for: themselves."""
    values, at = torch.unique(real.detach().double().nan_to_num(0.0, 0.0, 0.0), return_inverse=True)
    table = torch.tensor([of_float(float(v)) for v in values], dtype=torch.int64).reshape(-1, len(MODULI))
    return [table[:, i][at] for i in range(len(MODULI))]


class Numbers:
    """The numbers of a reference, by their double. Constants of a kernel may stand for them."""

    def __init__(self, seed: int) -> None:
        use_primes(seed)
        self.seed, self.known, self.noted = seed, {}, {}
        self.functions: set[str] = set()  # those of the reference that are known only by their argument
        random = torch.arange(1, dtype=torch.int64)
        ln2 = [int(hashed(seed, 999, random + i)) % m for i, m in enumerate(MODULI)]
        self.log2e = [pow(v, -1, m) for v, m in zip(ln2, MODULI)]
        self.put(math.log(2), ln2)
        self.put(math.log2(math.e), self.log2e)

    def put(self, value: float, residues: Sequence[int]) -> list[int]:
        return self.known.setdefault(value, list(residues))

    def note(self, value: float, residues: Sequence[int] | None = None) -> list[int]:
        """A number that the reference computes with; its inverse and multiples of log2(e) may replace it."""
        value = float(value)
        if abs(value) in self.known:
            own = self.known[abs(value)]
        else:
            own = self.put(abs(value), residues or of_number(abs(value)))
            if single(abs(value)) in (single(math.log(2)), single(math.log2(math.e))):
                self.functions.add("a number that float32 does not tell from log2(e) or ln(2)")
            self.noted[abs(value)] = own
            if not is_known(abs(value)):
                self.functions.add("numbers that are no short fractions")
            self.put(single(3 * single(abs(value))), [3 * v % m for v, m in zip(own, MODULI)])
            if value != 0 and math.isfinite(value):
                turned = [pow(v, -1, m) if v else 0 for v, m in zip(own, MODULI)]
                self.put(1 / abs(value), turned)
                for number, base in ((abs(value), own), (1 / abs(value), turned)):
                    scaled = [x * y % m for x, y, m in zip(base, self.log2e, MODULI)]
                    self.put(number * math.log2(math.e), scaled)
                    self.put(single(single(number) * single(math.log2(math.e))), scaled)
        return own if value >= 0 else [-v % m for v, m in zip(own, MODULI)]

    def combine(self) -> None:
        """Products and quotients of the numbers, and their squares, which host code may compute."""
        noted = [(v, r) for v, r in self.noted.items() if v not in (0, 1) and math.isfinite(v)][:MOST_COMBINED]
        for a, of_a in noted:
            for b, of_b in noted:
                product = [x * y % m for x, y, m in zip(of_a, of_b, MODULI)]
                quotient = [x * pow(y, -1, m) % m if y else 0 for x, y, m in zip(of_a, of_b, MODULI)]
                for value, residues in ((a * b, product), (a / b, quotient)):
                    self.put(value, residues)
                self.put(single(single(a) * single(b)), product)
                if single(b):
                    self.put(single(single(a) / single(b)), quotient)


def single(value: float) -> float:
    return float(torch.tensor(value, dtype=torch.float64).float())
