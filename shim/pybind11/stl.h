// Casters of standard containers are part of pybind11.h here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pybind11/pybind11.h"
