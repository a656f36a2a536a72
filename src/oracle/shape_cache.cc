// SPDX-License-Identifier: Apache-2.0
#include "oracle/shape_cache.h"

#include <utility>

#include "os/files.h"

namespace cupel::oracle {
namespace {

constexpr uint64_t kShapeCacheBytes = 256u << 20;
constexpr size_t kMaxShapeBytes = 32u << 20;
constexpr size_t kMaxShapes = 8192;

}  // namespace

ShapeCache::ShapeCache(std::filesystem::path root, std::stop_token stop)
    : files_(std::move(root), kShapeCacheBytes, std::move(stop)) {}

Json ShapeCache::Load(const std::string& key) const {
  Json none = Json::object();
  const auto lock = files_.Lock(key + ".lock");
  if (!lock) return none;
  const auto text = os::ReadFile(files_.PathOf(key), kMaxShapeBytes);
  if (!text) return none;
  auto json = ParseJson(*text, "calls without data");
  return json && json->is_object() ? std::move(*json) : none;
}

void ShapeCache::Save(const std::string& key, const Json& calls) const {
  const auto lock = files_.Lock(key + ".lock");
  if (!lock || calls.size() > kMaxShapes) return;
  const std::string text = DumpJson(calls);
  (void)files_.Write(key, text);
  files_.TrimAfter(text.size());
}

}  // namespace cupel::oracle
