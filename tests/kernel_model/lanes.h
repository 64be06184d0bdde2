// Stands in for kernels/include/lanes.h and for the headers of AMD's matrix instructions: what each
// of them does, as the instruction set's manual of its generation lays operands and sums over a
// wave's lanes. MODEL_LANES says of how many lanes a wave is; MODEL_CDNA5, of 32, whether they are CDNA 5's.
#pragma once
#define FIZEAU_LANES_H
#define FIZEAU_CDNA2_H
#define FIZEAU_CDNA3_H
#define FIZEAU_CDNA4_H
#define FIZEAU_RDNA3_H
#define FIZEAU_RDNA4_H
#define FIZEAU_CDNA5_H

#include "banks.h"
#include "scaled.h"

constexpr u32 LANES = MODEL_LANES;

struct tf32 { u32 bits; };
struct e4m3 { u8 bits; };
struct e4m3_fnuz { u8 bits; };
struct e2m3 {};
struct e2m1 {};

DEVICE u32 lane_index() { return model::current % LANES; }
DEVICE u32 wave_index() { return model::current / LANES; }
DEVICE u32 of_wave(u32 value) { return value; }
DEVICE u32 of_lane(u32 value, u32 lane) {
  const u64 mine[8] = {value};
  return u32(model::exchange(mine)[lane % LANES * 8]);
}
DEVICE bool any_lane(bool says) {
  const u64 mine[8] = {says};
  const u64* all = model::exchange(mine);
  for (u32 lane = 0; lane < LANES; lane++) {
    if (all[lane * 8] != 0) return true;
  }
  return false;
}
DEVICE u32 lanes_that(bool says) {
  const u64 mine[8] = {says};
  const u64* all = model::exchange(mine);
  u32 count = 0;
  for (u32 lane = 0; lane < LANES; lane++) count += u32(all[lane * 8]);
  return count;
}
DEVICE u32 bytes_of(u32 high, u32 low, u32 which) {
  const u64 both = u64(high) << 32 | low;
  u32 got = 0;
  for (u32 i = 0; i < 4; i++) got |= u32(both >> (which >> 8 * i & 7) * 8 & 0xff) << 8 * i;
  return got;
}
template <class To, class From> To bytes_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "as many bytes");
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}
#define PER_SIMD(WAVES)
DEVICE void go_first() {}
DEVICE void go_as_others() {}
DEVICE void in_order() {}
// Of a number that is none, bits of a number.
template <class T> u32 narrow_numbers(f32 low, f32 high, T type) {
  if (low != low || high != high) return 0x80008000;
  return narrow_pair(low, high, type);
}
DEVICE void shared_barrier() { block_barrier(); }

namespace model {

// What a thread has loaded or copied and not waited for, oldest first. A load to registers is done
// at once and only counts; a copy is done when it is waited for, as late as the rules allow.
struct Pending { u8* to; const u8* from; };
inline std::vector<std::deque<Pending>> pending;

inline std::deque<Pending>& mine() {
  if (pending.size() < threads_at_once) pending.resize(threads_at_once);
  return pending[current];
}

}  // namespace model

struct Source { const u8* from; u32 bytes; };
constexpr u32 NOWHERE = ~0u;
constexpr u32 AHEAD_MOST = 2;
DEVICE void copy_direct(Vector<u32>* to, Source source, u32 byte) {
  const bool there = u64(byte) + 16 <= source.bytes;
  u8* at = reinterpret_cast<u8*>(to + lane_index());
  static const u8 zeros[16] = {};
  model::mine().push_back({at, there ? source.from + byte : zeros});
}
template <u32 OPEN> void await_direct() {
  auto& pending = model::mine();
  while (pending.size() > OPEN) {
    const model::Pending oldest = pending.front();
    if (oldest.to) memcpy(oldest.to, oldest.from, 16);
    pending.pop_front();
  }
}

