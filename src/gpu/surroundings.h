// Time and place of a run as a kernel can read them: %globaltimer gives the date and %smid the
// multiprocessor. Code could behave correctly only until a certain date, or on all multiprocessors
// except one. If a kernel reads them, its checked runs see changed values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cupel::gpu {

struct Surroundings {
  int64_t date_shift = 0;        // nanoseconds added to %globaltimer
  uint64_t processor_shift = 0;  // added to %smid, modulo %nsmid, which rotates the numbers
  bool operator==(const Surroundings&) const = default;
};

/// The module's variable that contains its Surroundings.
inline constexpr const char* kSurroundingsVariable = "cupel_surroundings";

bool ReadsSurroundings(std::string_view ptx);

/// Adds kSurroundingsVariable to `ptx` and applies its values to every read of %globaltimer and
/// %smid. PTX in a form that compilers do not generate may become invalid.
std::string WithOtherSurroundings(const std::string& ptx);

/// A random date from thirty years ago to sixty years ahead, and a random rotation of the
/// multiprocessors.
Surroundings DrawSurroundings(uint64_t seed);

}  // namespace cupel::gpu
