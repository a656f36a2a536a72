// The version of PyTorch's interface that the shim has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define TORCH_VERSION_MAJOR 2
#define TORCH_VERSION_MINOR 13
#define TORCH_VERSION_PATCH 0
#define TORCH_VERSION "2.13.0"
#define CUPEL_TORCH_VERSION(major, minor) (((0ULL + (major)) << 56) | ((0ULL + (minor)) << 48))
#define TORCH_ABI_VERSION CUPEL_TORCH_VERSION(TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR)