template <u32 COUNT> void get_words(u32 (&to)[COUNT], const u8* from) {
  if (!model::mine().empty()) model::mine().push_back({nullptr, nullptr});
  if (reinterpret_cast<uintptr_t>(from) % (4 * COUNT) != 0) model::fail("a load is not aligned");
  memcpy(to, from, 4 * COUNT);
}
template <u32 COUNT> struct LoadedWords {
  u32 at[COUNT];
  u32 operator[](u32 i) const { return at[i]; }
  u32& operator[](u32 i) { return at[i]; }
};
template <u32 COUNT> void get_words(LoadedWords<COUNT>& to, const u8* from) { get_words(to.at, from); }
template <u32 COUNT> void get_words(LoadedWords<COUNT>& to, Source source, u32 byte) {
  alignas(16) static const u8 zeros[4 * COUNT] = {};
  get_words(to.at, u64(byte) + 4 * COUNT <= source.bytes ? source.from + byte : zeros);
}
template <u32 COUNT> void put_words(u8* to, const u32 (&from)[COUNT]) {
  if (reinterpret_cast<uintptr_t>(to) % (4 * COUNT) != 0) model::fail("a store is not aligned");
  memcpy(to, from, 4 * COUNT);
}

// A place of shared memory is 16 bytes, or an array of words.
DEVICE const u32* words_of(const Vector<u32>& place) { return place.at; }
template <u32 COUNT> const u32* words_of(const u32 (&place)[COUNT]) { return place; }
template <u32 COUNT, class Place>
void read_shared(u32 (&to)[COUNT], const Place& from, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE()) {
  model::touch(false, reinterpret_cast<u64>(words_of(from)), 4 * COUNT, file, line);
  memcpy(to, words_of(from), 4 * COUNT);
}
template <u32 COUNT, class Place>
void write_shared(Place& to, u32 first, const u32 (&from)[COUNT],
                  const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  u32* at = const_cast<u32*>(words_of(to)) + first;
  model::touch(true, reinterpret_cast<u64>(at), 4 * COUNT, file, line);
  memcpy(at, from, 4 * COUNT);
}

// 8-bit floats of 4 exponent and 3 fraction bits, as OCP has them.
DEVICE f32 widen(e4m3 value) {
  return (value.bits & 0x7f) == 0x7f ? NAN : model::small_float<4, 3, 7>(value.bits);
}

