// SPDX-License-Identifier: Apache-2.0
#include "judge/verdict_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "base/demangle.h"
#include "base/name_some.h"
#include "judge/established.h"
#include "judge/other_inputs.h"
#include "term/table.h"

namespace cupel::judge {
namespace {

constexpr size_t kMaxSettings = 40;
constexpr size_t kMaxKernels = 12;
constexpr size_t kNamedSizes = 6;

/// Replaces everything that could move a cursor: C0 and C1 controls, DEL, and bytes that are
/// neither ASCII nor part of a plain UTF-8 sequence.
std::string Safe(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    const bool c1 = c == 0xc2 && next < 0xa0;
    const bool lead = c >= 0xc2 && c < 0xf5 && next >= 0x80 && next < 0xc0;
    const bool inside = c >= 0x80 && c < 0xc0 && !out.empty() && (out.back() & 0x80) != 0;
    const bool plain = c >= 0x20 && c < 0x7f;
    out += c == '\n' || c == '\t' ? ' ' : plain || (lead && !c1) || inside ? text[i] : '?';
  }
  return out;
}

/// Wraps at spaces; the first line starts with `first`, the others with `rest`.
std::string Wrap(const std::string& text, int width, const std::string& first,
                 const std::string& rest) {
  std::string out = first, line;
  const size_t room = static_cast<size_t>(std::max(20, width - static_cast<int>(rest.size())));
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find(' ', at);
    if (end == std::string::npos) end = text.size();
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && line.size() + 1 + word.size() > room) {
      out.append(line).append("\n").append(rest);
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
    at = end + 1;
  }
  return out + line + "\n";
}

std::string Plural(size_t n, const char* noun) {
  const std::string_view word = noun;
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : word.ends_with("ch") ? "es" : "s");
}

/// "kernel_name<64>" without its parameters.
std::string KernelName(const std::string& mangled) {
  std::string text = Demangle(mangled);
  int angle = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    angle += text[i] == '<' ? 1 : text[i] == '>' ? -1 : 0;
    const bool anonymous = text.compare(i, 11, "(anonymous ") == 0;
    if (text[i] == '(' && angle == 0 && i > 0 && !anonymous) {
      text.resize(i);
      break;
    }
  }
  if (text.starts_with("void ")) text.erase(0, 5);
  return Safe(text);
}

const records::Comparison* Worst(const records::SettingReport& setting) {
  const records::Comparison* worst = nullptr;
  const auto rank = [](const records::Comparison& c) {
    return c.ok ? c.Severity() : 1e300 + c.Severity();
  };
  for (const records::TrialReport& trial : setting.trials) {
    for (const records::Comparison& c : trial.outputs) {
      if (worst == nullptr || !(rank(c) <= rank(*worst))) worst = &c;
    }
  }
  return worst;
}

size_t RightTrials(const records::SettingReport& setting) {
  return static_cast<size_t>(std::count_if(
      setting.trials.begin(), setting.trials.end(), [](const records::TrialReport& trial) {
        return trial.ok && std::all_of(trial.outputs.begin(), trial.outputs.end(),
                                       [](const records::Comparison& c) { return c.ok; });
      }));
}

/// The comparison that a reason is about; null if it is about none.
const records::Comparison* Find(const records::Verdict& verdict, const records::ReasonPlace& at) {
  if (!at.trial || !at.output) return nullptr;
  for (const records::SettingReport& setting : verdict.settings) {
    if (setting.id != at.setting || *at.trial >= setting.trials.size()) continue;
    const std::vector<records::Comparison>& outputs = setting.trials[*at.trial].outputs;
    return *at.output < outputs.size() ? &outputs[*at.output] : nullptr;
  }
  return nullptr;
}

std::string Headline(const records::Verdict& v, const TextOptions& options) {
  std::string word(records::Name(v.decision));
  std::transform(word.begin(), word.end(), word.begin(),
                 [](char c) { return static_cast<char>(std::toupper(c)); });
  const char* colour = v.decision == records::Decision::kAccepted ? "\x1b[1;32m" : "\x1b[1;31m";
  if (options.colour) word = colour + word + "\x1b[0m";
  const std::string kernel = std::filesystem::path(v.kernel_path).filename().string();
  std::string devices = v.device;
  for (const records::Verdict& other : v.other_engines) devices += " and " + other.device;
  return fmt::format("{}: {} for {} {} on {}\n", word, Safe(kernel), Safe(v.task),
                     task::Name(v.direction), Safe(devices));
}

