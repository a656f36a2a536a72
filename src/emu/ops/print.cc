// Device printf, and failed assertions: their arguments are in local memory as the C ABI defines.
// Everything read here comes from the kernel, so addresses are checked and lengths are bounded.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "emu/check/report.h"
#include "emu/core/block_state.h"
#include "emu/core/handler_table.h"
#include "emu/core/kernel.h"
#include "emu/core/matrix.h"
#include "emu/core/memory.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/ops/handlers.h"

namespace cupel::emu {
namespace {

constexpr size_t kMostText = 4096;  // of one string or format
constexpr size_t kMostOutput = size_t{1} << 20;
constexpr int kMostWidth = 256;

/// Reads the lane's memory by generic addresses.
class LaneMemory {
 public:
  LaneMemory(const Warp& warp, int lane) : warp_(warp), lane_(lane) {}

  std::optional<uint8_t> Byte(uint64_t address) const {
    if (address - kLocalWindow < (uint64_t{1} << 32)) return Local(address - kLocalWindow);
    if (address - kSharedWindow < warp_.shared_bytes) {
      return static_cast<uint8_t>(warp_.shared[address - kSharedWindow]);
    }
    const GlobalMemory& memory = *warp_.worker->launch->memory;
    if (!memory.Contains(address, 1)) return std::nullopt;
    return static_cast<uint8_t>(*memory.Host(address));
  }
  std::optional<uint8_t> Local(uint64_t offset) const {
    if (offset >= warp_.local_bytes) return std::nullopt;
    const uint64_t word = (offset / 4) * kLanes + static_cast<uint64_t>(lane_);
    return static_cast<uint8_t>(warp_.local[word * 4 + offset % 4]);
  }
  /// `bytes` bytes as a number; nothing if some are outside of memory.
  std::optional<uint64_t> Number(uint64_t address, uint32_t bytes) const {
    uint64_t value = 0;
    for (uint32_t i = 0; i < bytes; ++i) {
      const std::optional<uint8_t> byte = Byte(address + i);
      if (!byte) return std::nullopt;
      value |= uint64_t{*byte} << (8 * i);
    }
    return value;
  }
  /// Reads up to the terminating zero, or `most` characters.
  std::optional<std::string> String(uint64_t address, size_t most = kMostText) const {
    std::string text;
    while (text.size() < most) {
      const std::optional<uint8_t> byte = Byte(address + text.size());
      if (!byte) return std::nullopt;
      if (*byte == 0) break;
      text += static_cast<char>(*byte);
    }
    return text;
  }

 private:
  const Warp& warp_;
  int lane_;
};

/// A parameter of a call: at most 8 bytes at an offset from the lane's stack pointer.
uint64_t Parameter(const Warp& warp, const Op* op, const LaneMemory& memory, int lane, int index,
                   uint32_t bytes) {
  const auto offset = static_cast<uint64_t>(-1 - *(ListOf(warp, op) + index));
  const uint64_t base = At<const uint32_t>(warp, op->src[0])[lane];
  return memory.Number(kLocalWindow + base + offset, bytes).value_or(0);
}

/// Formats like the device's printf.
class Formatter {
 public:
  Formatter(const LaneMemory& memory, std::string format, uint64_t arguments)
      : memory_(memory), format_(std::move(format)), next_(arguments) {}

  /// Nothing if an argument cannot be read.
  std::optional<std::string> Run() {
    while (at_ < format_.size() && out_.size() < kMostText) {
      const char c = format_[at_++];
      if (c != '%') {
        out_ += c;
      } else if (!Conversion()) {
        return std::nullopt;
      }
    }
    return std::move(out_);
  }
  int arguments() const { return arguments_; }

 private:
  /// The next argument, aligned to its size.
  bool Argument(uint32_t bytes, uint64_t* value) {
    next_ = (next_ + bytes - 1) / bytes * bytes;
    const std::optional<uint64_t> number = memory_.Number(next_, bytes);
    next_ += bytes;
    ++arguments_;
    *value = number.value_or(0);
    return number.has_value();
  }
  bool Take(char c) {
    if (at_ >= format_.size() || format_[at_] != c) return false;
    ++at_;
    return true;
  }
  /// Reads a width or precision: digits, or an argument.
  bool Count(int* count) {
    if (Take('*')) {
      uint64_t value = 0;
      if (!Argument(4, &value)) return false;
      *count = std::clamp(static_cast<int>(static_cast<uint32_t>(value)), -kMostWidth, kMostWidth);
      return true;
    }
    while (at_ < format_.size() && format_[at_] >= '0' && format_[at_] <= '9') {
      *count = std::min(std::max(*count, 0) * 10 + (format_[at_++] - '0'), kMostWidth);
    }
    return true;
  }
  bool Conversion() {
    const size_t begin = at_;
    std::string flags;
    while (at_ < format_.size() && std::strchr("-+ #0", format_[at_]) != nullptr &&
           flags.size() < 8) {
      flags += format_[at_++];
    }
    int width = 0, precision = -1;
    if (!Count(&width)) return false;
    if (width < 0) {
      flags += '-';
      width = -width;
    }
    if (Take('.')) {
      precision = 0;
      if (!Count(&precision)) return false;
    }
    bool is_long = false;
    while (at_ < format_.size() && std::strchr("hljztL", format_[at_]) != nullptr) {
      is_long |= format_[at_++] != 'h';
    }
    if (at_ >= format_.size()) return true;
    const char type = format_[at_++];
    std::string spec = "%" + flags;
    if (width != 0) spec += std::to_string(width);
    if (precision >= 0) spec += "." + std::to_string(precision);
    return Convert(type, spec, is_long, begin);
  }

