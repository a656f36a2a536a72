// SPDX-License-Identifier: Apache-2.0
#include "oracle/installed.h"

#include <utility>

#include "os/folders.h"

namespace cupel::oracle {

Result<std::unique_ptr<Oracle>> OpenInstalled(
    const std::string& python, const std::stop_token& stop,
    std::function<void(const std::string& stage)> progress, std::optional<TruthGpu> gpu,
    int threads) {
  TRY_ASSIGN(const auto data, os::DataDir());
  TRY_ASSIGN(const auto cache, os::CacheDir());
  Options options;
  options.script = data / "src" / "oracle" / "py" / "oracle.py";
  options.python = python;
  options.cache = cache / "cases";
  options.progress = std::move(progress);
  options.gpu = std::move(gpu);
  options.threads = threads;
  options.stop = stop;
  return std::make_unique<TorchOracle>(std::move(options));
}

}  // namespace cupel::oracle
