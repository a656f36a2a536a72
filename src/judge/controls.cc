// SPDX-License-Identifier: Apache-2.0
#include "judge/controls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "judge/compare.h"
#include "judge/matrix_view.h"
#include "judge/scan.h"

namespace cupel::judge {
namespace {

constexpr int64_t kTile = 16;      // rows or columns of a tile, at most
constexpr size_t kMostInputs = 4;  // of the output's own shape
constexpr int64_t kFew = 4;        // so few numbers may all be close by chance
constexpr double kOwnError = 1.5;  // if E exceeds this multiple of its minimum, the task causes it

constexpr const char* kOtherSeed = "other_seed";

using Bytes = std::vector<std::byte>;

/// A wrong answer, and the text that explains why it passes if it is in fact correct.
struct Wrong {
  std::string name;
  Bytes answer;
  std::string when_right;
  bool is_part = false;  // only a part is wrong, which a large output's RMS error would hide
};

/// The control's error as a multiple of the limit.
double DistanceOf(const MatrixView& view, const Wrong& wrong) {
  const records::Comparison c = CompareQuietly(view.TensorOf(wrong.answer), view.want());
  if (!c.ok && !(c.Severity() > 1)) return INFINITY;  // NaN or infinite, unlike the truth
  if (!wrong.is_part || !(c.rms_limit > 0)) return c.Severity();
  const double thinned = c.rms_error / c.rms_limit * std::sqrt(view.Share());
  return std::max(thinned, c.max_error / c.max_limit);
}

records::Control Skip(std::string name, size_t output, std::string why) {
  records::Control control;
  control.name = std::move(name);
  control.output = output;
  control.skipped = std::move(why);
  return control;
}

records::Control Try(const MatrixView& view, size_t output, Wrong wrong) {
  records::Control control;
  control.distance = DistanceOf(view, wrong);
  control.elements = view.count();
  control.output = output;
  control.name = std::move(wrong.name);
  if (control.Passes() && view.IsRight(wrong.answer)) control.skipped = std::move(wrong.when_right);
  return control;
}

/// Rows [row, row + rows) and columns [column, column + columns) of a matrix.
struct Tile {
  const char* name;
  int64_t row, rows, column, columns;
};

/// The last tile of rows, the last tile of columns, and one in the middle. Omits tiles for which
/// the output is too small.
std::vector<Tile> TilesOf(const MatrixView& view) {
  const int64_t rows = view.rows(), columns = view.columns();
  const int64_t high = std::clamp<int64_t>(rows / 4, 1, kTile);
  const int64_t wide = std::clamp<int64_t>(columns / 4, 1, kTile);
  std::vector<Tile> tiles;
  if (rows > 1) tiles.push_back({"tail_rows", rows - high, high, 0, columns});
  if (columns > 1) tiles.push_back({"tail_columns", 0, rows, columns - wide, wide});
  if (rows > 2) {
    tiles.push_back({"inner_tile", (rows - high) / 2, high, (columns - wide) / 2, wide});
  }
  return tiles;
}

/// The reference with one tile left unwritten: zeros, or the contents of a neighbouring tile.
Bytes Without(const MatrixView& view, const Tile& tile, bool zero) {
  Bytes answer = view.Reference();
  const auto size = static_cast<size_t>(view.element_size());
  const auto at = [&](int64_t row, int64_t column) {
    return static_cast<size_t>(row * view.columns() + column) * size;
  };
  // A tile of columns is filled from the columns before it, any other tile from other rows.
  const bool by_columns = tile.rows == view.rows();
  const Bytes right = answer;
  for (int64_t row = tile.row; row < tile.row + tile.rows; ++row) {
    for (int64_t column = tile.column; column < tile.column + tile.columns; ++column) {
      std::byte* to = answer.data() + at(row, column);
      if (zero) {
        std::memset(to, 0, size);
        continue;
      }
      const int64_t from_row = by_columns         ? row
                               : row >= tile.rows ? row - tile.rows
                                                  : row + tile.rows;
      const int64_t from_column = !by_columns              ? column
                                  : column >= tile.columns ? column - tile.columns
                                                           : column + tile.columns;
      std::memcpy(to, right.data() + at(from_row, from_column), size);
    }
  }
  return answer;
}

void TryTiles(const MatrixView& view, size_t output, std::vector<records::Control>& all) {
  std::set<std::string> tried;
  for (const Tile& tile : TilesOf(view)) {
    tried.insert(tile.name);
    all.push_back(Try(view, output,
                      {fmt::format("{}_zero", tile.name), Without(view, tile, true),
                       "the truth is zero there", true}));
    all.push_back(Try(view, output,
                      {fmt::format("{}_stale", tile.name), Without(view, tile, false),
                       "the truth is the same in the neighbouring tile", true}));
  }
  for (const char* name : {"tail_rows", "tail_columns", "inner_tile"}) {
    if (tried.count(name) == 0) all.push_back(Skip(name, output, "the output is too small"));
  }
}

/// The formats one step below a dtype: name and explicit bits of the significand.
std::vector<std::pair<const char*, int>> ShorterThan(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return {{"float32", 23}};
    case DType::kF32:
      return {{"tf32", 10}, {"bfloat16", 7}};  // float16 has tf32's significand
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3:
      return {{"float8_e5m2", 2}};
    case DType::kF8E5M2:
      return {{"1_bit", 1}};
    default:
      return {};
  }
}

/// The minimum of E, as a share of the output's scale (docs/judging.md).
double LeastError(DType dtype) {
  const double u = UnitRoundoff(JudgedAs(dtype));
  return u <= UnitRoundoff(DType::kF32) ? 4 * u : u / 2;
}

void TryShorter(const MatrixView& view, size_t output, std::vector<records::Control>& all) {
  const task::Output& want = view.want();
  const auto formats = ShorterThan(want.dtype);
  if (formats.empty()) {
    all.push_back(Skip("rounded", output, fmt::format("{} is not rounded", Name(want.dtype))));
  }
  for (const auto& [format, bits] : formats) {
    records::Control control =
        Try(view, output,
            {fmt::format("rounded_to_{}", format), view.Rounded(bits),
             fmt::format("all numbers of the truth are representable in {}", format)});
    // If the task cannot be computed more accurately, a shorter format is as good as PyTorch.
    const double least = LeastError(want.dtype) * view.Scale();
    if (control.Passes() && view.count() < kFew) {
      control.skipped = "so few numbers can be nearly representable by chance";
    } else if (control.Passes() && want.error_scale > kOwnError * least) {
      control.skipped =
          fmt::format("the task's own error, {:.2g} of the output's scale, is as large as {}'s",
                      want.error_scale / view.Scale(), format);
    }
    all.push_back(std::move(control));
  }
}

void TryInputs(const MatrixView& view, const task::Case& wanted, size_t output,
               std::vector<records::Control>& all) {
  const task::Output& want = wanted.outputs[output];
  const auto inputs = task::TensorLeaves(wanted.args);
  size_t tried = 0;
  for (size_t i = 0; i < inputs.size() && tried < kMostInputs; ++i) {
    if (inputs[i]->dtype != want.dtype || inputs[i]->shape != want.shape) continue;
    ++tried;
    all.push_back(Try(
        view, output,
        {fmt::format("input_{}", i), view.SameElementsOf(*inputs[i]), "the truth is this input"}));
  }
  if (tried == 0) {
    all.push_back(Skip("input", output, "no input has the output's shape and dtype"));
  }
}

/// All controls that need only one case.
std::vector<records::Control> TryAll(const task::Case& wanted) {
  std::vector<records::Control> all;
  for (size_t i = 0; i < wanted.outputs.size(); ++i) {
    const auto view = MatrixView::Of(wanted.outputs[i]);
    if (!view) {
      all.push_back(Skip("all", i, "the task ignores this output, or it has no elements"));
      continue;
    }
    all.push_back(
        Try(*view, i, {"zeros", Bytes(view->Reference().size()), "the truth is all zeros"}));
    all.push_back(Try(*view, i, {"mean", view->Mean(), "the truth is one number throughout"}));
    TryInputs(*view, wanted, i, all);
    TryTiles(*view, i, all);
    TryShorter(*view, i, all);
  }
  return all;
}

}  // namespace

