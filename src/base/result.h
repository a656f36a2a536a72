// Errors as values. An `Error` means that cupel itself could not do its work (a missing tool, a
// broken file, a full disk). A candidate's failure is not an `Error` but data (see
// record/outcome.h, judge/verdict.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace cupel {

enum class ErrorCode {
  kInvalidArgument,  // wrong usage or malformed input from outside
  kNotFound,         // a file, task, kernel or tool does not exist
  kEnvironment,      // the machine lacks something cupel needs
  kIo,               // a read, write or process start failed
  kTimeout,          // a deadline passed
  kBusy,             // another process uses the resource; a later try may succeed
  kUnsupported,      // known not to be implemented; always reported
  kCancelled,        // the user asked to stop
  kInternal,         // a bug in cupel
};

/// What happened, and what the user can do about it.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // what happened, and where
  std::string remedy;   // what to do; empty if the message already says it

  /// "message; remedy" on one line.
  std::string ToString() const;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

/// `return Fail(ErrorCode::kIo, "cannot read x", "check permissions");`
inline tl::unexpected<Error> Fail(ErrorCode code, std::string message, std::string remedy = {}) {
  return tl::unexpected<Error>(Error{code, std::move(message), std::move(remedy)});
}

/// The name used in JSON and logs, e.g. "invalid_argument".
const char* ErrorCodeName(ErrorCode code);

/// Aborts with a message in every build type. Use it for broken invariants, never for bad input.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace cupel

#define CUPEL_CONCAT_INNER(a, b) a##b
#define CUPEL_CONCAT(a, b) CUPEL_CONCAT_INNER(a, b)

/// Returns the error of a Status/Result expression from the enclosing function.
#define TRY(expr)                                                               \
  do {                                                                          \
    auto&& try_result = (expr);                                                 \
    if (!try_result) return tl::unexpected<::cupel::Error>(try_result.error()); \
  } while (0)

/// `TRY_ASSIGN(auto x, F());` assigns the value or returns the error.
#define TRY_ASSIGN(lhs, expr) TRY_ASSIGN_INNER(CUPEL_CONCAT(try_value_, __LINE__), lhs, expr)
// The left side may be a declaration, which parentheses would break.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define TRY_ASSIGN_INNER(tmp, lhs, expr)                        \
  auto tmp = (expr);                                            \
  if (!tmp) return tl::unexpected<::cupel::Error>(tmp.error()); \
  lhs = std::move(*tmp)
// NOLINTEND(bugprone-macro-parentheses)

#define CHECK(condition) \
  ((condition) ? void(0) : ::cupel::CheckFailed(#condition, __FILE__, __LINE__))
