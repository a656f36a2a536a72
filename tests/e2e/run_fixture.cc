// Makes the archives of two made-up runs for the tests of reports: run_fixture FOLDER writes
// FOLDER/models, FOLDER/other (the same run with another setting) and FOLDER/tuner.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>
#include <string>

#include "report/run/run_testing.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: run_fixture FOLDER\n", stderr);
    return 2;
  }
  const auto make = [&](const char* name, const cupel::report::TestRunOptions& options) {
    const std::filesystem::path folder = std::filesystem::path(argv[1]) / name;
    std::filesystem::create_directories(folder);
    cupel::report::MakeTestRun(folder / "run.cupel", options);
  };
  cupel::report::TestRunOptions options;
  make("models", options);
  options.review = false;
  options.step = 0.9;
  make("other", options);
  options.models = false;
  make("tuner", options);
  return 0;
}
