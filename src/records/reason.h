// Why a candidate was not accepted, or not timed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace cupel::records {

/// What a reason is about: the first of the places where it was found.
struct ReasonPlace {
  std::string setting;                  // its id; empty: none
  std::optional<size_t> trial, output;  // of the setting
  std::string file;                     // base name of the source, if a line is known
  int line = 0;                         // 0: not known
};

struct Reason {
  std::string code;     // stable, snake_case
  std::string message;  // one or two sentences
  std::string where;    // `at` as text: "kernel.cu:31", "single-0 trial 2 output 0"; may be empty
  ReasonPlace at = {};
  std::string further = {};  // follows the message: "also in multi-1"; may be empty

  /// The message and what follows it. A record contains only this.
  std::string Text() const { return further.empty() ? message : message + "; " + further; }
};

}  // namespace cupel::records
