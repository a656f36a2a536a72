// The header that an extension of PyTorch includes: tensors, checks, dispatch and pybind11.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pybind11/pybind11.h"
#include "torch/all.h"
#include "torch/csrc/utils/pybind.h"

#ifndef TORCH_EXTENSION_NAME
#define TORCH_EXTENSION_NAME cupel_candidate
#endif

namespace py = pybind11;  // as in PyTorch's own header
