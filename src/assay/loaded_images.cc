// SPDX-License-Identifier: Apache-2.0
#include "assay/loaded_images.h"

#include <algorithm>

namespace cupel::assay {

Status LoadedImages::Use(const build::Images& images) {
  if (engine_ == nullptr) return {};
  const bool is_loaded =
      program_ != nullptr &&
      std::equal(images.begin(), images.end(), images_.begin(), images_.end(),
                 [](const auto& one, const auto& other) { return one->key == other->key; });
  if (is_loaded) return {};
  TRY_ASSIGN(owned_, engine_->Load(images));
  program_ = owned_.get();
  images_ = images;
  return {};
}

bool IsUnsupportedCode(const Error& error) {
  return error.code == ErrorCode::kUnsupported || error.code == ErrorCode::kInvalidArgument;
}

}  // namespace cupel::assay
