// The test program is also the GPU worker, as the cupel program is.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string_view>

#include "gpu/one_shot.h"
#include "gpu/worker.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == cupel::gpu::kWorkerCommand) {
    return cupel::gpu::WorkerMain(argc, argv);
  }
  if (argc > 1 && std::string_view(argv[1]) == cupel::gpu::kOneShotCommand) {
    return cupel::gpu::OneShotMain(argc, argv);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
