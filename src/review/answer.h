// The strict format of a reviewer's answer. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cupel::review {

/// How an answer ends, as models are told it.
std::string_view AnswerFormat();

struct Stated {
  bool fine = false;
  double confidence = 0;
  std::string line;     // as quoted, without its number; empty: none
  int line_number = 0;  // as stated; 0: none
  std::string reason;
};

/// Reads VERDICT, CONFIDENCE, LINE and REASON, in this order, each once as a line of its own; there
/// may be any prose before, and markdown around the names. Errors kInvalidArgument say, in words
/// for the model, what is missing or contradicts. Linear in the text, of which 256 KiB are allowed.
Result<Stated> ReadAnswer(std::string_view text);

/// The line of `source` (as shown, from 1) that `stated` quotes: the one with that number, else the
/// only or first one with that text, blanks apart; a quote that is a part of a line of at least
/// eight signs counts. 0: there is none.
int FindQuote(std::string_view source, const Stated& stated);

}  // namespace cupel::review
