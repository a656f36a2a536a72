// Lines of the worker protocol, split and malformed. Each line is a message or an Error, and a
// message that is written again stays the same.
// SPDX-License-Identifier: Apache-2.0
#include "harness.h"
#include "os/lines.h"
#include "serve/protocol.h"

namespace cupel::fuzz {
namespace {

template <typename Read>
void ReadTwice(std::string_view line, const Read& read) {
  const auto message = read(line);
  if (!message) {
    CHECK(!message.error().message.empty());
    return;
  }
  const std::string text = serve::LineOf(*message);
  CHECK(text.find('\n') == std::string::npos);
  const auto again = read(text);
  CHECK(again.has_value());
  CHECK(serve::LineOf(*again) == text);
}

}  // namespace

void RunOne(std::string_view input) {
  os::Lines lines(1u << 16);
  // In two pieces, as a pipe may deliver them.
  lines.Feed(input.substr(0, input.size() / 2));
  lines.Feed(input.substr(input.size() / 2));
  for (;;) {
    const auto line = lines.Next();
    if (!line || !*line) break;
    ReadTwice(**line, serve::ReadFromWorker);
    ReadTwice(**line, serve::ReadToWorker);
    if (const auto hello = serve::FindHello(**line)) CHECK(*hello < (*line)->size());
  }
}

}  // namespace cupel::fuzz
