# SPDX-License-Identifier: Apache-2.0
"""The parts of tools/mutate.py. Importing the operators registers them. The order of these imports
determines which mutants a seed draws."""

from . import place_operators  # noqa: F401
from . import value_operators  # noqa: F401
from . import host_operators  # noqa: F401
