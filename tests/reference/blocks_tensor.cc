// Kernels that copy one box of a tensor to or from shared memory: random maps of every type, rank,
// mode, swizzle and fill; boxes that are inside, across an edge or outside of the tensor. Some
// kernels make their maps themselves. SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "blocks.h"

namespace cupel::reference {
namespace {

using plan::TensorMap;
using plan::TensorMapType;

constexpr uint32_t kThreads = 128;
constexpr size_t kTile = 24576, kMostBytes = 16384;

enum class Direction { kLoad, kStore, kReduce };

const Format* FormatOf(TensorMapType type) {
  switch (type) {
    case TensorMapType::kF16:
      return &kF16;
    case TensorMapType::kBF16:
      return &kBF16;
    case TensorMapType::kF64:
      return &kF64;
    case TensorMapType::kF32:
    case TensorMapType::kF32Ftz:
    case TensorMapType::kTF32:
    case TensorMapType::kTF32Ftz:
      return &kF32;
    default:
      return nullptr;
  }
}

uint32_t BytesOf(const TensorMap& map) { return static_cast<uint32_t>(plan::BitsOf(map.type)) / 8; }
/// Of what dimension 0 counts: elements, or slices of interleaved channels.
uint32_t UnitOf(const TensorMap& map) {
  if (map.interleave == plan::Interleave::kNone) return BytesOf(map);
  return map.interleave == plan::Interleave::k16B ? 16 : 32;
}

/// The rows and the bytes in shared memory of a box.
size_t RowsOf(const TensorMap& map) {
  size_t rows = map.im2col ? map.pixels : 1;
  for (size_t d = 1; d < static_cast<size_t>(map.rank) && !map.im2col; ++d) {
    if (map.interleave != plan::Interleave::kNone && d + 2 == static_cast<size_t>(map.rank))
      continue;
    rows *= (map.box[d] + map.element_strides[d] - 1) / map.element_strides[d];
  }
  return rows;
}

/// The types as tensormap.replace numbers them: their places in this list.
constexpr TensorMapType kReplacedTypes[] = {
    TensorMapType::kU8,     TensorMapType::kU16, TensorMapType::kU32,  TensorMapType::kS32,
    TensorMapType::kU64,    TensorMapType::kS64, TensorMapType::kF16,  TensorMapType::kF32,
    TensorMapType::kF32Ftz, TensorMapType::kF64, TensorMapType::kBF16, TensorMapType::kTF32,
    TensorMapType::kTF32Ftz};

class Maker {
 public:
  Maker(TensorMapType type, Direction direction, std::string operation, bool im2col, uint64_t seed,
        bool makes_map = false)
      : direction_(direction),
        operation_(std::move(operation)),
        makes_map_(makes_map),
        random_(seed) {
    do {
      map_ = {};
      map_.type = type;
      map_.im2col = im2col;
      Fill();
    } while (!plan::ProblemOf(map_).empty() ||
             RowsOf(map_) * std::max(128u, Columns() * UnitOf(map_)) > kMostBytes);
  }

