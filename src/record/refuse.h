// How the recorder child ends a recording early: it sends the refusal and exits, without returning
// to the candidate's code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace cupel::record {

/// `code` is one of record::Refusal's codes.
[[noreturn]] void Refuse(std::string_view code, std::string_view message,
                         std::string_view where = {});

/// For features that cupel does not implement: marks the refusal as unsupported.
[[noreturn]] void RefuseUnsupported(std::string_view code, std::string_view message,
                                    std::string_view where = {});

/// Turns crashes and denied system calls into refusals. The handlers run on their own stack, so
/// that a stack overflow is reported too.
void InstallCrashHandlers();

}  // namespace cupel::record
