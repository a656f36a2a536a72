"""cupel judges CUDA kernels against PyTorch operations, and measures them.

The functions here run the `cupel` program that this package contains and return dataclasses made of its
JSON documents (docs/formats). They do not import PyTorch.

    import cupel

    verdict = cupel.check("kernel.cu", task="mnist_linear", settings="single")
    print(verdict.decision, verdict.text)

SPDX-License-Identifier: Apache-2.0
"""

from cupel._api import NotAccepted, bench, check, export, profile, suite
from cupel._documents import (
    Bench,
    BenchSetting,
    Comparison,
    Export,
    Finding,
    Interval,
    Launch,
    Limit,
    Profile,
    ProfileSetting,
    Reason,
    Refusal,
    Setting,
    Suite,
    SuiteItem,
    SuiteSetting,
    Timing,
    Verdict,
)
from cupel._program import CupelError, program, version

__version__ = version()

__all__ = [
    "Bench",
    "BenchSetting",
    "Comparison",
    "CupelError",
    "Export",
    "Finding",
    "Interval",
    "Launch",
    "Limit",
    "NotAccepted",
    "Profile",
    "ProfileSetting",
    "Reason",
    "Refusal",
    "Setting",
    "Suite",
    "SuiteItem",
    "SuiteSetting",
    "Timing",
    "Verdict",
    "__version__",
    "bench",
    "check",
    "export",
    "profile",
    "program",
    "suite",
]