  template <class T>
  void Append(const std::string& spec, T value) {
    char text[1024];
    const int length = std::snprintf(text, sizeof text, spec.c_str(), value);
    if (length > 0) out_.append(text, std::min(static_cast<size_t>(length), sizeof text - 1));
  }
  bool Convert(char type, const std::string& spec, bool is_long, size_t begin) {
    uint64_t value = 0;
    switch (type) {
      case '%':
        out_ += '%';
        return true;
      case 'd':
      case 'i':
        if (!Argument(is_long ? 8 : 4, &value)) return false;
        Append(spec + "lld", is_long ? static_cast<long long>(value)
                                     : static_cast<long long>(
                                           static_cast<int32_t>(static_cast<uint32_t>(value))));
        return true;
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        if (!Argument(is_long ? 8 : 4, &value)) return false;
        Append(spec + "ll" + type, static_cast<unsigned long long>(value));
        return true;
      case 'c':
        if (!Argument(4, &value)) return false;
        Append(spec + "c", static_cast<int>(static_cast<unsigned char>(value)));
        return true;
      case 'p':
        if (!Argument(8, &value)) return false;
        Append(spec + "s", fmt::format("{:#x}", value).c_str());
        return true;
      case 's': {
        if (!Argument(8, &value)) return false;
        const size_t left = out_.size() < kMostText ? kMostText - out_.size() : 0;
        const std::optional<std::string> text = memory_.String(value, left);
        if (!text) return false;
        Append(spec + "s", text->c_str());
        return true;
      }
      case 'a':
      case 'A':
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': {
        if (!Argument(8, &value)) return false;
        double number = 0;
        std::memcpy(&number, &value, sizeof number);
        Append(spec + type, number);
        return true;
      }
      default:  // no conversion: printed unchanged
        out_ += "%" + format_.substr(begin, at_ - begin);
        return true;
    }
  }

  const LaneMemory& memory_;
  std::string format_, out_;
  uint64_t next_;
  size_t at_ = 0;
  int arguments_ = 0;
};

constexpr int64_t kPrintWork = 1000;

/// src[0]: stack pointer; list: the variables of format, arguments and result.
const Op* Print(Warp& warp, const Op* op) {
  Worker& worker = *warp.worker;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    if (worker.printed_bytes >= kMostOutput) continue;
    warp.slice -= kPrintWork;  // relative to an ordinary instruction
    const LaneMemory memory(warp, lane);
    const std::optional<std::string> format =
        memory.String(Parameter(warp, op, memory, lane, 0, 8));
    std::optional<std::string> text;
    int arguments = 0;
    if (format) {
      Formatter formatter(memory, *format, Parameter(warp, op, memory, lane, 1, 8));
      text = formatter.Run();
      arguments = formatter.arguments();
    }
    if (!text) {
      return Fault(warp, op, "out_of_bounds",
                   "printf reads a format, string or argument outside of valid memory.");
    }
    const uint64_t result = At<const uint32_t>(warp, op->src[0])[lane] +
                            static_cast<uint64_t>(-1 - ListOf(warp, op)[2]);
    if (result + 4 <= warp.local_bytes) {
      const uint64_t word = result / 4 * kLanes + static_cast<uint64_t>(lane);
      std::memcpy(warp.local + word * 4, &arguments, sizeof arguments);
    }
    const size_t size = text->size() + sizeof(PrintedText);
    if (worker.printed_bytes + size > kMostOutput) continue;  // the device also drops output
    worker.printed_bytes += size;
    worker.printed.push_back({warp.block->number, std::move(*text)});
  }
  return op + 1;
}

std::string Printable(const std::optional<std::string>& text) {
  std::string out;
  for (char c : text.value_or("?")) {
    if (out.size() >= 200) return out + "…";
    out += c >= 0x20 && c < 0x7f ? c : '?';
  }
  return out;
}

/// list: the variables of the assertion's text, its file, line and function.
const Op* AssertFail(Warp& warp, const Op* op) {
  const int lane = __builtin_ctz(warp.active);
  const LaneMemory memory(warp, lane);
  auto text = [&](int index) {
    return Printable(memory.String(Parameter(warp, op, memory, lane, index, 8)));
  };
  return Fault(warp, op, "assertion_failed",
               fmt::format("The assertion `{}` in `{}` failed.", text(0), text(3)));
}

}  // namespace

void RegisterPrint(HandlerTable& table) {
  Entry entry;
  entry.full = entry.masked = &Print;
  table.Add("@printf", entry);
  entry.full = entry.masked = &AssertFail;
  table.Add("@assertfail", entry);
}

}  // namespace cupel::emu