  BlockKernel Make() {
    const bool is_load = direction_ == Direction::kLoad;
    BlockKernel kernel;
    kernel.maps = {{map_, is_load ? 0u : 1u}};
    const size_t tensor = TensorBytes();
    const size_t start = 128 * random_.Below(8), box = RowsOf(map_) * Columns() * UnitOf(map_);
    kernel.buffers = is_load ? std::vector{Values(tensor), std::vector<std::byte>(kTile)}
                             : std::vector{Values(kTile), Values(tensor)};
    if (makes_map_) kernel.buffers.emplace_back(plan::kTensorMapBytes);
    const std::string from = makes_map_ ? "%b2" : "%m0";
    const std::string coordinates = Coordinates();
    const std::string dimensions = fmt::format(".{}d", map_.rank);
    std::string copy;
    if (is_load) {
      const bool offsets = map_.im2col;
      copy = fmt::format(
          "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {};\n"
          "cp.async.bulk.tensor{}.shared::cluster.global{}.mbarrier::complete_tx::bytes "
          "[%x2], [{}, {{{}}}], [bar]{};\n",
          box, dimensions, offsets ? ".im2col" : ".tile", from, coordinates,
          offsets ? Offsets() : "");
    } else {
      copy = fmt::format(
          "cp{}.async.bulk.tensor{}.global.shared::cta{}{}.bulk_group [{}, {{{}}}], [%x2];\n"
          "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group{} 0;\n",
          direction_ == Direction::kReduce ? ".reduce" : "", dimensions, operation_,
          map_.im2col ? ".im2col_no_offs" : ".tile", from, coordinates,
          makes_map_ || random_.Below(2) == 0 ? "" : ".read");
    }
    kernel.name = fmt::format(
        "tensor {}{} {}{} type {} rank {} interleave {} swizzle {} fill {} at {{{}}} dims {} box "
        "{} steps {} "
        "channels {} pixels {}",
        is_load ? "load" : "store", operation_, map_.im2col ? "im2col" : "tile",
        makes_map_ ? " made" : "", static_cast<int>(map_.type), map_.rank,
        static_cast<int>(map_.interleave), static_cast<int>(map_.swizzle),
        static_cast<int>(map_.fill), coordinates, List(map_.dims), List(map_.box),
        List(map_.element_strides), map_.channels, map_.pixels);
    kernel.text =
        BlockHead(kernel.buffers.size(), 1) +
        fmt::format(".shared .align 1024 .b8 tile[{}];\n.shared .align 8 .b64 bar;\n", kTile);
    // A load finds other bytes in the tile: those of the tensor that come first, or zeros.
    kernel.text +=
        is_load ? CopyIn("%b1", "tile", kTile, kThreads) : CopyIn("%b0", "tile", kTile, kThreads);
    if (makes_map_) kernel.text += MakeMap(is_load ? "%b0" : "%b1");
    kernel.text += fmt::format(
        "setp.ne.u32 %q, %t, 0;\nmov.u32 %x2, tile;\nadd.u32 %x2, %x2, {};\n"
        "@%q bra READY;\nmbarrier.init.shared::cta.b64 [bar], 1;\n"
        "fence.mbarrier_init.release.cluster;\nREADY: fence.proxy.async;\nbar.sync 0;\n"
        "@%q bra ISSUED;\n{}ISSUED:\n",
        start, copy);
    if (is_load) {
      kernel.text += WaitFor("bar", "0", "FULL") + CopyOut("%b1", "tile", kTile, kThreads);
    }
    if (makes_map_) {  // the bytes of maps are not compared
      kernel.text +=
          "bar.sync 0;\nsetp.gt.u32 %p, %t, 31;\nmul.wide.u32 %y0, %t, 4;\n"
          "add.s64 %y0, %y0, %b2;\n@!%p st.global.b32 [%y0], 0;\n";
    }
    kernel.text += "ret;\n}\n";
    return kernel;
  }

 private:
  uint32_t Columns() const { return map_.im2col ? map_.channels : map_.box[0]; }
  template <typename Values>
  std::string List(const Values& values) const {
    return fmt::format(
        "({})", fmt::join(values.begin(), values.begin() + static_cast<ptrdiff_t>(map_.rank), " "));
  }
  int Between(int low, int high) {
    return low + static_cast<int>(random_.Below(static_cast<uint64_t>(high - low + 1)));
  }

