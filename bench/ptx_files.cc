// SPDX-License-Identifier: Apache-2.0
#include "ptx_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace cupel::bench {

std::string ReadPtx(const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(CUPEL_BENCH_PTX_DIR) / (name + ".ptx");
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty()) {
    fmt::print(stderr, "cannot read {}; build the target bench_kernels\n", path.string());
    std::exit(2);
  }
  return text.str();
}

std::vector<std::string> PtxNames() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(CUPEL_BENCH_PTX_DIR, error)) {
    if (entry.path().extension() == ".ptx") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace cupel::bench
