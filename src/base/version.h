// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cupel {

/// The program's version. Every record includes it.
inline constexpr const char* kVersion = "0.2.0";

/// The commit that the program was built from, followed by "-dirty" if the tree had changes. Empty
/// if unknown. The build (cmake/commit.cmake) defines it, in the library of assay/.
const char* Commit();

}  // namespace cupel
