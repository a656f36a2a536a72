// The strict format of a reviewer's answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "review/review.h"

namespace cupel::review {

/// The description of the required end of an answer about these aspects, for prompts.
std::string AnswerFormat(const std::vector<Aspect>& aspects);

struct Stated {
  bool fine = false;
  double confidence = 0;
  std::string line;     // the quote without its number; empty: none
  int line_number = 0;  // as stated; 0: none
  std::string reason;
};

/// Reads an answer about these aspects: for each, in order, a line CHECK with its name and then the
/// four lines that ReadAnswer reads. A single aspect needs no CHECK line. Otherwise as ReadAnswer.
Result<std::vector<Stated>> ReadAnswers(std::string_view text, const std::vector<Aspect>& aspects);

/// Reads the lines VERDICT, CONFIDENCE, LINE and REASON, in this order and each once. Allows any
/// prose before them, and markdown around the names. The text of error kInvalidArgument is for the
/// model: it says what is missing or contradictory. Takes linear time; the text may have up to 256
/// KiB.
Result<Stated> ReadAnswer(std::string_view text);

/// The number of the line of `source` (as shown, from 1) that `stated` quotes: the stated number if
/// that line matches, else the first line that matches; 0 if none matches. Ignores blanks. A quote
/// of at least eight characters may be a part of a line.
int FindQuote(std::string_view source, const Stated& stated);

}  // namespace cupel::review
