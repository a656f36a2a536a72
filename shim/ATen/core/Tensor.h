// at::Tensor with everything that it needs to be used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/factories.h"
