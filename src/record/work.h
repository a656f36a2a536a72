// Device work as the candidate requests it, with the addresses that it used. Captured graphs store
// it, and Session turns it into plan nodes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "plan/plan.h"

namespace cupel::record {

/// One kernel of an image: properties that the parent read from PTX and ptxas, and those that host
/// code set.
struct Kernel {
  struct Param {
    uint32_t offset = 0, bytes = 0;
  };
  std::string name;  // mangled
  int image = 0;     // that has it
  uint32_t param_bytes = 0;
  std::vector<Param> params;
  /// One byte per parameter byte, non-zero if the kernel reads it. Padding and unused parameters
  /// are not part of a plan. If empty, all bytes are.
  std::string read_mask;
  int registers = 0;
  int static_shared = 0;
  int local_bytes = 0;
  int constant_bytes = 0;
  int max_threads = 0;                  // .maxntid or .reqntid; 0: none
  std::array<int, 3> required_block{};  // .reqntid; zeros: none
  std::array<uint32_t, 3> cluster{};    // .reqnctapercluster; zeros: none
  bool waits_for_launch = false;        // may wait for the previous launch: griddepcontrol.wait
  // Set by host code.
  int max_dynamic_shared = -1;  // -1: never set
  bool nonportable_cluster = false;
};

struct RawLaunch {
  const Kernel* kernel = nullptr;
  plan::Dim3 grid, block, cluster;
  uint32_t dynamic_shared = 0;
  bool cooperative = false;
  bool early = false;  // as plan::Launch::early
  bool lone_clusters = false;
  std::string parameters;
};
struct RawCopy {
  uint64_t to = 0, from = 0, bytes = 0;
};
struct RawUpload {
  uint64_t to = 0;
  const void* source = nullptr;  // read when the node is issued, as in a CUDA graph
  uint64_t bytes = 0;
};
struct RawFill {
  uint64_t to = 0;
  std::string pattern;
  uint64_t count = 0;
};
struct RawView {
  uint64_t address = 0;
  DType dtype = DType::kU8;
  std::vector<int64_t> shape, strides;
};
struct RawCopyView {
  RawView to, from;
};
struct RawGemm {
  plan::Gemm gemm;  // all but the addresses
  uint64_t a = 0, b = 0, c = 0;
  /// cuBLAS's arrays of device pointers. The arrays are in device memory. 0: no pointer arrays.
  uint64_t a_array = 0, b_array = 0, c_array = 0;
};

/// An operator of PyTorch. The offsets of its views' addresses are device addresses.
struct RawOperator {
  plan::Operator work;
};

using RawWork =
    std::variant<RawLaunch, RawCopy, RawUpload, RawFill, RawCopyView, RawGemm, RawOperator>;

}  // namespace cupel::record
