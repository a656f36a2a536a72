// What a kernel can see of when and where it runs. A GPU's own clock tells the date, and %smid the
// multiprocessor, so code could behave until a day, or on all multiprocessors but one. Where a
// kernel reads them, its checked runs see a date and numbers of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cupel::gpu {

struct Surroundings {
  int64_t date_shift = 0;        // nanoseconds that are added to %globaltimer
  uint64_t processor_shift = 0;  // added to %smid, modulo %nsmid: the numbers change places
  bool operator==(const Surroundings&) const = default;
};

/// A variable of a module that holds its Surroundings.
inline constexpr const char* kSurroundingsVariable = "cupel_surroundings";

bool ReadsSurroundings(std::string_view ptx);

/// `ptx` with kSurroundingsVariable, whose values change whatever %globaltimer and %smid give. What
/// is written in a way that compilers do not write comes out as PTX that does not compile.
std::string WithOtherSurroundings(const std::string& ptx);

/// A date between thirty years back and sixty years ahead, and any order of multiprocessors that is
/// a rotation.
Surroundings DrawSurroundings(uint64_t seed);

}  // namespace cupel::gpu