std::string Reasons(const records::Verdict& v, const TextOptions& options) {
  std::string out;
  int number = 0;
  for (const records::Reason& reason : v.reasons) {
    const std::string where = reason.where.empty() ? "" : " at " + Safe(reason.where);
    out += fmt::format("  {}. {}{}\n", ++number, Safe(reason.code), where);
    if (!reason.message.empty()) {
      out += Wrap(Safe(reason.Text()), options.width, "     ", "     ");
    }
    const records::Comparison* c = Find(v, reason.at);
    if (c == nullptr) continue;
    for (const records::WrongElement& wrong : c->first_wrong) {
      out += fmt::format("       [{}]: got {:.9g}, wanted {:.9g}\n", fmt::join(wrong.index, ", "),
                         wrong.got, wrong.wanted);
    }
  }
  return out;
}

constexpr std::string_view kLimit = "limit: ";

/// What fails beyond what the task requires: users must see it before anything else.
std::string Limits(const records::Verdict& v, const TextOptions& options) {
  std::string out;
  for (const records::Verdict* verdict : v.OfAllEngines()) {
    for (const records::SizeLimit& limit : verdict->exploration.limits) {
      out += Wrap(Safe(limit.message), options.width, "  limit: ", "    ");
    }
  }
  for (const std::string& note : v.notes) {
    if (note.starts_with(kLimit)) out += Wrap(Safe(note), options.width, "  ", "    ");
  }
  return out;
}

/// One line: at how many other sizes the host code was seen, and where the kernel was judged.
std::string Explored(const records::Verdict& v, const TextOptions& options) {
  const records::Exploration& explored = v.exploration;
  if (explored.recorded == 0) return "";
  std::string text =
      fmt::format("recorded at {}: {} of work", Plural(explored.recorded, "other size"),
                  Plural(explored.kinds, "kind"));
  if (!explored.judged.empty()) {
    text += fmt::format("; also right at {}: {}", Plural(explored.judged.size(), "size"),
                        NameSome(explored.judged, kNamedSizes));
  }
  return Wrap(Safe(text), options.width, "  ", "    ");
}

std::string Settings(const records::Verdict& v) {
  if (v.settings.empty()) return "";
  term::Table table({{"setting"}, {"status"}, {"correct"}, {"of limit"}, {"estimate"}, {"shapes"}});
  for (size_t i = 0; i < std::min(kMaxSettings, v.settings.size()); ++i) {
    const records::SettingReport& s = v.settings[i];
    const records::Comparison* worst = Worst(s);
    const bool ran = s.counters.estimated_us > 0;
    std::string about = s.note.empty() ? s.description : s.description + ": " + s.note;
    table.Add({Safe(s.id), std::string(records::Name(s.status)),
               s.trials.empty() ? "-" : fmt::format("{}/{}", RightTrials(s), s.trials.size()),
               worst == nullptr ? "-" : ErrorShare(*worst),
               ran ? fmt::format("{:.4g} us", s.counters.estimated_us) : "-", Safe(about)});
  }
  std::string out = table.Render(0, "  ");
  if (v.settings.size() > kMaxSettings) {
    out += fmt::format("  … and {} more\n", v.settings.size() - kMaxSettings);
  }
  return out;
}

std::string Resources(const records::Verdict& v, const TextOptions& options) {
  std::string out;
  for (size_t i = 0; i < std::min(kMaxKernels, v.resources.size()); ++i) {
    const build::KernelResources& r = v.resources[i];
    const int spilled = r.spill_stores + r.spill_loads;
    out += fmt::format(
        "  {}: {} registers, {} B shared, {}\n", KernelName(r.kernel), r.registers, r.static_shared,
        spilled == 0
            ? "no spills"
            : fmt::format("SPILLS {} B stored, {} B loaded", r.spill_stores, r.spill_loads));
    for (const std::string& remark : r.remarks) {
      out += Wrap("ptxas: " + Safe(remark), options.width, "    ", "      ");
    }
  }
  if (v.resources.size() > kMaxKernels) {
    out += fmt::format("  … and {} more kernels\n", v.resources.size() - kMaxKernels);
  }
  return out;
}

