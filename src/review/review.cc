// SPDX-License-Identifier: Apache-2.0
#include "review/review.h"

namespace cupel::review {

const char* Name(Aspect aspect) {
  switch (aspect) {
    case Aspect::kCompile:
      return "compile";
    case Aspect::kMemory:
      return "memory";
    case Aspect::kNumerics:
      return "numerics";
  }
  return "numerics";
}

}  // namespace cupel::review