namespace model {

inline f32 value_of(bf16 value) { return widen(value); }
inline f32 value_of(f16 value) { return widen(value); }
inline f32 value_of(f32 value) { return value; }
inline f64 value_of(f64 value) { return value; }
inline i32 value_of(i8 value) { return value; }
// The lower 13 bits are ignored.
inline f32 value_of(tf32 value) { return float_of(value.bits & ~0x1fffu); }
inline f32 value_of(e4m3 value) { return widen(value); }
// FNUZ: the bias is 8 and not 7, all exponents are of numbers, the negative zero is none.
inline f32 value_of(e4m3_fnuz value) {
  return value.bits == 0x80 ? NAN : small_float<4, 3, 8>(value.bits);
}

// v_cvt_pk_f32_fp8 of CDNA 3 and v_cvt_scalef32_pk_bf16_fp8 of CDNA 4: exact in bf16.
template <class T> void widen_four(u32 (&to)[2], u32 four) {
  for (u32 i = 0; i < 2; i++) {
    const T low = {u8(four >> 16 * i)}, high = {u8(four >> (16 * i + 8))};
    to[i] = bits_of(value_of(low)) >> 16 | (bits_of(value_of(high)) & 0xffff0000u);
  }
}

// v_cvt_pk_fp8_f32, twice, whose smallest exponent is one less for FNUZ.
inline u32 narrow_four(const f32 (&from)[4], int bias) {
  u32 bytes = 0;
  for (u32 i = 0; i < 4; i++) {
    const f32 size = std::fabs(from[i]);
    const int least = 1 - bias, exponent = size < std::ldexp(1.0f, least) ? least : std::ilogb(size);
    const u32 bits = u32(std::nearbyint(std::ldexp(size, 3 - exponent))) + (u32(exponent - least) << 3);
    if (!(bits < 0x7f)) fail("a number too large for 8 bits");
    bytes |= (from[i] < 0.0f && bits != 0 ? 0x80 | bits : bits) << 8 * i;
  }
  return bytes;
}

// Of a scale: its exponent is kept 127 higher.
inline f32 power_of(u8 scale) { return float_of(scale == 0 ? 0x400000 : u32(scale) << 23); }

// Rows of sums, by the manuals: of MFMA each lane has four that follow each other, of f64 every
// fourth; of RDNA 3's WMMA every second, of RDNA 4's and CDNA 5's eight that follow each other.
inline u32 row_mfma(u32 lane, u32 sum) { return 4 * (lane / 16) + sum; }
inline u32 row_mfma_f64(u32 lane, u32 sum) { return lane / 16 + 4 * sum; }
inline u32 row_rdna3(u32 lane, u32 sum) { return 2 * sum + lane / 16; }
inline u32 row_rdna4(u32 lane, u32 sum) { return 8 * (lane / 16) + sum; }

// One instruction. GROUPS lanes hold the elements of a row one after the other; where it is one
// group, its other lanes must hold the same.
template <class T, u32 GROUPS, class Sum, u32 SUMS, u32 WORDS>
void instruction(Sum (&sums)[SUMS], const u32 (&left)[WORDS], const u32 (&right)[WORDS],
                 u32 (*row_of)(u32, u32)) {
  static_assert(16 * 16 == SUMS * LANES, "sums are all over the wave");
  constexpr u32 EACH = WORDS * 4 / sizeof(T);
  u64 mine[8] = {};
  memcpy(mine, left, 4 * WORDS);
  memcpy(mine + 4, right, 4 * WORDS);
  const u64* all = exchange(mine);
  const auto element = [&](u32 lane, u32 at, u32 operand) {
    T value;
    memcpy(&value, reinterpret_cast<const u8*>(all + lane * 8 + operand * 4) + at * sizeof(T),
           sizeof(T));
    return value_of(value);
  };
  const u32 lane = lane_index(), column = lane % 16;
  if (GROUPS * 16 < LANES && memcmp(all + column * 8, all + (column + 16) * 8, 64) != 0) {
    fail("lanes that share a row hold different elements of it");
  }
  u32 rows[SUMS];
  for (u32 s = 0; s < SUMS; s++) rows[s] = (row_of(lane, s) + planted) % 16;
  for (u32 k = 0; k < GROUPS * EACH; k++) {
    const u32 group = k / EACH * 16;
    const auto right = element(column + group, k % EACH, 1);
    for (u32 s = 0; s < SUMS; s++) sums[s] += element(rows[s] + group, k % EACH, 0) * right;
  }
}

}  // namespace model

DEVICE void widen_four(u32 (&to)[2], u32 four, e4m3) { model::widen_four<e4m3>(to, four); }
DEVICE void widen_four(u32 (&to)[2], u32 four, e4m3_fnuz) { model::widen_four<e4m3_fnuz>(to, four); }
DEVICE u32 narrow_four(const f32 (&from)[4], e4m3) { return model::narrow_four(from, 7); }
DEVICE u32 narrow_four(const f32 (&from)[4], e4m3_fnuz) { return model::narrow_four(from, 8); }

#define INSTRUCTION(TYPE, SUM, COUNT, WORDS, ROW, ...)                                            \
  DEVICE void multiply(SUM (&sums)[COUNT], const u32 (&left)[WORDS], const u32 (&right)[WORDS],   \
                       TYPE) {                                                                    \
    model::instruction<TYPE, __VA_ARGS__>(sums, left, right, model::ROW);                         \
  }
