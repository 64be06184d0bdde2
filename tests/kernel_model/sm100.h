// Stands in for kernels/include/sm100.h: multiplications happen by the engine, and read both
// descriptors and the instruction bit by bit. Those into the same sums happen in the order asked for;
// in every second launch later ones into other sums go before them, as the rules allow.
#pragma once
#define FIZEAU_SM100_H
#include "scaled_model.h"
#include "sm90.h"

namespace model {

// Of each block of a cluster.
inline f32 tensor_memories[CLUSTER_MAX][128][512];
// Of this thread's block.
inline f32 (&tensor_memory())[128][512] { return tensor_memories[place()]; }
// Multiplications that were asked for, in this order.
struct Asked {
  u32 sums;
  u64 serial;
  std::function<void()> perform;
};
inline std::deque<Asked> asked;
inline u64 asked_so_far;

inline void perform_asked(std::deque<Asked>::iterator which) {
  const std::function<void()> perform = which->perform;
  asked.erase(which);
  perform();
}
// What is asked for is done by a thread of the block that asks.
inline void ask(u32 sums, std::function<void()> perform) {
  asked.push_back({sums, asked_so_far++, [perform, thread = current] {
                     current = thread;
                     perform();
                   }});
  engine.push_back([] {
    if (asked.empty()) return;
    auto which = asked.begin();
    while (launches % 2 == 1 && which->sums != asked.back().sums) which++;
    perform_asked(which);
  });
}

// Of each thread: stores to tensor memory that nobody awaited yet.
inline std::map<u32, std::vector<std::function<void()>>> open_words;

}  // namespace model

template <u32 BLOCKS = 1> void take_tensor_memory(u32* left_at) {
  if (model::cluster % BLOCKS != 0) model::fail("tensor memory of more or fewer blocks than run");
  for (auto& lane : model::tensor_memory()) {
    for (f32& sum : lane) sum = NAN;
  }
  *left_at = 0;
}
template <u32 BLOCKS = 1> void give_tensor_memory(u32 memory) {
  if (memory != 0) model::fail("another tensor memory is given back");
  // The multiplications of a pair write to that of both blocks.
  if (!model::asked.empty()) model::fail("tensor memory is given back before it is written");
}
DEVICE void see_tensor_memory() {}
DEVICE void show_tensor_memory() {}
namespace model {

// Arrives when the engine has come to it so many times more: nothing orders arrivals at different
// barriers.
inline void arrive_later(u64* barrier, u32 block, u32 times) {
  engine.push_back([=] {
    if (!lives(block)) fail("an arrival in a block that has ended");
    if (times == 0) arrive_with(barrier, 0);
    else arrive_later(barrier, block, times - 1);
  });
}

}  // namespace model

// Of a pair, both blocks' barriers are arrived at, one of them later; every third time much later.
template <u32 BLOCKS = 1> void arrive_when_multiplied(u64* barrier) {
  const u64 before = model::asked_so_far;
  model::engine.push_back([=] {
    while (!model::asked.empty() && model::asked.front().serial < before) {
      model::perform_asked(model::asked.begin());
    }
    if (BLOCKS == 1) model::arrive_with(barrier, 0);
  });
  static u32 times;
  for (u32 turn = 0; BLOCKS == 2 && turn < 2; turn++) {
    const u32 place = (turn + model::launches) % 2;
    u64* its = place == model::place() ? barrier : in_block(barrier, place);
    model::arrive_later(its, place, times++ % 3 == 0 ? 60 : 0);
  }
}
DEVICE void tile_load_of_pair(void* to, const TensorMap* map, u32 column, u32 row, u64* barrier) {
  tile_load(to, map, column, row, model::place() == 0 ? barrier : in_block(barrier, 0));
}

