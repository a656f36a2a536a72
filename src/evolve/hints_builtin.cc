// The built-in strategy hints: what usually makes kernels faster on Ampere and Hopper, for forward
// and backward operations. The id of a hint is its index, so add new ones at the end.
// SPDX-License-Identifier: Apache-2.0
#include "evolve/hints.h"

namespace cupel::evolve {
namespace {

struct BuiltIn {
  const char *topic, *bound, *text;
  const char *direction = "", *dtype = "";  // empty: all
  const char* needs = "";
};

constexpr BuiltIn kBuiltIn[] = {
    {"global-access", "memory",
     "Let neighbouring threads read and write neighbouring addresses, 16 bytes per thread: load "
     "through float4 (or four 2-byte pairs), after checking on the host that pointers and row "
     "lengths are multiples of 16 bytes, with a scalar path for tails and for everything else."},
    {"global-access", "memory",
     "If input and output are walked along different dimensions (transposes, channel-last data, "
     "gradients of weights), read coalesced into a shared-memory tile and write coalesced out of "
     "it, so that neither side is strided."},
    {"shared-tiles", "memory",
     "Stage tiles of the reused operands in shared memory, as large as two resident blocks allow, "
     "and count how often each loaded byte is used: with square tiles, doubling their edge halves "
     "the global traffic.",
     "", "", "products"},
    {"bank-conflicts", "compute",
     "Look for shared-memory accesses in which the lanes of a warp fall into the same bank. Pad "
     "each row by one element (by 16 bytes for vector accesses), or store row r of a tile with its "
     "column index XORed with r, so that reads along rows and columns are both free of conflicts."},
    {"register-tiles", "compute",
     "Give each thread a block of outputs (8x8 or 8x4) that stay in registers through the whole "
     "reduction: each value read from shared memory then feeds several fused multiply-adds. Unroll "
     "the inner loops completely, so that the accumulators are not indexed at run time.",
     "", "", "products"},
    {"warp-reduction", "latency",
     "Reduce within a warp by __shfl_xor_sync or __shfl_down_sync. Use shared memory only across "
     "warps, one value per warp. For rows of a few hundred elements let one warp process a whole "
     "row: then no __syncthreads is needed.",
     "", "", "statistics"},
    {"split-reduction", "latency",
     "If there are fewer output tiles than multiprocessors but the reduction is long (split-K, "
     "gradients of weights and biases, sums over the batch), cut the reduction into slices on "
     "several blocks, write partial sums to a workspace and add them in a short second kernel.",
     "", "", "products"},
    {"fusion", "memory",
     "Fuse everything elementwise (bias, activation, scaling, residual, casts) into the kernel "
     "that computes the values, while they are still in registers. Each intermediate tensor that "
     "is not written and read again saves twice its size in traffic."},
    {"recomputation", "memory",
     "In a backward pass compute cheap intermediates again (normalised values, activations, "
     "probabilities from the saved maximum and sum) rather than reading stored ones: arithmetic is "
     "free if memory bandwidth is the limit.",
     "backward", ""},
    {"one-pass", "memory",
     "Compute statistics in one pass over the data: the running maximum and rescaled sum of an "
     "online softmax, or Welford's mean and squared deviations merged by Chan's formula. Do not "
     "compute a variance as a difference of sums: cancellation loses accuracy.",
     "", "", "statistics"},
    {"one-pass", "memory",
     "Keep the row in registers (or in shared memory) between the pass that finds its statistics "
     "and the pass that applies them, so that each element is read from global memory once. Size "
     "the per-thread array by a template parameter, with a fallback for long rows.",
     "", "", "statistics"},
    {"async-copies", "latency",
     "Hide the latency of loads behind arithmetic: prefetch the next tile with cp.async "
     "(__pipeline_memcpy_async, or cuda::memcpy_async) into a second or third shared-memory buffer "
     "while the current one is used, and wait for one stage only, not for all."},
    {"async-copies", "latency",
     "Software-pipeline with registers: issue the global loads of the next step before the "
     "arithmetic of this one, and store them to shared memory after it. It needs no special "
     "instruction, and one barrier per step with two buffers."},
    {"fewer-launches", "latency",
     "For small tensors the launch dominates the time. Merge all steps into one kernel: one block "
     "for each independent row, tile or sample, steps divided by __syncthreads, and no memset or "
     "extra fill before it.",
     "", "", "latency"},
    {"fewer-launches", "latency",
     "Let the last block finish the work: each block writes its partial result, does __threadfence "
     "and increments a counter with an atomic; the last block to increment it adds the partial "
     "results and sets the counter back to zero. That replaces a second launch.",
     "", "", "latency"},
    {"occupancy", "latency",
     "Weigh occupancy against work per thread. If registers limit the resident warps, try smaller "
     "tiles or __launch_bounds__; if loads wait on each other, give each thread 2 to 8 independent "
     "elements, all loaded before the first is used, even at lower occupancy."},
    {"templates", "compute",
     "Make sizes that the inner loops depend on (kernel window, head size, stride, tile) template "
     "parameters chosen by a switch on the host, so that index arithmetic folds and loops unroll. "
     "Keep a general instance for all other sizes."},
    {"index-arithmetic", "compute",
     "Take divisions and modulo out of the hot loop: use blockIdx.y and z for outer dimensions, "
     "advance pointers by constant steps, use 32-bit indices where the host has checked that they "
     "suffice, and divide by invariant sizes by multiplying and shifting."},
    {"work-distribution", "latency",
     "Launch a few blocks for each multiprocessor and let them walk over the data in a grid-stride "
     "loop, so that per-block set-up (weights in shared memory, constants in registers) is paid "
     "once and no partly filled last wave remains."},
    {"work-distribution", "memory",
     "Number the output tiles so that blocks which run at the same time share operands in L2: go "
     "through tiles in groups of several rows, column by column, rather than along whole rows, and "
     "give streaming data that is used once __ldcs and __stcs.",
     "", "", "products"},
    {"gather-not-scatter", "memory",
     "Turn scattering atomics into gathering: let each thread compute one element of the gradient "
     "and collect all contributions to it. If that is impossible, add up in registers or shared "
     "memory first and issue one atomic per block instead of one per thread.",
     "backward", ""},
    {"tensor-cores", "compute",
     "For 16-bit operands use tensor cores: wmma or mma.sync with ldmatrix from swizzled shared "
     "memory, accumulating in float32. Read elementwise 16-bit data as half2 or __nv_bfloat162 "
     "pairs, but keep sums and exponentials in float32.",
     "", "16-bit", "products"},
    {"tensor-cores", "compute",
     "Multiply float32 matrices on tensor cores without losing accuracy: split each operand into a "
     "TF32 head and a TF32 tail and accumulate head*tail + tail*head + head*head. Three TF32 "
     "products are faster than one float32 product and nearly as exact; a single one is not.",
     "", "float32", "products"},
    {"cooperation", "latency",
     "If one block must wait for all others (a norm over the whole tensor, several dependent "
     "steps), use a cooperative launch with grid.sync(), sized to what is resident at once, and "
     "keep each block's data in registers or shared memory across the barrier."},
    {"warp-specialisation", "latency",
     "Specialise warps: a producer warp fills a ring of three to six stages in shared memory by "
     "TMA (cp.async.bulk.tensor, an mbarrier for each stage), and two or three warpgroups multiply "
     "by wgmma. setmaxnreg takes registers from the producer and gives them to the others.",
     "", "", "wgmma"},
    {"tensor-cores", "compute",
     "Multiply float32 matrices by wgmma as two float16 parts: scale each row or tile by a power "
     "of two so that its largest element is near the top of float16's range, split into a head and "
     "a tail, sum three products (head*head, head*tail, tail*head) in float32, and scale back. "
     "float16 multiplies at twice TF32's rate, and two parts have 22 bits.",
     "", "float32", "wgmma"},
    {"overlap", "compute",
     "Let two warpgroups alternate: while one multiplies, the other does its epilogue (activation, "
     "norm, stores). Named barriers pass the turn, or each has tiles of its own, started half a "
     "tile apart. Then the tensor cores do not wait for the epilogue.",
     "", "", "wgmma"},
    {"clusters", "memory",
     "Let the blocks of a cluster of two share tiles: each loads half of the common operand, and "
     "TMA multicasts it into the shared memory of both, which halves the traffic to L2. A stage is "
     "free when the consumers of both blocks have arrived at its mbarrier.",
     "", "", "wgmma"},
};

}  // namespace

Hints Hints::BuiltIn() {
  std::vector<Hint> hints;
  for (const auto& [topic, bound, text, direction, dtype, needs] : kBuiltIn) {
    Hint hint;
    hint.id = static_cast<int64_t>(hints.size());
    hint.topic = topic;
    hint.bound = bound;
    hint.direction = direction;
    hint.dtype = dtype;
    hint.needs = needs;
    hint.text = text;
    hint.origin = "built-in";
    hints.push_back(std::move(hint));
  }
  return Hints(std::move(hints));
}

}  // namespace cupel::evolve