#if MODEL_LANES == 64
// v_mfma_f32_16x16x16_bf16 and _f16 of CDNA 2 and 3, and of CDNA 4 twice as long.
INSTRUCTION(bf16, f32, 4, 2, row_mfma, 4)
INSTRUCTION(f16, f32, 4, 2, row_mfma, 4)
INSTRUCTION(bf16, f32, 4, 4, row_mfma, 4)
INSTRUCTION(f16, f32, 4, 4, row_mfma, 4)
// v_mfma_i32_16x16x16_i8, 16x16x32 and 16x16x64: CDNA 2, 3, 4.
INSTRUCTION(i8, i32, 4, 1, row_mfma, 4)
INSTRUCTION(i8, i32, 4, 2, row_mfma, 4)
INSTRUCTION(i8, i32, 4, 4, row_mfma, 4)
INSTRUCTION(f32, f32, 4, 1, row_mfma, 4)
INSTRUCTION(f64, f64, 4, 2, row_mfma_f64, 4)
// v_mfma_f32_16x16x8_xf32 and v_mfma_f32_16x16x32_fp8_fp8 of CDNA 3.
INSTRUCTION(tf32, f32, 4, 2, row_mfma, 4)
INSTRUCTION(e4m3_fnuz, f32, 4, 2, row_mfma, 4)
// v_mfma_f32_16x16x32_fp8_fp8 and v_mfma_scale_f32_16x16x128_f8f6f4 of CDNA 4, this with scales of 1.
INSTRUCTION(e4m3, f32, 4, 2, row_mfma, 4)
INSTRUCTION(e4m3, f32, 4, 8, row_mfma, 4)

namespace model {
// The same of elements of BITS bits without gaps: 1.0 is the only value that a peak multiplies.
template <u32 BITS, u32 ONE> void count_packed(f32 (&sums)[4], const u32 (&a)[8],
                                               const u32 (&b)[8]) {
  for (u32 at = 0; at < 32; at++) {
    const auto bits = [&](const u32 (&words)[8]) {
      const u32 first = at * BITS, high = first / 32 + 1 < 8 ? words[first / 32 + 1] : 0;
      const u64 both = words[first / 32] | u64(high) << 32;
      return u32(both >> first % 32) & ((1u << BITS) - 1);
    };
    if (bits(a) != ONE || bits(b) != ONE) fail("an element of a peak's operand is not 1");
  }
  for (f32& sum : sums) sum += 128;
}
}  // namespace model
DEVICE void multiply(f32 (&sums)[4], const u32 (&a)[8], const u32 (&b)[8], e2m3) {
  model::count_packed<6, 0x08>(sums, a, b);
}
DEVICE void multiply(f32 (&sums)[4], const u32 (&a)[8], const u32 (&b)[8], e2m1) {
  model::count_packed<4, 0x2>(sums, a, b);
}

