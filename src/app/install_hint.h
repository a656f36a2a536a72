// How to install what cupel needs, in the words of this machine's distribution.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cupel::app {

enum class Need { kCompiler, kToolkit };

/// The contents of /etc/os-release; empty if it cannot be read.
std::string ReadOsRelease();

/// What to do to get `need` on the distribution that `os_release` (a text in the format of
/// os-release(5)) describes. Unknown distributions get a general answer.
std::string InstallHint(Need need, std::string_view os_release);

}  // namespace cupel::app
