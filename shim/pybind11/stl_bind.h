// See pybind11/pybind11.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pybind11/pybind11.h"
