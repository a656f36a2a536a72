// A candidate's images in an engine. A Python program's images are known only when a call has been
// recorded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/result.h"
#include "build/image.h"
#include "engine/engine.h"

namespace cupel::assay {

/// Not thread-safe.
class LoadedImages {
 public:
  /// Borrows the engine.
  explicit LoadedImages(engine::Engine& engine) : engine_(&engine) {}
  /// Images that are loaded already. Borrows the program.
  explicit LoadedImages(engine::Program& program) : program_(&program) {}

  /// Loads the images, unless they are the ones that are loaded. Errors: Engine::Load's.
  Status Use(const build::Images& images);
  /// Needs a successful Use().
  engine::Program& program() const { return *program_; }

 private:
  engine::Engine* engine_ = nullptr;
  build::Images images_;
  std::unique_ptr<engine::Program> owned_;
  engine::Program* program_ = nullptr;
};

/// True for an error about PTX that cupel does not support or that exceeds its limits: the
/// candidate's fault.
bool IsUnsupportedCode(const Error& error);

}  // namespace cupel::assay
