// See ATen/ATen.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/ATen.h"