namespace model {

// A descriptor of compute capability 10 as one of 9.0, whose strides and patterns are the same; with
// bit 61 where chunks are of 32 bytes, which 9.0 has not.
inline u64 older(u64 descriptor) {
  const u64 pattern = descriptor >> 61;
  if ((pattern != 1 && pattern != 2) || (descriptor >> 46 & 7) != 1) fail("not a descriptor of 10");
  if ((descriptor & ~0xe0007fff3fff3fffull) != 0) fail("bits of a descriptor that should be 0");
  return (descriptor & 0x00003fff3fff3fffull) | u64(1) << 62 | (pattern & 1) << 61;
}

// Where a sum of a product stands: which block, which lane, how many columns from the first. Of 128
// rows by a pair each block has 64 of them: in lanes 64 to 127 the second half of their columns (PTX
// manual, "Layout B").
struct SumPlace { u32 block, lane, column; };
inline SumPlace sum_place(u32 rows, u32 columns, u32 blocks, u32 row, u32 column) {
  const u32 each = rows / blocks;
  if (each == 128) return {row / 128, row % 128, column};
  const u32 half = columns / 2;
  return {row / each, row % each + column / half * 64, column % half};
}

// Rows of A and of the sums, and columns of B, stand in as many blocks.
template <class T, u32 BLOCKS>
void multiply_into(u32 sums, u64 a, u64 b, u32 instruction, u32 accumulate, u32 type) {
  using Sum = decltype(value_of(T()));
  if ((instruction >> 4 & 3) != (std::is_same<Sum, i32>::value ? 2 : 1)) fail("other sums");
  if ((instruction >> 7 & 7) != type || (instruction >> 10 & 7) != type) fail("another type");
  if ((instruction & ~0x1f7f9fb0u) != 0) fail("bits of an instruction that should be 0");
  const u32 rows = (instruction >> 24 & 31) * 16, columns = (instruction >> 17 & 63) * 8;
  const bool a_k_major = (instruction >> 15 & 1) == 0, b_k_major = (instruction >> 16 & 1) == 0;
  if (rows != BLOCKS * 128 && (BLOCKS != 2 || rows != 128)) fail("rows of another number of blocks");
  if (columns % (BLOCKS * 16) != 0 || columns == 0 || columns > 256) fail("columns that cannot be");
  const u32 first = place();
  if (first % BLOCKS != 0) fail("not the first block of a pair");
  ask(sums, [=] {
    std::vector<Line<T>> of_a, of_b;
    for (u32 block = 0; block < BLOCKS; block++) {
      current = (first + block) * block_threads;
      for (u32 row = 0; row < rows / BLOCKS; row++) of_a.emplace_back(older(a), a_k_major, row);
      for (u32 column = 0; column < columns / BLOCKS; column++) {
        of_b.emplace_back(older(b), b_k_major, column);
      }
    }
    for (u32 row = 0; row < rows; row++) {
      for (u32 column = 0; column < columns; column++) {
        const SumPlace its = sum_place(rows, columns, BLOCKS, row, column);
        f32* at = &tensor_memories[first + its.block][its.lane][sums + its.column];
        Sum sum = 0;
        if (accumulate) memcpy(&sum, at, sizeof sum);
        sum = of_a[row].added(sum, of_b[column]);
        memcpy(at, &sum, sizeof sum);
      }
    }
  });
}

}  // namespace model

#define MULTIPLY_INTO(T, TYPE)                                                                    \
  template <u32 BLOCKS = 1>                                                                       \
  void multiply_into(u32 sums, u64 a, u64 b, u32 instruction, u32 accumulate, T) {                \
    model::multiply_into<T, BLOCKS>(sums, a, b, instruction, accumulate, TYPE);                   \
  }
MULTIPLY_INTO(bf16, 1)
MULTIPLY_INTO(f16, 0)
MULTIPLY_INTO(e4m3, 0)
MULTIPLY_INTO(tf32, 2)
MULTIPLY_INTO(i8, 1)
#undef MULTIPLY_INTO

