// SPDX-License-Identifier: Apache-2.0
#include "oracle/environment.h"

#include <unistd.h>

#include <string_view>

namespace cupel::oracle {

std::map<std::string, std::string> ChildEnvironment() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  environment["PYTHONDONTWRITEBYTECODE"] = "1";  // no __pycache__ in the user's task folders
  environment["PYTHONUNBUFFERED"] = "1";
  // cupel judges while the child computes: waiting threads must not spin.
  environment.emplace("OMP_WAIT_POLICY", "PASSIVE");
  // Large tensors come and go, and most of the time goes into page faults: memory that is kept
  // rather than given back, in huge pages, spares nine of ten.
  environment.emplace("GLIBC_TUNABLES",
                      "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184:"
                      "glibc.malloc.hugetlb=1");
  return environment;
}

}  // namespace cupel::oracle
