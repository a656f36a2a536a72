# Types that the oracle's modules share. Needs no PyTorch. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import Any

Json = dict[str, Any]  # a JSON object: a request, a reply, or a part of one
Send = Callable[[Json], None]  # sends a message to cupel
Report = Callable[[str], None]  # tells cupel what the current request is doing