namespace model {

// The scale of a row of A or a column of B, in the tensor memory of this thread's block: a byte of the
// column for 32 of them, in the lane of its number below 32; the same for each 32 lanes.
inline u8 scale_of(u32 scales, u32 line, u32 byte) {
  const u32 column = scales + line / 32, word = bits_of(tensor_memory()[line % 32][column]);
  for (u32 lane = line % 32 + 32; lane < 128; lane += 32) {
    if (bits_of(tensor_memory()[lane][column]) != word) fail("scales that differ between warps");
  }
  return u8(word >> 8 * byte);
}

// `depth` along k of a line of this thread's block. What 96 of them read behind the 128 bytes of a row
// stands in the tile that bits 16..29 name, where bit 52 says so.
template <class In> std::vector<f32> elements_of(u64 descriptor, u32 line, u32 depth) {
  const bool goes_on = descriptor >> 52 & 1;
  const u32 before = 128 - (u32(descriptor & 7) << 4);
  const u64 first = descriptor & ~(u64(1) << 52);
  const u64 second = (first & ~u64(0x3fff)) | (first >> 16 & 0x3fff);
  if (goes_on && (depth != 96 || (second & 63) != 0 || first >> 61 != 2)) {
    fail("a descriptor that cannot go on");
  }
  std::vector<f32> made(depth);
  for (u32 k = 0; k < depth; k++) {
    u8 element;
    const u32 byte = k * In::BITS / 8;
    if (byte >= before && !goes_on) fail("more than a row of 128 bytes has");
    const u8* at = byte < before ? described(older(first), true, 1, line, byte)
                                 : described(older(second), true, 1, line, byte - before);
    memcpy(&element, at, 1);
    made[k] = In::BITS == 8 ? widen(e4m3{element}) : value_of_e2m1(element, k % 2);
  }
  return made;
}
// Those times their scales: those of line `line` of a block's scales from `byte` on. Four scales along k
// share a column; the next four stand `lines` / 32 columns further on.
template <class In>
std::vector<f32> scaled(std::vector<f32> elements, u32 line, u32 scales, u32 byte, u32 lines) {
  for (u32 k = 0; k < elements.size(); k++) {
    const u32 which = byte + k / In::BLOCK, column = which / 4 * (lines / 32);
    elements[k] *= scale_value(scale_of(scales + column, line, which % 4), In());
  }
  return elements;
}

// Of a pair, columns of B stand in both blocks, and the scales of all of them in each.
template <class In, u32 BLOCKS>
void multiply_scaled(u32 sums, u64 a, u64 b, u32 instruction, u32 accumulate, u32 scales_a,
                     u32 scales_b) {
  const u32 rows = (instruction >> 27 & 3) * 128, columns = (instruction >> 17 & 63) * 8;
  const u32 byte = instruction >> 29 & 3, scale_type = instruction >> 23 & 1;
  if (byte != (instruction >> 4 & 3)) fail("scales of A and B are not of the same step");
  const bool longer = instruction >> 31;
  if (longer && (In::BITS != 4 || byte * In::BLOCK % 32 != 0)) fail("96 along k of what cannot be");
  const u32 depth = longer ? 96 : 256 / In::BITS;
  if (!longer && byte + depth / In::BLOCK > 4) fail("scales beyond their column");
  if (scale_type != !std::is_same<In, nvfp4>::value) fail("another type of scales");
  if ((instruction & ~0xf8fe0030u) != (In::BITS == 8 ? 0u : 0x480u)) {
    fail("another type, or bits that should be 0");
  }
  if (rows != BLOCKS * 128) fail("rows of another number of blocks");
  if (columns == 0 || columns % (BLOCKS * 16) != 0 || columns > 256) fail("a tile that cannot be");
  // Up to 128 columns have the scales of 128, others those of 256.
  const u32 lines_b = columns > 128 ? 256 : 128;
  const u32 first = place();
  if (first % BLOCKS != 0) fail("not the first block of a pair");
  ask(sums, [=] {
    const auto of_block = [&](u32 block) { current = (first + block) * block_threads; };
    std::vector<std::vector<f32>> of_b;
    for (u32 column = 0; column < columns; column++) {
      const u32 each = columns / BLOCKS;
      of_block(column / each);
      of_b.push_back(elements_of<In>(b, column % each, depth));
    }
    for (u32 block = 0; block < BLOCKS; block++) {
      of_block(block);
      std::vector<std::vector<f32>> of_a;
      for (u32 row = 0; row < 128; row++) {
        of_a.push_back(scaled<In>(elements_of<In>(a, row, depth), row, scales_a, byte, 128));
      }
      for (u32 column = 0; column < columns; column++) {
        const std::vector<f32> right = scaled<In>(of_b[column], column, scales_b, byte, lines_b);
        for (u32 row = 0; row < 128; row++) {
          f32 sum = accumulate ? tensor_memory()[row][sums + column] : 0.0f;
          for (u32 k = 0; k < depth; k++) sum += of_a[row][k] * right[k];
          tensor_memory()[row][sums + column] = sum;
        }
      }
    }
  });
}

}  // namespace model

template <u32 BLOCKS = 1, class In>
void multiply_scaled_into(u32 sums, u64 a, u64 b, u32 instruction, u32 accumulate, u32 scales_a,
                          u32 scales_b, In) {
  model::multiply_scaled<In, BLOCKS>(sums, a, b, instruction, accumulate, scales_a, scales_b);
}

// Done at once, as early as it may be: multiplications that were asked for before it and still read
// what stood there then compute wrongly. Of a pair each block copies from its own shared memory.
template <u32 BLOCKS = 1> void copy_scales(u32 column, u64 tile) {
  if (tile >> 61 != 0 || (tile >> 46 & 7) != 1) model::fail("not a plain descriptor of 10");
  const u32 start = u32(tile & 0x3fff) << 4, stride = u32(tile >> 32 & 0x3fff) << 4;
  const u32 thread = model::current, first = model::place();
  if (first % BLOCKS != 0) model::fail("not the first block of a pair");
  for (u32 block = 0; block < BLOCKS; block++) {
    model::current = (first + block) * model::block_threads;
    for (u32 lane = 0; lane < 128; lane++) {
      const u32 row = lane % 32;
      const u8* from = model::shared_at(start + row / 8 * stride + row % 8 * 16, 16);
      // What shared memory holds before anything is written, which no scales are.
      static const std::vector<u8> nothing(16, 0xff);
      if (memcmp(from, nothing.data(), 16) == 0) model::fail("scales that were never loaded");
      memcpy(&model::tensor_memory()[lane][column], from, 16);
    }
  }
  model::current = thread;
}

// In every third launch this takes so long that sums are made anew which were given up before they are read.
template <u32 COUNT> void load_sums(f32 (&sums)[COUNT], u32 column) {
  const u32 lane = column >> 16, first = column & 0xffff;
  if (model::launches % 3 == 1) model::take_long(8);
  if (lane != thread_index() / 32 % 4 * 32) model::fail("a warp reads another's lanes");
  for (u32 i = 0; i < COUNT; i++) {
    sums[i] = model::tensor_memory()[lane + model::current % 32][first + i];
  }
}
DEVICE void store_word(u32 at, u32 word, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  model::touch(true, at, 4, file, line);
  memcpy(model::shared_at(at, 4), &word, 4);
}
