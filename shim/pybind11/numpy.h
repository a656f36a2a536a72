// NumPy arrays cannot cross into a recorded candidate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#error "unsupported: pybind11/numpy.h (candidates take tensors, not NumPy arrays)"