void Controls::TryFirst(const task::Case& wanted) {
  all_ = TryAll(wanted);
  answers_.resize(wanted.outputs.size());
  for (size_t i = 0; i < wanted.outputs.size(); ++i) {
    if (const auto view = MatrixView::Of(wanted.outputs[i])) answers_[i] = view->Reference();
  }
}

void Controls::TryOther(const task::Case& wanted) {
  TryOthersAnswers(wanted);
  const auto passes = [](const records::Control& control) {
    return control.name != kOtherSeed && control.Passes();
  };
  if (std::none_of(all_.begin(), all_.end(), passes)) return;
  const std::vector<records::Control> tried = TryAll(wanted);
  for (records::Control& control : all_) {
    if (!passes(control)) continue;
    // With few numbers, a wrong answer may be close to the truth by chance, but not in every case.
    const auto now = std::find_if(tried.begin(), tried.end(), [&](const records::Control& other) {
      return other.name == control.name && other.output == control.output;
    });
    if (now != tried.end() && now->distance > 1) control = *now;
  }
}

void Controls::TryOthersAnswers(const task::Case& wanted) {
  for (size_t i = 0; i < std::min(answers_.size(), wanted.outputs.size()); ++i) {
    const auto view = MatrixView::Of(wanted.outputs[i]);
    // Outputs of another size are rejected for their size.
    if (!view || answers_[i].size() != view->Reference().size()) continue;
    const auto before =
        std::find_if(all_.begin(), all_.end(), [&](const records::Control& earlier) {
          return earlier.name == kOtherSeed && earlier.output == i;
        });
    // Two numbers may be close by chance: one case that distinguishes them is enough.
    if (before != all_.end() && before->distance > 1) continue;
    records::Control control =
        Try(*view, i, {kOtherSeed, answers_[i], "two seeds have the same truth"});
    if (before == all_.end()) {
      all_.push_back(std::move(control));
    } else {
      *before = std::move(control);
    }
  }
}

std::string PassingText(const std::vector<records::Control>& controls) {
  std::string text;
  for (const records::Control& control : controls) {
    if (!control.Passes()) continue;
    text += fmt::format("{}{} passes at output {} ({:.2g} of the limit)", text.empty() ? "" : ", ",
                        control.name, control.output, control.distance);
  }
  return text;
}

}  // namespace cupel::judge
