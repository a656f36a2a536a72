// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp/schemas.h"

#include <fmt/format.h>

#include "build/build.h"

namespace cupel::cli {
namespace {

Json ListOf(Json items) { return {{"type", "array"}, {"items", std::move(items)}}; }

Json Reason() {
  return AnswerOf({{"code", {{"type", "string"}}},
                   {"message", {{"type", "string"}}},
                   {"where", {{"type", "string"}}}},
                  {"code", "message"});
}

}  // namespace

Json AnswerOf(Json properties, std::initializer_list<const char*> required) {
  Json json{{"type", "object"}, {"properties", std::move(properties)}};
  json["required"] = Json::array();
  for (const char* name : required) json["required"].push_back(name);
  return json;
}

Json Arguments(Json properties, std::initializer_list<const char*> required) {
  Json json = AnswerOf(std::move(properties), required);
  json["additionalProperties"] = false;
  return json;
}

Json TextSchema(std::string_view description, size_t longest) {
  return {{"type", "string"}, {"description", description}, {"maxLength", longest}};
}

Json IntegerSchema(std::string_view description, int64_t least, int64_t most) {
  return {{"type", "integer"}, {"description", description}, {"minimum", least}, {"maximum", most}};
}

Json ChoiceSchema(std::string_view description, std::initializer_list<const char*> choices) {
  Json json{{"type", "string"}, {"description", description}};
  json["enum"] = Json::array();
  for (const char* choice : choices) json["enum"].push_back(choice);
  return json;
}

void AddKernel(Json& properties) {
  properties["source"] = TextSchema(
      "The kernel's source text: a CUDA file with a function forward (or backward) and "
      "PYBIND11_MODULE. Give either this or path.",
      build::kMaxSourceBytes);
  properties["path"] = TextSchema("A file, instead of source: .cu, or a Python answer (.py).");
  properties["language"] = ChoiceSchema(
      "Language of source: cuda (default), or python for a program in the form of KernelBench's "
      "answers, with load_inline or Triton. It is run on tensors without data, in a locked "
      "process.",
      {"cuda", "python"});
}

void AddQuestion(Json& properties, std::string_view settings) {
  properties["task"] =
      TextSchema("Name of a task (see task_list), or a path to a task folder or .py file.");
  properties["direction"] = ChoiceSchema("Default: forward.", {"forward", "backward"});
  properties["settings"] =
      ChoiceSchema(fmt::format("Sizes to try; single is quickest. Default: {}.", settings),
                   {"single", "multi", "heldout", "all"});
  properties["seed"] = IntegerSchema(
      "Seed of the inputs; the same seed repeats a verdict. Default: secret inputs.", 0, INT64_MAX);
  properties["device"] = TextSchema(
      "emu (the built-in emulator, no GPU needed), gpu or gpu:N. Default: the server's --device.",
      16);
}

void AddRecord(Json& properties) {
  properties["record"] = {
      {"type", "integer"},
      {"description", "Number of the call's whole document, for the tool record"}};
  properties["record_file"] = {{"type", "string"}, {"description", "File with the whole document"}};
  properties["left_out"] = ListOf({{"type", "string"}});
}

Json VerdictSchema() {
  Json properties{
      {"verdict", {{"type", "string"}, {"enum", {"accepted", "rejected", "unsupported", "error"}}}},
      {"reasons", ListOf(Reason())},
      {"notes", ListOf({{"type", "string"}})},
      {"settings", ListOf(AnswerOf({{"id", {{"type", "string"}}}, {"status", {{"type", "string"}}}},
                                   {"id", "status"}))}};
  AddRecord(properties);
  return AnswerOf(std::move(properties), {"verdict", "record", "record_file", "left_out"});
}

}  // namespace cupel::cli
