// The default dtype of factories.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/typeid.h"

namespace c10 {
inline caffe2::TypeMeta get_default_dtype() {
  return caffe2::TypeMeta::fromScalarType(ScalarType::Float);
}
inline ScalarType get_default_dtype_as_scalartype() { return ScalarType::Float; }
}  // namespace c10
