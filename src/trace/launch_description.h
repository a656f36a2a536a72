// Candidates that are PTX with a description of their launches (docs/formats/launch.md): what
// compilers other than nvcc and Triton make.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "build/sources.h"

namespace cupel::trace {

/// The text of the Python program that a launch description stands for
/// (build::IsLaunchDescription). It contains the description and the PTX.
/// trace/py/launch_description.py runs it.
std::string ProgramOf(const build::Sources& description);

}  // namespace cupel::trace
