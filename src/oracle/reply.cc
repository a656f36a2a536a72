// SPDX-License-Identifier: Apache-2.0
#include "oracle/reply.h"

#include <fmt/format.h>

namespace cupel::oracle {
namespace {

constexpr size_t kMaxText = 2000;

}  // namespace

tl::unexpected<Error> InvalidReply(std::string_view who, std::string_view what) {
  return Fail(ErrorCode::kInternal, fmt::format("{} sent an invalid reply: {}", who, what),
              "check the task's code, which runs in the same process");
}

Result<std::string> ReplyText(const Json& reply, const char* key, std::string_view who) {
  TRY_ASSIGN(std::string text, JsonString(reply, key, who));
  if (text.size() > kMaxText) text.resize(kMaxText);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

}  // namespace cupel::oracle
