// Uses a folder as a model: each request is a file, and a person or an agent writes the answer into
// another file. The hash of a request is its file name. After a restart the program therefore finds
// earlier questions and their answers, and asks nothing twice.
//   HASH.request.md   the question; written atomically, never changed
//   HASH.answer.md    only the answer; best written under another name and then renamed
//   open.txt          a line for each question without an answer: its file, role and purpose
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
  std::optional<std::chrono::milliseconds> deadline;  // none: wait without limit
  std::chrono::milliseconds poll{200};
  /// An answer that is written in place is complete once it has not changed for this long.
  std::chrono::milliseconds settle{1000};
  size_t max_bytes = 8u << 20;
};

/// The name of a request in a mailbox: 24 digits of its hash.
std::string MailboxName(const Request& request);

/// Creates the folder (0700) if it does not exist.
Result<std::unique_ptr<Provider>> MailboxProvider(MailboxOptions options);

}  // namespace cupel::llm