namespace model {
// v_mfma_scale_f32_16x16x128_f8f6f4 of CDNA 4, by the mapping of registers that AMD's own tests of the
// instruction state (composable_kernel, test/mx_mfma_op): of 8 bits group g of lanes has 16 elements from
// 16 g and 16 from 64 + 16 g along k, of 4 bits 32 from 32 g; its scale is that of 32 g to 32 g + 31.
template <u32 BITS, u32 WORDS, class Value>
void scaled_instruction(f32 (&sums)[4], const u32 (&left)[WORDS], const u32 (&right)[WORDS],
                        u32 scale_left, u32 scale_right, Value value) {
  struct Held { u8 bytes[2][32]; u8 scales[2]; };
  // Not static: other waves' threads run in between.
  std::vector<Held> all(64);
  u64 mine[8] = {};
  memcpy(mine, left, 4 * WORDS);
  memcpy(mine + 4, right, 4 * WORDS);
  const u64* operands = exchange(mine);
  for (u32 lane = 0; lane < 64; lane++) memcpy(all[lane].bytes, operands + lane * 8, 64);
  u64 scales[8] = {u64(scale_left & 0xff), u64(scale_right & 0xff)};
  const u64* given = exchange(scales);
  for (u32 lane = 0; lane < 64; lane++) {
    for (u32 operand = 0; operand < 2; operand++) {
      all[lane].scales[operand] = u8(given[lane * 8 + operand]);
    }
  }
  const auto element = [&](u32 line, u32 k, u32 operand) {
    const u32 group = BITS == 8 ? k % 64 / 16 : k / 32;
    const u32 at = BITS == 8 ? k / 64 * 16 + k % 16 : k % 32;
    const u8 byte = all[line + 16 * group].bytes[operand][at * BITS / 8];
    const u8 scale = all[line + 16 * (k / 32)].scales[operand];
    return value(BITS == 8 ? byte : byte >> at % 2 * 4 & 15) * power_of(scale);
  };
  const u32 lane = lane_index(), column = lane % 16;
  for (u32 k = 0; k < 128; k++) {
    const f32 right = element(column, k, 1);
    for (u32 s = 0; s < 4; s++) sums[s] += element((row_mfma(lane, s) + planted) % 16, k, 0) * right;
  }
}
}  // namespace model
DEVICE void multiply_scaled(f32 (&sums)[4], const u32 (&left)[8], const u32 (&right)[8],
                            u32 scale_left, u32 scale_right, mxfp8) {
  model::scaled_instruction<8>(sums, left, right, scale_left, scale_right,
                               [](u8 bits) { return widen(e4m3{bits}); });
}
DEVICE void multiply_scaled(f32 (&sums)[4], const u32 (&left)[4], const u32 (&right)[4],
                            u32 scale_left, u32 scale_right, mxfp4) {
  const f32 sizes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  model::scaled_instruction<4>(sums, left, right, scale_left, scale_right,
                               [&](u8 bits) { return (bits & 8 ? -1.0f : 1.0f) * sizes[bits & 7]; });
}
#elif defined(MODEL_CDNA5)
namespace model {
// Which lane has the operands, or the scales, of the next one, where that is planted.
inline u32 planted_lane;
inline bool planted_scales;

// A lane's operands as it shows them to the others.
struct Shown { u8 bytes[2][64]; u32 scales[2]; };
template <u32 WORDS>
std::vector<Shown> show(const u32 (&left)[WORDS], const u32 (&right)[WORDS], u32 scale_left, u32 scale_right) {
  std::vector<Shown> all(LANES);
  for (u32 operand = 0; operand < 2; operand++) {
    u64 mine[8] = {};
    memcpy(mine, operand == 0 ? left : right, 4 * WORDS);
    const u64* operands = exchange(mine);
    for (u32 lane = 0; lane < LANES; lane++) memcpy(all[lane].bytes[operand], operands + lane * 8, 64);
  }
  const u64 mine[8] = {scale_left, scale_right};
  const u64* scales = exchange(mine);
  for (u32 lane = 0; lane < LANES; lane++) {
    for (u32 operand = 0; operand < 2; operand++) all[lane].scales[operand] = u32(scales[lane * 8 + operand]);
  }
  // Two lanes that have each other's operand, or scales.
  if (planted) {
    Shown &lane = all[planted_lane], &next = all[planted_lane + 1];
    if (planted_scales) std::swap(lane.scales, next.scales);
    else std::swap(lane.bytes, next.bytes);
  }
  return all;
}

// v_wmma of CDNA 5 by where its elements stand along k (cdna5.h has the source): of every two pieces of 16 bytes,
// or of all a lane has where it has less, lanes of the first sixteen have the first. Scales are those of the
// first sixteen lanes, one byte for each 32 elements.
template <u32 BITS, u32 WORDS, class Sum, class Value>
void instruction_cdna5(Sum (&sums)[8], const std::vector<Shown>& all, Value value) {
  constexpr u32 BYTES = WORDS * 4, PIECE = (BYTES < 16 ? BYTES : 16) * 8 / BITS;
  const auto element = [&](u32 line, u32 k, u32 operand) {
    const u32 at = k / (2 * PIECE) * PIECE + k % PIECE;
    const u8* from = all[line + k / PIECE % 2 * 16].bytes[operand] + at * BITS / 8;
    return value(from, at) * Sum(power_of(u8(all[line].scales[operand] >> k / 32 * 8)));
  };
  const u32 lane = lane_index(), column = lane % 16;
  for (u32 k = 0; k < 2 * BYTES * 8 / BITS; k++) {
    const Sum right = element(column, k, 1);
    for (u32 s = 0; s < 8; s++) sums[s] += element(row_rdna4(lane, s), k, 0) * right;
  }
}
constexpr u32 SCALES_OF_1 = 0x7f7f7f7f;
template <class T, u32 WORDS, class Sum>
void instruction_cdna5(Sum (&sums)[8], const u32 (&left)[WORDS], const u32 (&right)[WORDS]) {
  const auto all = show(left, right, SCALES_OF_1, SCALES_OF_1);
  instruction_cdna5<8 * sizeof(T), WORDS>(sums, all, [](const u8* from, u32) {
    T element;
    memcpy(&element, from, sizeof(T));
    return Sum(value_of(element));
  });
}
// Elements of BITS bits without gaps: 1.0 is the only value that a peak multiplies.
template <u32 BITS, u32 ONE> void count_packed(f32 (&sums)[8], const u32 (&a)[16], const u32 (&b)[16]) {
  for (u32 at = 0; at < 64; at++) {
    const auto bits = [&](const u32 (&words)[16]) {
      const u32 first = at * BITS, high = first / 32 + 1 < 16 ? words[first / 32 + 1] : 0;
      const u64 both = words[first / 32] | u64(high) << 32;
      return u32(both >> first % 32) & ((1u << BITS) - 1);
    };
    if (bits(a) != ONE || bits(b) != ONE) fail("an element of a peak's operand is not 1");
  }
  for (f32& sum : sums) sum += 128;
}
}  // namespace model
#define WMMA(TYPE, SUM, WORDS)                                                                    \
  DEVICE void multiply(SUM (&sums)[8], const u32 (&left)[WORDS], const u32 (&right)[WORDS], TYPE) { \
    model::instruction_cdna5<TYPE>(sums, left, right);                                            \
  }
