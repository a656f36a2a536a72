// Writes the results of a suite as CSV, as Markdown and as text for the terminal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "report/suite/scores.h"

namespace cupel::report {

/// One row for each kernel and setting, RFC 4180. Texts that a spreadsheet would interpret as a
/// formula get a leading apostrophe.
std::string SuiteCsv(const Suite& suite);

std::string SuiteMarkdown(const Suite& suite, const SuiteScores& scores);

/// The text for the terminal, in lines of at most `width` columns (0: unlimited).
std::string SuiteText(const Suite& suite, const SuiteScores& scores, int width = 0);

/// "12.3 us", "4.56 ms": three digits.
std::string Microseconds(double us);

}  // namespace cupel::report
