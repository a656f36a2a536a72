// Limits on what one PTX text may make the parser allocate. Real modules stay far below: the
// largest that nvcc writes for template-heavy kernels have some hundred thousand instructions and
// registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace cupel::ptx {

inline constexpr uint64_t kMaxInt = std::numeric_limits<int>::max();  // for values stored in an int
inline constexpr uint64_t kMaxTextBytes = 64u << 20;
inline constexpr uint64_t kMaxRegisters = 1u << 20;        // in a function
inline constexpr uint64_t kMaxModuleRegisters = 4u << 20;  // in a module
inline constexpr uint64_t kMaxInstrs = 2u << 20;           // in a module
inline constexpr uint64_t kMaxOperands = 8u << 20;  // in a module, elements of vectors counted
inline constexpr uint64_t kMaxModifiersInModule = 16u << 20;
inline constexpr uint64_t kMaxNames = 2u << 20;       // variables, labels, pragmas of a module
inline constexpr size_t kMaxFunctions = 64u << 10;    // declarations included
inline constexpr uint64_t kMaxVectorElements = 1024;  // in one {…}
inline constexpr uint64_t kMaxModifiers = 32;         // of one instruction
inline constexpr int kMaxScopes = 32;                 // nested {…} in a function
inline constexpr uint64_t kMaxVariableBytes = uint64_t{1} << 40;
inline constexpr uint64_t kMaxInitializerBytes = 64u << 20;  // in a module
inline constexpr uint64_t kMaxAlign = 1u << 16;
inline constexpr uint64_t kMaxParamBytes = 1u << 20;  // of one parameter
inline constexpr uint64_t kMaxParams = 4096;          // of one function
inline constexpr int kMaxInlineDepth = 256;           // calls inlined into each other

}  // namespace cupel::ptx
