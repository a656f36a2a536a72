// SPDX-License-Identifier: Apache-2.0
#include "app/ceilings.h"

#include <cctype>

#include "base/json.h"
#include "os/files.h"
#include "os/folders.h"
#include "records/json.h"

namespace cupel::app {
namespace {

constexpr size_t kMostStoredBytes = 1 << 16;

std::string FileName(std::string gpu) {
  for (char& c : gpu) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
  return gpu + ".json";
}

}  // namespace

Result<records::Ceilings> CeilingsOf(engine::Engine& engine) {
  TRY_ASSIGN(const auto cache, os::CacheDir());
  const auto path = cache / "ceilings" / FileName(engine.Device().full_name);
  // This is a cache: an unreadable file counts as missing.
  if (auto text = os::ReadFile(path, kMostStoredBytes)) {
    if (auto json = ParseJson(*text, path.string())) {
      // Earlier versions did not measure all products.
      auto ceilings = records::ReadCeilings(*json, "ceilings");
      if (ceilings && (ceilings->fp64_flops > 0 || ceilings->bf16_flops == 0)) return ceilings;
    }
  }
  TRY_ASSIGN(records::Ceilings ceilings, engine.MeasureCeilings());
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  TRY(os::WriteFileAtomically(path, DumpJson(records::ToJson(ceilings), 2) + "\n"));
  return ceilings;
}

}  // namespace cupel::app
