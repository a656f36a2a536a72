// The arguments and answers of the MCP server's tools, as JSON Schema.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string_view>

#include "base/json.h"

namespace cupel::cli {

/// An object with no other members than these.
Json Arguments(Json properties, std::initializer_list<const char*> required);
/// An object in which at least these are; what of them is told here is what a caller relies on.
Json AnswerOf(Json properties, std::initializer_list<const char*> required);

Json TextSchema(std::string_view description, size_t longest = 4096);
Json IntegerSchema(std::string_view description, int64_t least, int64_t most);
Json ChoiceSchema(std::string_view description, std::initializer_list<const char*> choices);

/// Adds "source", "path" and "language".
void AddKernel(Json& properties);
/// Adds "task", "direction", "settings", "seed", "device".
void AddQuestion(Json& properties, std::string_view settings);

/// Of the commands that judge.
Json VerdictSchema();
/// Members that all answers with a record have.
void AddRecord(Json& properties);

}  // namespace cupel::cli
