// The versions of the stable ABI. The shim has all of the newest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch/headeronly/version.h"

#define TORCH_VERSION_2_9_0 CUPEL_TORCH_VERSION(2, 9)
#define TORCH_VERSION_2_10_0 CUPEL_TORCH_VERSION(2, 10)
#define TORCH_VERSION_2_11_0 CUPEL_TORCH_VERSION(2, 11)
#define TORCH_VERSION_2_12_0 CUPEL_TORCH_VERSION(2, 12)
#define TORCH_VERSION_2_13_0 CUPEL_TORCH_VERSION(2, 13)
#ifndef TORCH_FEATURE_VERSION
#ifdef TORCH_TARGET_VERSION
#define TORCH_FEATURE_VERSION TORCH_TARGET_VERSION
#else
#define TORCH_FEATURE_VERSION TORCH_ABI_VERSION
#endif
#endif
