// SPDX-License-Identifier: Apache-2.0
#include "build/x86.h"

#include <algorithm>
#include <string_view>

namespace cupel::build {
namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t kLongest = 15;
constexpr size_t kMostFound = 16;

/// What follows the opcode, one character for each opcode:
///   . nothing    m ModRM    b imm8    B ModRM imm8    z imm16/32    Z ModRM imm16/32
///   w imm16      e imm16 imm8    E ModRM imm8 imm8           r rel32    v imm16/32/64
///   a address    t ModRM, imm if TEST    p prefix            x not an instruction
constexpr std::string_view kOneByte =
    "mmmmbzxxmmmmbzxp"  // 00; 0f leads to the next map
    "mmmmbzxxmmmmbzxx"
    "mmmmbzpxmmmmbzpx"
    "mmmmbzpxmmmmbzpx"
    "pppppppppppppppp"  // 40: REX
    "................"
    "xxpmppppzZbB...."  // 62: EVEX
    "bbbbbbbbbbbbbbbb"
    "BZxBmmmmmmmmmmmm"  // 80
    "..........x....."
    "aaaa....bz......"
    "bbbbbbbbvvvvvvvv"
    "BBw.ppBZe.w..bx."  // c0; c4, c5: VEX
    "mmmmxxx.mmmmmmmm"
    "bbbbbbbbrrxb...."
    "p.pp..tt......mm";
constexpr std::string_view kTwoByte =
    "mmmmx.....x.xm.B"  // 00
    "mmmmmmmmmmmmmmmm"
    "mmmmxxxxmmmmmmmm"
    "......x.pxpxxxxx"  // 38 and 3a lead to further maps
    "mmmmmmmmmmmmmmmm"
    "mmmmmmmmmmmmmmmm"
    "mmmmmmmmmmmmmmmm"
    "BBBBmmm.mmmmmmmm"
    "rrrrrrrrrrrrrrrr"  // 80
    "mmmmmmmmmmmmmmmm"
    "...mBmmm...mBmmm"
    "mmmmmmmmmmBmmmmm"
    "mmBmBBBm........"
    "mmmmmmmmmmmmmmmm"
    "mmmmmmmmmmmmmmmm"
    "mmmmmmmmmmmmmmmm";
static_assert(kOneByte.size() == 256 && kTwoByte.size() == 256);

/// Decodes one instruction from its first byte. `ok_` becomes false if it is not an instruction.
class Decoder {
 public:
  explicit Decoder(Bytes code) : code_(code.first(std::min(code.size(), kLongest))) {}

  size_t Length() {
    const char form = Form();
    Operands(form);
    return ok_ && at_ <= code_.size() ? at_ : 0;
  }

 private:
  unsigned Next() {
    if (at_ >= code_.size()) {
      ok_ = false;
      return 0;
    }
    return std::to_integer<unsigned>(code_[at_++]);
  }
  unsigned Peek() const { return at_ < code_.size() ? std::to_integer<unsigned>(code_[at_]) : 0; }

  /// Prefixes and opcode.
  char Form() {
    for (;;) {
      const unsigned byte = Next();
      if (!ok_) return 'x';
      if ((byte & 0xf0) == 0x40) {
        wide_ = (byte & 8) != 0;
        rex_ = true;
        continue;
      }
      if (byte == 0x0f) return TwoByteForm();
      if (byte == 0xc5) return VexForm(1, 1);
      if (byte == 0xc4) return VexForm(Peek() & 31, 2);
      if (byte == 0x62) return VexForm(Peek() & 7, 3);
      const char form = kOneByte[byte];
      if (form != 'p') {
        opcode_ = byte;
        return byte == 0x8f && (Peek() & 0x38) != 0 ? XopForm() : form;
      }
      if (byte == 0x66) short_ = true;
      if (byte == 0xf2) repeat_ = true;
      if (byte == 0x67) short_address_ = true;
      wide_ = rex_ = false;  // REX counts only right before the opcode
    }
  }

  char TwoByteForm() {
    const unsigned byte = Next();
    if (byte == 0x38) return Next(), 'm';
    if (byte == 0x3a) return Next(), 'B';
    opcode_ = 0x0f00 | byte;
    if (byte == 0x78 && (short_ || repeat_)) return 'E';  // AMD's extrq and insertq
    return kTwoByte[byte];
  }

  /// AMD's XOP: two bytes, the first with the map, then the opcode.
  char XopForm() {
    const unsigned map = Peek() & 31;
    if (rex_ || short_ || map < 8 || map > 10) return 'x';
    Skip(3);
    return map == 8 ? 'B' : map == 9 ? 'm' : 'Z';
  }