// v_wmma_f32_16x16x32_bf16 and _f16, v_wmma_f32_16x16x64_fp8_fp8 and 16x16x128, v_wmma_i32_16x16x64_iu8, v_wmma_f32_16x16x4_f32.
WMMA(bf16, f32, 8)
WMMA(f16, f32, 8)
WMMA(e4m3, f32, 8)
WMMA(e4m3, f32, 16)
WMMA(i8, i32, 8)
WMMA(f32, f32, 2)
#undef WMMA
// v_wmma_f32_16x16x128_f8f6f4.
DEVICE void multiply(f32 (&sums)[8], const u32 (&a)[16], const u32 (&b)[16], e2m3) {
  model::count_packed<6, 0x08>(sums, a, b);
}
DEVICE void multiply(f32 (&sums)[8], const u32 (&a)[16], const u32 (&b)[16], e2m1) {
  model::count_packed<4, 0x2>(sums, a, b);
}
// v_wmma_scale_f32_16x16x128_f8f6f4.
DEVICE void multiply_scaled(f32 (&sums)[8], const u32 (&left)[16], const u32 (&right)[16],
                            u32 scale_left, u32 scale_right, mxfp8) {
  const auto all = model::show(left, right, scale_left, scale_right);
  model::instruction_cdna5<8, 16>(sums, all, [](const u8* from, u32) { return widen(e4m3{*from}); });
}
DEVICE void multiply_scaled(f32 (&sums)[8], const u32 (&left)[8], const u32 (&right)[8],
                            u32 scale_left, u32 scale_right, mxfp4) {
  const f32 sizes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  const auto all = model::show(left, right, scale_left, scale_right);
  model::instruction_cdna5<4, 8>(sums, all, [&](const u8* from, u32 at) {
    const u32 bits = *from >> at % 2 * 4 & 15;
    return (bits & 8 ? -1.0f : 1.0f) * sizes[bits & 7];
  });
}
#else
// v_wmma_f32_16x16x16_bf16 and _f16, v_wmma_i32_16x16x16_iu8 of RDNA 3.
INSTRUCTION(bf16, f32, 8, 8, row_rdna3, 1)
INSTRUCTION(f16, f32, 8, 8, row_rdna3, 1)
INSTRUCTION(i8, i32, 8, 4, row_rdna3, 1)
// The same and v_wmma_f32_16x16x16_fp8_fp8 of RDNA 4.
INSTRUCTION(bf16, f32, 8, 4, row_rdna4, 2)
INSTRUCTION(f16, f32, 8, 4, row_rdna4, 2)
INSTRUCTION(e4m3, f32, 8, 2, row_rdna4, 2)
INSTRUCTION(i8, i32, 8, 2, row_rdna4, 2)
#endif
#undef INSTRUCTION
