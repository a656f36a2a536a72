// pybind11 with casters for tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch/extension.h"