  /// VEX and EVEX: `payload` bytes, then an opcode of the map.
  char VexForm(unsigned map, size_t payload) {
    if (rex_ || short_) return 'x';
    for (size_t i = 0; i < payload; ++i) Next();
    const unsigned byte = Next();
    if (map == 0 || map == 4 || map > 6) return 'x';
    if (map == 3) return 'B';
    if (map != 1) return 'm';
    return byte == 0x77 && payload < 3 ? '.' : kTwoByte[byte] == 'B' ? 'B' : 'm';
  }

  void Operands(char form) {
    const size_t immediate = short_ && !wide_ ? 2 : 4;
    switch (form) {
      case '.':
        return;
      case 'm':
        return ModRm();
      case 'b':
        return Skip(1);
      case 'B':
        return ModRm(), Skip(1);
      case 'z':
        return Skip(immediate);
      case 'Z':
        return ModRm(), Skip(immediate);
      case 'w':
        return Skip(2);
      case 'e':
        return Skip(3);
      case 'E':
        return ModRm(), Skip(2);
      case 'r':
        return Skip(4);
      case 'v':
        return Skip(wide_ ? 8 : immediate);
      case 'a':
        return Skip(short_address_ ? 4 : 8);
      case 't': {
        const bool test = (Peek() & 0x30) == 0;
        ModRm();
        return Skip(!test ? 0 : opcode_ == 0xf6 ? 1 : immediate);
      }
      default:
        ok_ = false;
    }
  }

  void ModRm() {
    const unsigned byte = Next(), mod = byte >> 6, rm = byte & 7;
    // Control and debug registers have no memory form.
    if (mod == 3 || (opcode_ >= 0x0f20 && opcode_ <= 0x0f23)) return;
    size_t displacement = mod == 1 ? 1 : mod == 2 ? 4 : 0;
    if (rm == 4) {
      if ((Next() & 7) == 5 && mod == 0) displacement = 4;
    } else if (rm == 5 && mod == 0) {
      displacement = 4;
    }
    Skip(displacement);
  }

  void Skip(size_t bytes) { at_ += bytes; }

  Bytes code_;
  size_t at_ = 0;
  unsigned opcode_ = 0;
  bool ok_ = true, wide_ = false, rex_ = false, short_ = false, repeat_ = false;
  bool short_address_ = false;
};

/// Checks the instruction's last two bytes: all three forms end with their opcode.
bool CallsTheKernel(Bytes instruction) {
  if (instruction.size() < 2) return false;
  const auto first = std::to_integer<unsigned>(instruction[instruction.size() - 2]);
  const auto last = std::to_integer<unsigned>(instruction.back());
  return (first == 0x0f && (last == 0x05 || last == 0x34)) || (first == 0xcd && last == 0x80);
}

/// The name of an impure instruction without prefixes; empty for others. `repeats`: f3 was one.
std::string_view ImpureName(Bytes instruction, bool repeats) {
  if (instruction.size() < 2 || std::to_integer<unsigned>(instruction[0]) != 0x0f) return {};
  const auto second = std::to_integer<unsigned>(instruction[1]);
  if (second == 0x31) return "rdtsc";
  if (second == 0x33) return "rdpmc";
  if (instruction.size() < 3) return {};
  const auto third = std::to_integer<unsigned>(instruction[2]);
  if (second == 0x01 && third == 0xf9) return "rdtscp";
  if (second == 0x01 && third == 0xfd) return "rdpru";
  const bool of_register = second == 0xc7 && third >= 0xc0;
  if (of_register && (third & 0x38) == 0x30) return "rdrand";
  if (of_register && (third & 0x38) == 0x38) return repeats ? "rdpid" : "rdseed";
  return {};
}

bool IsPrefix(std::byte byte) {
  const auto value = std::to_integer<unsigned>(byte);
  return value != 0x0f && value != 0xc4 && value != 0xc5 && value != 0x62 && kOneByte[value] == 'p';
}

}  // namespace

size_t InstructionLength(Bytes code) { return Decoder(code).Length(); }

SystemCalls FindSystemCalls(Bytes code) {
  SystemCalls found;
  for (size_t at = 0; at < code.size();) {
    const size_t length = InstructionLength(code.subspan(at));
    if (length == 0) {
      ++found.undecoded;
      ++at;
      continue;
    }
    // Skip prefixes, so that the end of a longer instruction is not mistaken for such an
    // instruction.
    Bytes instruction = code.subspan(at, length);
    bool repeats = false;
    while (instruction.size() > 1 && IsPrefix(instruction[0])) {
      repeats |= instruction[0] == std::byte{0xf3};
      instruction = instruction.subspan(1);
    }
    if (instruction.size() == 2 && CallsTheKernel(instruction) &&
        found.offsets.size() < kMostFound) {
      found.offsets.push_back(at);
    }
    if (const auto name = ImpureName(instruction, repeats); !name.empty())
      found.impure.insert(name);
    at += length;
  }
  return found;
}

}  // namespace cupel::build