  /// The first warp makes the map of zeros in shared memory and copies it to %b2.
  std::string MakeMap(const std::string& tensor) {
    std::string text =
        ".shared .align 128 .b8 map[128];\nsetp.gt.u32 %q, %t, 31;\n@%q bra MADE;\n"
        "shl.b32 %x3, %t, 2;\nmov.u32 %x4, map;\nadd.u32 %x3, %x3, %x4;\n"
        "st.shared.b32 [%x3], 0;\nbar.warp.sync -1;\nsetp.ne.u32 %p, %t, 0;\n"
        "@%p bra REPLACED;\n";
    const auto replace = [&](const std::string& field, const auto& value, int ordinal = -1) {
      const bool wide = field == "global_address" || field == "global_stride";
      text += fmt::format("tensormap.replace.tile.{}.shared::cta.b1024.b{} [%x4], {}{};\n", field,
                          wide ? 64 : 32, ordinal < 0 ? "" : fmt::format("{}, ", ordinal), value);
    };
    replace("global_address", tensor);
    replace("rank", map_.rank - 1);
    for (int d = 0; d < map_.rank; ++d) {
      const auto i = static_cast<size_t>(d);
      replace("box_dim", map_.box[i], d);
      replace("global_dim", map_.dims[i], d);
      replace("element_stride", map_.element_strides[i], d);
      if (d + 1 < map_.rank) replace("global_stride", map_.strides[i], d);
    }
    replace("elemtype", std::find(std::begin(kReplacedTypes), std::end(kReplacedTypes), map_.type) -
                            std::begin(kReplacedTypes));
    replace("interleave_layout", static_cast<int>(map_.interleave));
    replace("swizzle_mode", static_cast<int>(map_.swizzle));
    replace("fill_mode", static_cast<int>(map_.fill));
    return text +
           "REPLACED: bar.warp.sync -1;\n"
           "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
           "[%b2], [%x4], 128;\nfence.proxy.tensormap::generic.acquire.gpu [%b2], 128;\n"
           "MADE: bar.sync 0;\n";
  }

  void Fill() {
    const uint32_t bytes = BytesOf(map_), step = 16 / bytes;
    map_.rank = map_.im2col ? Between(3, 5) : Between(1, 5);
    if (!map_.im2col && map_.rank >= 3 && random_.Below(3) == 0) {
      map_.interleave = random_.Below(2) == 0 ? plan::Interleave::k16B : plan::Interleave::k32B;
    }
    const bool is_interleaved = map_.interleave != plan::Interleave::kNone;
    const uint32_t unit = UnitOf(map_), grain = std::max(16u, is_interleaved ? unit : 0);
    const int largest = map_.rank <= 2 ? 20 : (map_.rank == 3 ? 8 : 4);
    uint64_t stride = unit;
    for (size_t d = 0; d < static_cast<size_t>(map_.rank); ++d) {
      map_.dims[d] = static_cast<uint64_t>(
          d == 0 ? Between(1, is_interleaved ? 20 : 200 / static_cast<int>(bytes))
                 : Between(1, largest));
      map_.element_strides[d] = 1;
      if (d != 0 && random_.Below(4) == 0) {
        map_.element_strides[d] = static_cast<uint32_t>(Between(2, 3));
      }
      stride = (stride * map_.dims[d] + grain - 1) / grain * grain + grain * random_.Below(2);
      if (d + 1 < static_cast<size_t>(map_.rank)) map_.strides[d] = stride;
      if (!map_.im2col) {
        map_.box[d] = d == 0 ? step * static_cast<uint32_t>(Between(1, is_interleaved ? 2 : 8))
                             : static_cast<uint32_t>(Between(1, largest));
      }
    }
    map_.swizzle = map_.interleave == plan::Interleave::k32B
                       ? plan::Swizzle::k32B  // CUDA's documentation asks for it
                       : static_cast<plan::Swizzle>(random_.Below(4));
    const bool is_float = FormatOf(map_.type) != nullptr;
    if (is_float && random_.Below(2) == 0) map_.fill = plan::OobFill::kNan;
    if (!map_.im2col) return;
    map_.channels = step * static_cast<uint32_t>(Between(1, 8));
    map_.pixels = static_cast<uint32_t>(Between(1, 40));
    const bool may_exceed = direction_ == Direction::kLoad;
    for (size_t i = 0; i + 2 < static_cast<size_t>(map_.rank); ++i) {
      map_.lower[i] = Between(may_exceed ? -2 : 0, 1);
      map_.upper[i] = Between(-2, may_exceed ? 2 : 0);
    }
  }

  /// The bytes up to the last element, and those that a store writes after it.
  size_t TensorBytes() const {
    size_t size = (map_.dims[0] * UnitOf(map_) + 15) / 16 * 16;
    for (size_t d = 1; d < static_cast<size_t>(map_.rank); ++d) {
      size += (map_.dims[d] - 1) * map_.strides[d - 1];
    }
    return size;
  }

