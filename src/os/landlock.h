// Landlock's access rights up to ABI 7. The headers of older systems end at ABI 2, so the numbers
// are defined here. At run time the kernel reports which ABI it supports.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cupel::os::landlock {

// <linux/landlock.h>, LANDLOCK_ACCESS_FS_*: the bit's position is ABI.
inline constexpr uint64_t kExecute = 1 << 0;
inline constexpr uint64_t kWriteFile = 1 << 1;
inline constexpr uint64_t kReadFile = 1 << 2;
inline constexpr uint64_t kReadDir = 1 << 3;
inline constexpr uint64_t kMakeAndRemove =
    0x1ff0;                                     // remove and make_* but devices are bound by nodev
inline constexpr uint64_t kRefer = 1 << 13;     // ABI 2
inline constexpr uint64_t kTruncate = 1 << 14;  // ABI 3
inline constexpr uint64_t kIoctlDevice = 1 << 15;  // ABI 5

inline constexpr uint64_t kRead = kExecute | kReadFile | kReadDir;
inline constexpr uint64_t kWrite = kWriteFile | kMakeAndRemove | kRefer | kTruncate;
/// The rights that can be granted on a path that is not a folder.
inline constexpr uint64_t kFileRights =
    kExecute | kWriteFile | kReadFile | kTruncate | kIoctlDevice;

/// The first ABI that protects the content of files without a mount namespace. Earlier ABIs allow
/// truncate(2) of any of the user's files.
inline constexpr int kMinAbiWithoutMounts = 3;

inline constexpr uint64_t FsRights(int abi) {
  uint64_t rights = 0x1fff;
  if (abi >= 2) rights |= kRefer;
  if (abi >= 3) rights |= kTruncate;
  if (abi >= 5) rights |= kIoctlDevice;
  return rights;
}

/// struct landlock_ruleset_attr. Kernels that do not know the later fields require them to be zero.
struct Ruleset {
  uint64_t fs;
  uint64_t net;     // ABI 4: bind and connect of TCP
  uint64_t scoped;  // ABI 6: abstract UNIX sockets, and signals to processes outside
};

}  // namespace cupel::os::landlock
