// SPDX-License-Identifier: Apache-2.0
#include "record/channel.h"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "os/frames.h"
#include "os/sandbox.h"
#include "record/refuse.h"

namespace cupel::record {
namespace {

bool ReadExactly(char* to, size_t size) {
  while (size > 0) {
    const ssize_t got = read(os::kChildFd, to, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

std::optional<Json> ReadMessage() {
  uint32_t length = 0;
  if (!ReadExactly(reinterpret_cast<char*>(&length), sizeof length) ||
      length > os::kMaxFrameBytes) {
    return std::nullopt;
  }
  std::string payload(length, '\0');
  if (!ReadExactly(payload.data(), payload.size())) return std::nullopt;
  auto json = ParseJson(payload, "request");
  if (!json) Refuse("internal", json.error().ToString());
  return std::move(*json);
}

bool WriteMessage(const Json& json) {
  const std::string payload = DumpJson(json);
  const auto length = static_cast<uint32_t>(payload.size());
  std::string frame(reinterpret_cast<const char*>(&length), sizeof length);
  frame += payload;
  std::string_view rest = frame;
  while (!rest.empty()) {
    const ssize_t written = write(os::kChildFd, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    rest.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace cupel::record
