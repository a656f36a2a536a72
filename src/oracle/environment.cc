// SPDX-License-Identifier: Apache-2.0
#include "oracle/environment.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/lanes.h"
#include "base/parse_number.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/programs.h"

namespace cupel::oracle {

uint64_t KeptBytes(uint64_t memory, int threads, size_t cores) {
  constexpr uint64_t kLeast = uint64_t{1} << 30, kMost = uint64_t{16} << 30;
  constexpr double kShare = 0.125, kThreadsOfACore = 4;  // of all children together
  const double all = kThreadsOfACore * static_cast<double>(cores);
  const double share = threads > 0 ? std::min(static_cast<double>(threads) / all, 1.0) : 1;
  return std::clamp(static_cast<uint64_t>(kShare * share * static_cast<double>(memory)), kLeast,
                    kMost);
}

std::map<std::string, std::string> ChildEnvironment(int threads) {
  std::map<std::string, std::string> environment = os::CurrentEnvironment();
  environment["PYTHONDONTWRITEBYTECODE"] = "1";  // no __pycache__ in the user's task folders
  environment["PYTHONUNBUFFERED"] = "1";
  environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";  // number GPUs as the GPU worker does
  // cupel judges while the child computes, so waiting threads must not spin.
  environment.emplace("OMP_WAIT_POLICY", "PASSIVE");
  // PyTorch allocates and frees large tensors and spends most of that time in page faults. Keeping
  // freed memory, and using huge pages, avoids nine of ten faults.
  environment.emplace("GLIBC_TUNABLES",
                      fmt::format("glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold={}:"
                                  "glibc.malloc.hugetlb=1",
                                  KeptBytes(os::MemoryNow().total, threads, Cores())));
  if (threads > 0) {
    environment.emplace("CUPEL_TORCH_THREADS", std::to_string(threads));
    environment.emplace("TORCHINDUCTOR_COMPILE_THREADS", std::to_string(std::min(threads, 32)));
  }
  return environment;
}

std::chrono::seconds StepDeadline(std::chrono::seconds wanted) {
  if (wanted.count() > 0) return wanted;
  const std::string text = os::Variable("CUPEL_ORACLE_SECONDS");
  std::string_view rest = text;
  const auto seconds = TakeNumber<int64_t>(rest).value_or(0);
  return std::chrono::seconds(seconds > 0 ? seconds : 600);
}

}  // namespace cupel::oracle