/// One line: how much was tried, and how close to the limit the largest error is.
std::string Summary(const records::Verdict& v, const TextOptions& options) {
  size_t passed = 0, trials = 0, usual = 0;
  const records::SettingReport* closest = nullptr;
  for (const records::SettingReport& s : v.settings) {
    trials += s.trials.size();
    usual += static_cast<size_t>(std::count_if(s.trials.begin(), s.trials.end(),
                                               [](const auto& t) { return t.is_usual(); }));
    passed += s.status == records::SettingStatus::kPassed;
    const records::Comparison* worst = Worst(s);
    if (worst == nullptr) continue;
    if (closest == nullptr || worst->Severity() > Worst(*closest)->Severity()) closest = &s;
  }
  std::string text =
      fmt::format("{} of {} passed in {} ({}fresh inputs, compared with float64)", passed,
                  Plural(v.settings.size(), "setting"), Plural(trials, "trial"),
                  usual == trials ? "" : fmt::format("{} on other inputs; ", trials - usual));
  if (closest != nullptr) {
    const std::string share = ErrorShare(*Worst(*closest));
    text += share == "exact" ? std::string("; all results are exact")
                             : fmt::format("; the largest error is {} of the limit ({})", share,
                                           Safe(closest->id));
  }
  return Wrap(text, options.width, "  ", "  ");
}

/// For each output, what was established beyond the tolerance.
std::string EstablishedLines(const records::Verdict& v, const TextOptions& options) {
  std::vector<const records::Established*> settings;
  std::vector<const records::OtherInputs*> inputs;
  for (const records::SettingReport& setting : v.settings) {
    if (setting.status != records::SettingStatus::kPassed) continue;
    settings.push_back(&setting.established);
    inputs.push_back(&setting.other_inputs);
  }
  std::string out;
  for (const std::string& text : EstablishedTexts(settings)) {
    out += Wrap(Safe(text), options.width, "  ", "    ");
  }
  for (const std::string& text : OtherInputsTexts(inputs)) {
    out += Wrap(Safe(text), options.width, "  ", "    ");
  }
  return out;
}

/// One line, if that is so.
std::string Proved(const records::Verdict& v, const TextOptions& options) {
  if (v.proof.outcome != "proved") return "";
  return Wrap(Safe(v.proof.message), options.width, "  ", "    ");
}

std::string Times(const records::Verdict& v, const TextOptions& options) {
  for (const records::SettingReport& s : v.settings) {
    if (s.status != records::SettingStatus::kPassed || !(s.counters.estimated_us > 0)) continue;
    const std::string text = fmt::format(
        "estimated {:.4g} us per call at {} in {} (an estimate from counted work, not a "
        "measurement); host code {:.3g} us per call",
        s.counters.estimated_us, Safe(s.id), Plural(s.counters.launches.size(), "launch"),
        s.seconds.host_us);
    return Wrap(text, options.width, "  ", "  ");
  }
  return "";
}

}  // namespace

std::string ErrorShare(const records::Comparison& c) {
  if (!c.ok && (c.code == "wrong_shape" || c.code == "wrong_dtype" || c.code == "wrong_return")) {
    return "-";
  }
  if (!(c.rms_limit > 0)) return c.ok ? "exact" : "not exact";
  if (!c.ok && c.code == "not_finite") return "not finite";
  const double share = c.Severity();
  if (!std::isfinite(share)) return "not finite";
  if (share >= 10) return fmt::format("{:.0f} x", share);
  return fmt::format("{:.2g} %", 100 * share);
}

std::string VerdictText(const records::Verdict& v, const TextOptions& options) {
  std::string out = Headline(v, options);
  if (!v.declared.empty()) out += Wrap(Safe(v.declared), options.width, "  ", "  ");
  out += Limits(v, options);
  out += Reasons(v, options);
  const bool accepted = v.decision == records::Decision::kAccepted;
  for (const records::Verdict* one : v.OfAllEngines()) {
    if (!v.other_engines.empty()) out += fmt::format("  {}:\n", Safe(one->device));
    if (accepted) {
      out += Summary(*one, options) + Explored(*one, options) + EstablishedLines(*one, options) +
             Proved(*one, options) + Times(*one, options);
    }
    if (!accepted || options.details) out += Settings(*one);
  }
  out += Resources(v, options);
  for (const std::string& note : v.notes) {
    if (!note.starts_with(kLimit)) out += Wrap(Safe(note), options.width, "  note: ", "    ");
  }
  for (const std::string& what : v.not_checked) {
    out += Wrap("not checked: " + Safe(what), options.width, "  note: ", "    ");
  }
  if (v.seed_origin == records::SeedOrigin::kUser)
    out += fmt::format("  repeatable: --seed {}\n", v.seed);
  return out;
}

}  // namespace cupel::judge
