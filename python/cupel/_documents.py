"""The documents that cupel writes, as dataclasses. The fields have the names of docs/formats; `raw` is
the whole document, with every member. SPDX-License-Identifier: Apache-2.0"""

from __future__ import annotations

import dataclasses
import math
import typing
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


def read(kind: type[T], document: dict[str, Any], **more: Any) -> T:
    """Makes a dataclass of a JSON object. Members that the class does not have stay in `raw`; members that
    are missing keep the default. The texts "nan", "inf" and "-inf" become numbers."""
    hints = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    for one in dataclasses.fields(kind):  # type: ignore[arg-type]
        name = one.metadata.get("member", one.name)
        if one.name == "raw":
            values["raw"] = document
        elif name in document:
            values[one.name] = _convert(hints[one.name], document[name])
    return kind(**values, **more)


def _convert(hint: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union or type(hint).__name__ == "UnionType":  # X | None
        return None if value is None else _convert(arguments[0], value)
    if origin is tuple and isinstance(value, list):
        return tuple(_convert(arguments[0], each) for each in value)
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return read(typing.cast(type, hint), value)
    if hint is float:
        return math.nan if value is None else float(value)
    return value


@dataclass(frozen=True)
class Reason:
    """Why a kernel was not accepted. `code` is stable; `where` names setting, trial and output."""

    code: str
    message: str = ""
    where: str = ""


@dataclass(frozen=True)
class Finding:
    """What the engine saw: a race, an access out of bounds, and so on."""

    code: str
    severity: str = ""
    message: str = ""
    kernel: str = ""
    file: str = ""
    line: int = 0
    count: int = 1


@dataclass(frozen=True)
class Limit:
    """What the kernel cannot do and the task does not ask for."""

    kind: str
    message: str = ""
    detail: str = ""
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Error:
    """The largest error, absolute and as a share of what is allowed (above 1: rejected)."""

    rms: float = 0.0
    max: float = 0.0
    rms_over_limit: float = 0.0
    max_over_limit: float = 0.0


@dataclass(frozen=True)
class Setting:
    """A verdict at one setting of the task."""

    id: str
    kind: str = ""
    description: str = ""
    status: str = ""
    note: str = ""
    derived: str = ""
    reduced: str = ""
    problems: tuple[Reason, ...] = ()
    findings: tuple[Finding, ...] = ()
    largest_error: Error | None = None
    raw: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def passed(self) -> bool:
        return self.status == "passed"

    @property
    def estimated_us(self) -> float:
        """Microseconds for a call, estimated from counted work; NaN if there is no estimate."""
        return float((self.raw.get("counters") or {}).get("estimated_us") or math.nan)


@dataclass(frozen=True)
class Verdict:
    """cupel.verdict/1: the decision about a kernel. `decision` is "accepted", "rejected", "unsupported"
    or "error"; `text` is what the program prints."""

    decision: str = field(metadata={"member": "verdict"})
    task: str = ""
    direction: str = ""
    kernel: str = ""
    device: str = ""
    seed: str = ""
    reasons: tuple[Reason, ...] = ()
    limits: tuple[Limit, ...] = ()
    notes: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
    declared: str = ""
    settings: tuple[Setting, ...] = ()
    raw: dict[str, Any] = field(default_factory=dict, repr=False)
    text: str = field(default="", repr=False)

    @property
    def accepted(self) -> bool:
        return self.decision == "accepted"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Refusal:
    """Why a time does not count."""

    code: str
    message: str = ""
    where: str = ""


@dataclass(frozen=True)
class Interval:
    """An estimate (a median time, or a ratio of times) with its confidence interval."""

    estimate: float
    low: float = math.nan
    high: float = math.nan
    confidence: float = 0.0


@dataclass(frozen=True)
class Timing:
    """How long one call takes, in microseconds. `us` is the median with a cold cache."""

    name: str
    baseline: bool = False
    us: Interval | None = None
    spread_us: float = math.nan
    warm_us: float = math.nan
    host_us: float | None = None
    roofline: float = math.nan
    samples: int = 0
    refused: Refusal | None = None
    raw: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Comparison:
    """The time of `a` over the time of `b`. `a_is` is "faster", "slower" or "no difference"."""

    a: str
    b: str
    ratio: Interval | None = None
    a_is: str = ""


@dataclass(frozen=True)
class BenchSetting:
    id: str
    kind: str = ""
    description: str = ""
    note: str = ""
    timings: tuple[Timing, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    raw: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class BenchKernel:
    name: str
    verdict: Verdict | None = None


@dataclass(frozen=True)
class Bench:
    """cupel.bench/1: times of kernels and of PyTorch on a GPU."""

    task: str = ""
    direction: str = ""
    gpu: str = ""
    torch: str = ""
    kernels: tuple[BenchKernel, ...] = ()
    settings: tuple[BenchSetting, ...] = ()
    raw: dict[str, Any] = field(default_factory=dict, repr=False)
    text: str = field(default="", repr=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Launch:
    """One kernel launch: its estimated time, and what bounds it."""

    kernel: str
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    estimated_us: float = math.nan
    bottleneck: str = ""
    occupancy: float = math.nan
    limited_by: str = ""
    raw: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class ProfileSetting:
    id: str
    description: str = ""
    status: str = ""
    estimated_us: float = math.nan
    launches: tuple[Launch, ...] = ()
    raw: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Profile:
    """cupel.profile/1: what a kernel spends its time on."""

    task: str = ""
    direction: str = ""
    kernel: str = ""
    device: str = ""
    verdict: str = ""
    settings: tuple[ProfileSetting, ...] = ()
    raw: dict[str, Any] = field(default_factory=dict, repr=False)
    text: str = field(default="", repr=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class SuiteSetting:
    """A kernel of a suite at one setting. `estimate_us` comes from the emulator, `us` from a GPU."""

    id: str
    kind: str = ""
    description: str = ""
    status: str = ""
    estimate_us: float = math.nan
    us: Interval | None = None
    raw: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class SuiteItem:
    """One kernel for one direction of a task."""

    id: str
    task: str = ""
    direction: str = ""
    kernel: str = ""
    decision: str = ""
    reasons: tuple[Reason, ...] = ()
    settings: tuple[SuiteSetting, ...] = ()
    raw: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Suite:
    """cupel.suite/1: the results of many kernels on many tasks. `folder` holds the tables and the page."""

    status: str = ""
    engine: str = ""
    device: str = ""
    seed: str = ""
    items: tuple[SuiteItem, ...] = ()
    scores: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    raw: dict[str, Any] = field(default_factory=dict, repr=False)
    folder: str = ""
    text: str = field(default="", repr=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Export:
    """cupel.export/1: a kernel as a PyTorch package. `folder` is where it was written."""

    package: str = ""
    folder: str = ""
    raw: dict[str, Any] = field(default_factory=dict, repr=False)
    text: str = field(default="", repr=False)

    def __str__(self) -> str:
        return self.text
