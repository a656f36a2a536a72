// A folder as a model: each request is a file, and somebody (a person, an agent) puts the answer
// beside it. Requests are named by their hash, so a question that was asked before the program
// stopped is found again, with its answer if there is one, and nothing is asked twice.
//   HASH.request.md   what is asked; written complete or not at all, never changed
//   HASH.answer.md    the answer, as it is; best written under another name and renamed
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include "llm/provider.h"

namespace cupel::llm {

struct MailboxOptions {
  std::filesystem::path folder;
  std::optional<std::chrono::milliseconds> deadline;  // none: until somebody answers
  std::chrono::milliseconds poll{200};
  /// An answer that is not renamed into place counts once it has not changed for this long.
  std::chrono::milliseconds settle{1000};
  size_t max_bytes = 8u << 20;
};

/// The name of a request in a mailbox: 24 digits of its hash.
std::string MailboxName(const Request& request);

/// Creates the folder (0700) when it is not there.
Result<std::unique_ptr<Provider>> MailboxProvider(MailboxOptions options);

}  // namespace cupel::llm
