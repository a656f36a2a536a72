// The test program also acts as a worker: with the argument "worker" it runs FakeWorkerMain.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string_view>

#include "serve/fake_worker.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "worker") {
    return cupel::serve::FakeWorkerMain(argc > 2 ? argv[2] : "");
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
