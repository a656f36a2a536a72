# The energy that a GPU has used, by the counter of the NVIDIA management library. It advances some tens of
# times per second. Calls the library with ctypes, because PyTorch does not offer this.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
from typing import Any

from cuda_clock import Driver

BUS_ID_BYTES = 32


class NoEnergy(Exception):
    """The energy cannot be read; str() says why."""


def open_library() -> Any:
    try:
        return ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        raise NoEnergy("measuring energy needs NVML (%s)" % error) from error


class EnergyCounter:
    """Of the GPU with this number among those that the driver shows to this process."""

    def __init__(self, driver: Driver, ordinal: int) -> None:
        self.library = open_library()
        bus_id = ctypes.create_string_buffer(BUS_ID_BYTES)
        driver.call("cuDeviceGetPCIBusId", bus_id, BUS_ID_BYTES, ordinal)
        self.gpu = ctypes.c_void_p()
        self.call("nvmlInit_v2")
        self.call("nvmlDeviceGetHandleByPciBusId_v2", bus_id, ctypes.byref(self.gpu))

    def call(self, name: str, *arguments: Any) -> None:
        try:
            code = getattr(self.library, name)(*arguments)
        except AttributeError as error:
            raise NoEnergy("NVML is too old: it has no %s" % name) from error
        if code != 0:
            raise NoEnergy("this GPU's energy cannot be read (%s: error %d)" % (name, code))

    def joules(self) -> float:
        millijoules = ctypes.c_ulonglong()
        self.call("nvmlDeviceGetTotalEnergyConsumption", self.gpu, ctypes.byref(millijoules))
        return millijoules.value / 1e3
