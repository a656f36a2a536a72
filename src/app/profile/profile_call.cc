// SPDX-License-Identifier: Apache-2.0
#include "app/profile/profile_call.h"

#include <fmt/format.h>

#include <variant>

#include "app/profile/gpu_profile_text.h"
#include "build/build.h"
#include "os/files.h"
#include "task/case.h"

namespace cupel::app {
namespace {

Result<const task::Setting*> SettingOf(const CallToProfile& call) {
  for (const task::Setting& setting : call.task.SettingsOf(call.direction)) {
    if (setting.id == call.judged.planned_setting) return &setting;
  }
  return Fail(ErrorCode::kInternal,
              fmt::format("the task has no setting {}", call.judged.planned_setting));
}

}  // namespace

judge::SourceText SourceOf(const build::Image& image) {
  const auto text = os::ReadFile(image.source, build::kMaxSourceBytes);
  return text ? judge::SourceText(build::SourceName(image.source), *text) : judge::SourceText();
}

judge::SourceText SourceOf(const assay::Candidate& candidate) {
  judge::SourceText text;
  if (candidate.sources != nullptr) {
    for (const build::SourceFile& file : candidate.sources->files) text.Add(file.name, file.text);
  } else if (const build::Images* images = candidate.images()) {
    text = SourceOf(*images->front());
  }
  return text;
}

Result<GpuProfile> ProfileCall(Session& session, const CallToProfile& call, int ordinal,
                               const std::filesystem::path& keep) {
  TRY_ASSIGN(const task::Setting* const setting, SettingOf(call));
  TRY_ASSIGN(auto cases, session.oracle().Open(call.task, call.direction, *setting, 1, call.seed));
  TRY_ASSIGN(const std::optional<oracle::CaseOutcome> outcome, cases->Next());
  const task::Case* drawn = outcome ? std::get_if<task::Case>(&*outcome) : nullptr;
  if (drawn == nullptr) return Fail(ErrorCode::kInternal, "the oracle has no case for the setting");
  const auto storages = task::StoragesOf(drawn->args);
  GpuCall profiled{
      *call.judged.plan, call.judged.images, storages, session.engine().Device(), ordinal, {}};
  profiled.reserve = [&] { return session.engine().Reserve(); };
  profiled.stop = session.parts().stop;
  if (!keep.empty()) profiled.keep = keep / setting->id;
  return ProfileOnGpu(profiled);
}

Result<std::string> ProfilePage(Session& session, const CallToProfile& call, int ordinal) {
  const auto profile = ProfileCall(session, call, ordinal, {});
  if (!profile) {
    if (profile.error().code == ErrorCode::kCancelled) return tl::unexpected(profile.error());
    return std::string();
  }
  TRY_ASSIGN(const task::Setting* const setting, SettingOf(call));
  const std::string head =
      fmt::format("A call at {} on {}", setting->Describe(), session.engine().Device().full_name);
  return GpuProfileText(head, *profile, SourceOf(*call.judged.images.front()));
}

}  // namespace cupel::app
