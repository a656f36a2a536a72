// SPDX-License-Identifier: Apache-2.0
#include "app/check/build.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "app/candidate.h"
#include "app/program.h"

namespace cupel::app {
namespace {

Json ToJson(const std::vector<build::Diagnostic>& diagnostics) {
  Json list = Json::array();
  for (const build::Diagnostic& d : diagnostics) {
    list.push_back(Json{{"severity", SeverityName(d.severity)},
                        {"file", d.file},
                        {"line", d.line},
                        {"message", d.message}});
  }
  return list;
}

void Describe(const build::Image& image, Json& json) {
  json["built"] = true;
  json["image"] = image.key;
  json["source_hash"] = image.source_hash;
  json["toolkit"] = image.toolkit;
  json["arch"] = image.arch;
  json["flags"] = image.flags;
  json["notes"] = image.notes;
  json["diagnostics"] = ToJson(image.warnings);
  json["kernels"] = Json::array();
  for (const build::KernelResources& kernel : image.resources) {
    json["kernels"].push_back(Json{{"name", kernel.kernel},
                                   {"registers", kernel.registers},
                                   {"static_shared", kernel.static_shared},
                                   {"local_bytes", kernel.local_bytes},
                                   {"spill_stores", kernel.spill_stores},
                                   {"spill_loads", kernel.spill_loads},
                                   {"constant_bytes", kernel.constant_bytes},
                                   {"remarks", kernel.remarks}});
  }
}

Json ReasonJson(const std::string& code, const std::string& message, const std::string& where) {
  return Json{{"code", code}, {"message", message}, {"where", where}};
}

void Describe(const build::BuildFailure& failure, Json& json) {
  json["built"] = false;
  json["reasons"] = Json::array({ReasonJson(failure.code, failure.message, failure.where)});
  json["diagnostics"] = ToJson(failure.diagnostics);
}

void Append(const Json& from, const char* key, Json& to) {
  if (!from.contains(key)) return;
  for (const Json& item : from[key]) to[key].push_back(item);
}

/// The document of a candidate with several images: all facts of each, and the members that
/// readers of a document look for, of all together.
void DescribeAll(const BuildReport& report, Json& json) {
  json["built"] = report.built();
  json["notes"] = report.notes;
  json["diagnostics"] = json["kernels"] = json["images"] = Json::array();
  Json reasons = Json::array();
  if (report.reason) {
    reasons.push_back(
        ReasonJson(report.reason->code, report.reason->message, report.reason->where));
  }
  const auto add = [&](const BuiltCode& code, const auto& result) {
    Json one{{"kind", code.kind}};
    if (!code.name.empty()) one["name"] = code.name;
    Describe(result, one);
    Append(one, "diagnostics", json);
    Append(one, "kernels", json);
    if (one.contains("reasons")) reasons.push_back(one["reasons"][0]);
    json["images"].push_back(std::move(one));
  };
  for (const BuiltCode& code : report.code) {
    if (const auto* failure = std::get_if<build::BuildFailure>(&code.built)) {
      add(code, *failure);
      continue;
    }
    for (const auto& image : std::get<build::Images>(code.built)) {
      add(code, *image);
      json["images"].back()["file"] = image->source_name;
    }
  }
  if (!reasons.empty()) json["reasons"] = std::move(reasons);
}

Result<BuildReport> BuildProgram(const assay::Candidate& program, const BuildOptions& options,
                                 Events& events) {
  TRY_ASSIGN(RecordedProgram recorded,
             RecordProgram(program, options.task, options.common, options.compile, events));
  BuildReport report;
  report.is_program = true;
  for (trace::ProgramCode& code : recorded.code) {
    report.code.push_back(
        {std::string(trace::NameOf(code.kind)), std::move(code.name), std::move(code.built)});
  }
  report.notes = std::move(recorded.notes);
  const auto explains = [&](const BuiltCode& code) {
    const auto* failure = std::get_if<build::BuildFailure>(&code.built);
    return failure != nullptr && failure->code == recorded.refusal->code;
  };
  if (recorded.refusal) {
    // The program fails because its extension does, which has more to say.
    if (std::any_of(report.code.begin(), report.code.end(), explains)) return report;
    report.reason =
        records::Reason{recorded.refusal->code, recorded.refusal->message, recorded.refusal->where};
    report.unsupported = recorded.refusal->unsupported;
  } else if (report.code.empty()) {
    report.reason = records::Reason{
        "no_kernel", "the program brings no kernel of its own: there is nothing to compile", ""};
  }
  return report;
}

}  // namespace

const char* SeverityName(build::Diagnostic::Severity severity) {
  switch (severity) {
    case build::Diagnostic::Severity::kError:
      return "error";
    case build::Diagnostic::Severity::kWarning:
      return "warning";
    case build::Diagnostic::Severity::kNote:
      return "note";
  }
  return "error";
}

bool BuildReport::built() const {
  return !reason && std::none_of(code.begin(), code.end(), [](const BuiltCode& one) {
    return std::holds_alternative<build::BuildFailure>(one.built);
  });
}

bool BuildReport::is_unsupported() const {
  if (reason) return unsupported;
  return std::any_of(code.begin(), code.end(), [](const BuiltCode& one) {
    const auto* failure = std::get_if<build::BuildFailure>(&one.built);
    return failure != nullptr && failure->unsupported;
  });
}

Result<BuildReport> Build(const BuildOptions& options, Events& events) {
  TRY_ASSIGN(assay::Candidate candidate,
             BuildCandidate(options.kernel, options.common, options.compile, events));
  ReportNotes(candidate, events);
  BuildReport report;
  if (std::holds_alternative<assay::PythonProgram>(candidate.built)) {
    TRY_ASSIGN(report, BuildProgram(candidate, options, events));
  } else if (const build::Images* images = candidate.images()) {
    report.code.push_back({"kernel", "", *images});
  } else {
    report.code.push_back({"kernel", "", std::get<build::BuildFailure>(candidate.built)});
  }
  report.kernel = options.kernel;
  return report;
}

Json ToJson(const BuildReport& report) {
  Json json{{"schema", "cupel.build/1"}, {"kernel", report.kernel.string()}};
  if (report.is_program) {
    DescribeAll(report, json);
    return json;
  }
  const build::SourcesOutcome& built = report.code.front().built;
  if (const auto* failure = std::get_if<build::BuildFailure>(&built)) {
    Describe(*failure, json);
  } else if (const auto& images = std::get<build::Images>(built); images.size() == 1) {
    Describe(*images.front(), json);
  } else {
    DescribeAll(report, json);
  }
  return json;
}

}  // namespace cupel::app
