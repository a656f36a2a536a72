// What extensions include: tensors and pybind11.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch/extension.h"
