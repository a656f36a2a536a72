// The results of a suite for spreadsheets (CSV), for documents (Markdown) and for the terminal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "report/suite_scores.h"

namespace cupel::report {

/// A row for each kernel and setting, RFC 4180. Texts that a spreadsheet would take for a formula
/// begin with an apostrophe.
std::string SuiteCsv(const Suite& suite);

std::string SuiteMarkdown(const Suite& suite, const SuiteScores& scores);

/// What the terminal shows at the end; lines of `width` columns at most (0: as long as they are).
std::string SuiteText(const Suite& suite, const SuiteScores& scores, int width = 0);

/// "12.3 us", "4.56 ms": three digits.
std::string Microseconds(double us);

}  // namespace cupel::report