  /// Small numbers for sums; otherwise all bits, but no NaN, because conversions may change it.
  std::vector<std::byte> Values(size_t bytes) {
    std::vector<std::byte> values = RandomBytes(bytes, random_);
    const Format* format = FormatOf(map_.type);
    const size_t size = BytesOf(map_);
    for (size_t at = 0; format != nullptr && at < bytes; at += size) {
      uint64_t value = 0;
      std::memcpy(&value, values.data() + at, size);
      if (direction_ == Direction::kReduce || IsNan(value, *format)) {
        value = SmallFloat(Between(-20, 20), Between(-2, 2), *format);
      }
      const bool is_tf32 =
          map_.type == TensorMapType::kTF32 || map_.type == TensorMapType::kTF32Ftz;
      if (is_tf32 && random_.Below(4) == 0) value = (value & ~0x1fffu) | 0x1000u;  // a tie
      if (random_.Below(8) == 0 && direction_ != Direction::kReduce) {
        value &= ~format->InfinityBits();  // a subnormal number
      }
      std::memcpy(values.data() + at, &value, size);
    }
    return values;
  }

  std::string Coordinates() {
    const int step = static_cast<int>(16 / BytesOf(map_));
    const bool is_store = direction_ != Direction::kLoad;
    std::string text;
    for (size_t d = 0; d < static_cast<size_t>(map_.rank); ++d) {
      const int size = static_cast<int>(map_.dims[d]);
      const bool is_spatial = map_.im2col && d > 0 && d + 1 < static_cast<size_t>(map_.rank);
      int at = 0;
      if (is_spatial) {  // in the bounding box
        at = Between(map_.lower[d - 1], size - 1 + map_.upper[d - 1]);
      } else if (random_.Below(3) != 0) {
        const int box = map_.im2col ? 1 : static_cast<int>(map_.box[d]);
        at = Between(is_store ? 0 : -box, size);
      }
      if (d == 0 && map_.interleave == plan::Interleave::kNone) at = at / step * step;
      text += fmt::format("{}{}", d == 0 ? "" : ", ", at);
    }
    return text;
  }
  std::string Offsets() {
    std::string text;
    for (int i = 0; i < map_.rank - 2; ++i) {
      text += fmt::format("{}{}", i == 0 ? ", {" : ", ", Between(0, 3));
    }
    return text + "}";
  }

  Direction direction_;
  std::string operation_;
  bool makes_map_;
  Random random_;
  TensorMap map_;
};

}  // namespace

std::vector<BlockKernel> TensorKernels() {
  std::vector<BlockKernel> kernels;
  uint64_t seed = 1000;
  for (int type = 0; type <= static_cast<int>(TensorMapType::kTF32Ftz); ++type) {
    for (const bool im2col : {false, true}) {
      for (int i = 0; i < 10; ++i) {
        const auto direction = i < 6 ? Direction::kLoad : Direction::kStore;
        kernels.push_back(
            Maker(static_cast<TensorMapType>(type), direction, "", im2col, ++seed).Make());
      }
    }
    for (const auto direction : {Direction::kLoad, Direction::kStore}) {
      kernels.push_back(
          Maker(static_cast<TensorMapType>(type), direction, "", false, ++seed, true).Make());
    }
  }
  struct Reductions {
    TensorMapType type;
    std::vector<const char*> operations;
  };
  const Reductions reductions[] = {
      {TensorMapType::kU32, {".add", ".min", ".max", ".inc", ".dec", ".and", ".or", ".xor"}},
      {TensorMapType::kS32, {".add", ".min", ".max", ".and", ".or", ".xor"}},
      {TensorMapType::kU64, {".add", ".min", ".max", ".and", ".or", ".xor"}},
      {TensorMapType::kS64, {".min", ".max"}},  // an H200 refuses bitwise ones
      {TensorMapType::kF16, {".add", ".min", ".max"}},
      {TensorMapType::kBF16, {".add", ".min", ".max"}},
      {TensorMapType::kF32, {".add"}},
      {TensorMapType::kF64, {".add"}}};
  for (const Reductions& group : reductions) {
    for (const char* operation : group.operations) {
      for (const bool im2col : {false, true}) {
        kernels.push_back(Maker(group.type, Direction::kReduce, operation, im2col, ++seed).Make());
      }
    }
  }
  return kernels;
}

}  // namespace cupel::reference
