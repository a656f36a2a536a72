// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cupel {

/// Of the program; part of every record.
inline constexpr const char* kVersion = "0.1.0";

/// The commit it was built from, "-dirty" behind it where the tree was changed; empty where that is
/// not known. Defined by the build (cmake/commit.cmake), in the library of assay/.
const char* Commit();

}  // namespace cupel
