// The parts of the page of a suite's results, embedded at build (suite_page/, cmake/embed.cmake).
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cupel::report {

const char* PageHtml();
const char* PageCss();
const char* BaseJs();
const char* PlotsJs();
const char* TableJs();
const char* MainJs();

}  // namespace cupel::report
