// The parts of the pages, embedded at build time (page/, cmake/embed.cmake): first the shared
// parts, then those of each page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cupel::report {

const char* CommonCss();
const char* DomJs();      // needs the data block
const char* AxesJs();     // plots
const char* ListingJs();  // the table with search, filters and order

const char* SuiteBodyHtml();
const char* SuiteBaseJs();
const char* SuitePlotsJs();
const char* SuiteTableJs();
const char* SuiteMainJs();

const char* RunBodyHtml();
const char* RunCss();
const char* RunBaseJs();
const char* RunDiffJs();
const char* RunProgressJs();
const char* RunTreeJs();
const char* RunCandidateJs();
const char* RunTablesJs();
const char* RunMainJs();

const char* ComparisonBodyHtml();
const char* ComparisonJs();

}  // namespace cupel::report
