// SPDX-License-Identifier: Apache-2.0
#include "app/install_hint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "os/files.h"

namespace cupel::app {
namespace {

constexpr size_t kMaxOsRelease = 64u << 10;

struct Family {
  std::string_view id;        // as in ID or ID_LIKE
  std::string_view install;   // the package manager's command
  std::string_view compiler;  // package names
  std::string_view toolkit;   // empty if the distribution has none that is new enough
};

// NVIDIA's own repositories call the toolkit cuda-toolkit-13-0. Debian 12 and Ubuntu 24.04 have
// only older ones themselves.
constexpr std::array<Family, 5> kFamilies = {{
    {"debian", "apt-get install", "g++", ""},
    {"fedora", "dnf install", "gcc-c++", ""},
    {"rhel", "dnf install", "gcc-c++", ""},
    {"suse", "zypper install", "gcc-c++", ""},
    {"arch", "pacman -S", "gcc", "cuda"},
}};

/// The words of ID and ID_LIKE, for example "ubuntu debian".
std::string Ids(std::string_view os_release) {
  std::string ids;
  for (const std::string_view whole : SplitLines(os_release)) {
    const std::string_view line = Trim(whole);
    for (const std::string_view key : {"ID=", "ID_LIKE="}) {
      if (line.starts_with(key)) ids += fmt::format(" {} ", Trim(line.substr(key.size()), "\"'"));
    }
  }
  return ids;
}

const Family* FamilyOf(std::string_view os_release) {
  const std::string ids = Ids(os_release);
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& family) {
    // "opensuse-leap" and "suse opensuse" both name SUSE.
    return ids.find(family.id) != std::string::npos;
  });
  return found == kFamilies.end() ? nullptr : &*found;
}

}  // namespace

std::string ReadOsRelease() { return os::ReadFile("/etc/os-release", kMaxOsRelease).value_or(""); }

std::string InstallHint(Need need, std::string_view os_release) {
  const Family* family = FamilyOf(os_release);
  switch (need) {
    case Need::kCompiler:
      return family == nullptr ? "install g++, which nvcc needs"
                               : fmt::format("{} {}", family->install, family->compiler);
    case Need::kToolkit: {
      const std::string pip =
          "set CUPEL_NVCC to nvcc; for the Python package also: pip install \".[nvcc]\" in cupel's "
          "source tree";
      if (family == nullptr) {
        return "install the CUDA toolkit 12.4 or later "
               "(https://developer.nvidia.com/cuda-downloads), " +
               pip;
      }
      if (!family->toolkit.empty()) {
        return fmt::format("{} {}, or {}", family->install, family->toolkit, pip);
      }
      return fmt::format(
          "add NVIDIA's package repository (https://developer.nvidia.com/cuda-downloads) and run "
          "{} "
          "cuda-toolkit-13-0, or {}",
          family->install, pip);
    }
  }
  return "";
}

}  // namespace cupel::app
