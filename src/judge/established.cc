// SPDX-License-Identifier: Apache-2.0
#include "judge/established.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "judge/scan.h"

namespace cupel::judge {
namespace {

std::string Inputs(int count) { return fmt::format("{} input{}", count, count == 1 ? "" : "s"); }

/// The sums of one output over the settings.
struct Total {
  records::EstablishedOutput sum;
  int tolerance = 0, shadow = 0, tiny = 0, exact = 0, schedules = 0;
  std::string shadow_note, exact_note, twin;
};

Total Sum(const std::vector<const records::Established*>& settings, size_t output) {
  Total total;
  for (const records::Established* one : settings) {
    total.tolerance += one->tolerance_inputs;
    // A task may have both kinds of outputs; shadows do not follow integer outputs.
    const bool followed = output >= one->outputs.size() || one->outputs[output].is_float;
    total.shadow += followed ? one->shadow_inputs : 0;
    total.tiny += followed ? one->tiny_inputs : 0;
    total.exact += one->exact_inputs;
    total.schedules = std::max(total.schedules, one->schedules);
    if (total.shadow_note.empty()) total.shadow_note = one->shadow_note;
    if (total.exact_note.empty()) total.exact_note = one->exact_note;
    if (total.twin.empty()) total.twin = one->twin;
    if (output >= one->outputs.size()) continue;
    const records::EstablishedOutput& o = one->outputs[output];
    if (total.sum.name.empty()) total.sum.name = o.name;
    Add(total.sum, o);
  }
  return total;
}

/// " (shl.b32 at kernel.cu:12, …)"
std::string CausesText(const std::vector<records::ShadowCause>& causes) {
  constexpr size_t kMost = 3;
  if (causes.empty()) return "";
  std::string text;
  for (size_t i = 0; i < std::min(causes.size(), kMost); ++i) {
    text += (i == 0 ? " (" : ", ") + causes[i].what;
  }
  return text + (causes.size() > kMost ? ", …)" : ")");
}

std::string ShadowText(const Total& t, const std::vector<std::string>& not_followed) {
  if (t.shadow == 0) {
    return t.shadow_note.empty() ? "" : "exact arithmetic not tried: " + t.shadow_note;
  }
  if (!t.sum.is_float) return "";
  std::vector<std::string> parts;
  if (t.sum.equal_inputs > 0) {
    parts.push_back(fmt::format("equal in exact arithmetic up to float32 constants on {}{}",
                                Inputs(t.sum.equal_inputs),
                                t.tiny > 0 && t.sum.equal_inputs == t.shadow
                                    ? fmt::format(" ({} of them scaled by 2^-10)", t.tiny)
                                    : ""));
  }
  if (t.sum.equal_inputs < t.shadow) {
    const double elements = static_cast<double>(std::max<int64_t>(t.sum.elements, 1));
    std::string why;
    if (t.sum.reset > 0) {
      why = fmt::format(
          "{:.3g} % of the elements went through {}",
          100 * static_cast<double>(t.sum.reset) / elements,
          not_followed.empty()
              ? std::string("integer arithmetic on a float's bits or a rounding to integers")
              : fmt::format("instructions that shadows do not follow ({})",
                            fmt::join(not_followed, ", ")));
    }
    if (t.sum.doubtful > 0) {
      why += fmt::format("{}{:.3g} % of the elements depend on a comparison that rounding decides",
                         why.empty() ? "" : ", ",
                         100 * static_cast<double>(t.sum.doubtful) / elements);
    }
    parts.push_back(fmt::format("equality in exact arithmetic not established on {}{}{}{}",
                                Inputs(t.shadow - t.sum.equal_inputs), why.empty() ? "" : ": ", why,
                                CausesText(t.sum.causes)));
  }
  if (t.sum.reset < t.sum.elements) {
    const char* verdict =
        t.sum.reduced_precision ? ", far above float32's: it computes in a shorter format" : "";
    parts.push_back(fmt::format("the kernel's own rounding is {:.2g} of the output's scale (RMS){}",
                                t.sum.own_rms, verdict));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace

void Add(records::EstablishedOutput& to, const records::EstablishedOutput& other) {
  to.is_float = other.is_float || (to.is_float && to.elements > 0);
  to.equal_inputs += other.equal_inputs;
  to.elements += other.elements;
  to.equal += other.equal;
  to.reset += other.reset;
  to.doubtful += other.doubtful;
  to.own_rms = std::max(to.own_rms, other.own_rms);
  to.own_max = std::max(to.own_max, other.own_max);
  to.reduced_precision |= other.reduced_precision;
  for (const records::ShadowCause& cause : other.causes) {
    const auto known = std::find_if(to.causes.begin(), to.causes.end(),
                                    [&](const auto& old) { return old.what == cause.what; });
    if (known == to.causes.end()) {
      to.causes.push_back(cause);
    } else {
      known->elements += cause.elements;
    }
  }
  std::stable_sort(to.causes.begin(), to.causes.end(),
                   [](const auto& a, const auto& b) { return a.elements > b.elements; });
}

void Add(records::Established& to, size_t output, const std::string& name,
         const ShadowComparison& c, bool rounding) {
  if (to.outputs.size() <= output) to.outputs.resize(output + 1);
  records::EstablishedOutput one;
  one.is_float = c.judged;
  if (c.judged) {
    one.equal_inputs = c.established() ? 1 : 0;
    one.elements = c.count;
    one.equal = c.equal;
    one.reset = c.reset;
    one.doubtful = c.doubtful;
    if (rounding) {
      one.own_rms = c.own_rms;
      one.own_max = c.own_max;
      one.reduced_precision = c.reduced_precision;
    }
    if (!c.established()) one.causes = c.causes;
  }
  to.outputs[output].name = name;
  Add(to.outputs[output], one);
}

std::vector<std::string> EstablishedTexts(
    const std::vector<const records::Established*>& settings) {
  size_t outputs = 0;
  std::vector<std::string> not_followed;
  bool anything = false;
  for (const records::Established* one : settings) {
    outputs = std::max(outputs, one->outputs.size());
    anything |= one->shadow_inputs > 0 || one->exact_inputs > 0 || !one->shadow_note.empty();
    for (const std::string& name : one->not_followed) {
      if (std::find(not_followed.begin(), not_followed.end(), name) == not_followed.end()) {
        not_followed.push_back(name);
      }
    }
  }
  if (not_followed.size() > 4) not_followed.resize(4);
  std::vector<std::string> texts;
  if (!anything) return texts;
  for (size_t output = 0; output < std::max<size_t>(outputs, 1); ++output) {
    const Total total = Sum(settings, output);
    const bool unnamed = total.sum.name.empty();
    if (unnamed && outputs > 0) continue;  // a position that the task ignores
    std::string text = fmt::format("{}: within tolerance on {}",
                                   unnamed ? "output" : total.sum.name, Inputs(total.tolerance));
    if (const std::string shadow = ShadowText(total, not_followed); !shadow.empty()) {
      text += "; " + shadow;
    }
    if (total.exact > 0) {
      text += fmt::format("; bit-equal on {} of small integers", Inputs(total.exact));
    } else if (!total.exact_note.empty()) {
      text += "; no exact trial: " + total.exact_note;
    }
    if (total.schedules > 0) {
      text += fmt::format("; same result in {} other order{} of blocks and warps", total.schedules,
                          total.schedules == 1 ? "" : "s");
    }
    if (!total.twin.empty()) {
      text += fmt::format("; large settings checked beyond the tolerance at smaller sizes ({})",
                          total.twin);
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

records::Comparison CompareExactly(const task::Tensor& got, const task::Output& want) {
  records::Comparison c;
  c.count = want.truth.numel();
  const Reader value(got), truth(want.truth);
  for (int64_t i = 0; i < c.count; ++i) {
    const double v = value(i), t = truth(i);
    if (v == t) continue;
    ++c.wrong_count;
    c.max_error = std::fmax(c.max_error, std::fabs(v - t));
    if (c.first_wrong.size() >= 5) continue;
    records::WrongElement wrong;
    wrong.index.resize(want.shape.size());
    int64_t at = i;
    for (size_t axis = want.shape.size(); axis-- > 0; at /= want.shape[axis]) {
      wrong.index[axis] = at % want.shape[axis];
    }
    wrong.got = v;
    wrong.wanted = t;
    c.first_wrong.push_back(std::move(wrong));
  }
  c.ok = c.wrong_count == 0;
  if (c.ok) return c;
  c.code = "not_exact";
  c.message = fmt::format(
      "{} of {} elements are wrong on inputs of small integers: every partial result is exact in "
      "float32 in any order of summation, so this is not a rounding error",
      c.wrong_count, c.count);
  return c;
}

}  // namespace cupel::judge
