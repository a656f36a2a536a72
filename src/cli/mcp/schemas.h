// JSON Schemas of the arguments and answers of the MCP server's tools.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string_view>

#include "base/json.h"

namespace cupel::cli {

/// The schema of an object that may only have these members.
Json Arguments(Json properties, std::initializer_list<const char*> required);
/// The schema of an object that has at least the `required` members. Callers may rely on everything
/// in it.
Json AnswerOf(Json properties, std::initializer_list<const char*> required);

Json TextSchema(std::string_view description, size_t longest = 4096);
Json IntegerSchema(std::string_view description, int64_t least, int64_t most);
Json ChoiceSchema(std::string_view description, std::initializer_list<const char*> choices);

/// Adds "source", "path" and "language".
void AddKernel(Json& properties);
/// Adds "task", "direction", "settings", "seed", "device".
void AddQuestion(Json& properties, std::string_view settings);

/// The answer of the commands that judge.
Json VerdictSchema();
/// Adds the members that all answers with a record have.
void AddRecord(Json& properties);

}  // namespace cupel::cli
