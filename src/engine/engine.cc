// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

namespace cupel::engine {

task::Tensor OutputTensor::View() const {
  task::Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.strides = task::ContiguousStrides(shape);
  tensor.storage = bytes;
  return tensor;
}

}  // namespace cupel::engine
