// SPDX-License-Identifier: Apache-2.0
#include "gpu/csv.h"

#include <fmt/format.h>

#include <algorithm>

namespace cupel::gpu {
namespace {

class Reader {
 public:
  Reader(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  Result<std::vector<CsvRow>> Read() {
    if (text_.size() > kMaxCsvBytes)
      return Fault(fmt::format("{} MiB is too large", text_.size() >> 20));
    std::vector<CsvRow> rows;
    size_t cells = 0;
    while (at_ < text_.size()) {
      CsvRow row;
      for (;;) {
        if (++cells > kMaxCsvCells) return Fault("too many cells");
        TRY_ASSIGN(std::string cell, Cell());
        row.push_back(std::move(cell));
        if (at_ == text_.size() || text_[at_] != ',') break;
        ++at_;
      }
      EndLine();
      const bool is_empty = row.size() == 1 && row[0].empty();
      if (!is_empty) rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  Result<std::string> Cell() {
    if (at_ == text_.size() || text_[at_] != '"') {
      const size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
      const std::string_view cell = text_.substr(at_, end - at_);
      at_ = end;
      return std::string(cell);
    }
    std::string cell;
    for (;;) {
      const size_t quote = text_.find('"', at_ + 1);
      if (quote == std::string_view::npos) return Fault("unterminated quote");
      cell += text_.substr(at_ + 1, quote - at_ - 1);
      at_ = quote + 1;
      if (at_ == text_.size() || text_[at_] != '"') break;
      cell += '"';  // a doubled quote: the next piece begins after it
    }
    if (at_ < text_.size() &&
        std::string_view(",\r\n").find(text_[at_]) == std::string_view::npos) {
      return Fault("text after a closing quote");
    }
    return cell;
  }

  void EndLine() {
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ < text_.size() && text_[at_] == '\n') ++at_;
  }

  tl::unexpected<Error> Fault(const std::string& fault) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<long>(at_), '\n');
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}, line {}: invalid CSV: {}", what_, line, fault));
  }

  std::string_view text_, what_;
  size_t at_ = 0;
};

}  // namespace

Result<std::vector<CsvRow>> ParseCsv(std::string_view text, std::string_view what) {
  return Reader(text, what).Read();
}

}  // namespace cupel::gpu
