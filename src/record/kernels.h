// What the recorder needs to know about an image's kernels, from its PTX and from ptxas's report.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/result.h"
#include "build/image.h"
#include "ptx/ir.h"
#include "record/work.h"

namespace cupel::record {

std::vector<Kernel> KernelsOf(const ptx::Module& module, const build::Image& image);

}  // namespace cupel::record
