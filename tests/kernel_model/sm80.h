// Stands in for kernels/include/sm80.h: fragments as the PTX manual lays them over a warp's lanes
// ("Matrix Fragments for mma.m16n8k8", "..k16", "..k32" and "..m8n8k4 with .f64").
#pragma once
#define FIZEAU_SM80_H
#include "banks.h"

struct tf32 { u32 bits; };
struct e4m3 { u8 bits; };

// 8-bit floats of 4 exponent and 3 fraction bits.
DEVICE f32 widen(e4m3 value) {
  return (value.bits & 0x7f) == 0x7f ? NAN : model::small_float<4, 3, 7>(value.bits);
}

namespace model {

inline u8* shared_at(u32 at, u32 size) {
  if (at % size != 0) fail("an access to shared memory is not aligned");
  if (at + size > shared_size) fail("an access is past the end of shared memory");
  return shared + place() * SHARED_BYTES + at;
}

// Eight rows of 16 bytes of a matrix, by one of its lanes.
inline void count_rows(const u32 (&rows)[8], bool writes) {
  if (!counts_banks) return;
  (writes ? traffic.writes : traffic.reads) += passes({rows, rows + 8}, 16, writes);
}

inline void make(const Copy& copy) {
  u8* to = shared_at(copy.to, copy.bytes);
  memset(to, 0, copy.bytes);
  memcpy(to, copy.from, copy.valid);
}

}  // namespace model

// In the block's own memory; of what stands elsewhere, how far from the first block's.
DEVICE u32 shared_address(const void* at) {
  const auto from = static_cast<const u8*>(at) - model::shared;
  return u32(from >= 0 && u64(from) < sizeof model::shared ? from % model::SHARED_BYTES : from);
}

DEVICE void copy_async(u32 to, const void* from, u32 valid, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  model::touch(true, to, 16, file, line);
  if (reinterpret_cast<uintptr_t>(from) % 16 != 0) model::fail("a copy is not aligned");
  if (valid > 16) model::fail("a copy of more than 16 bytes");
  model::visit(from, valid);
  const model::Copy copy = {to, from, valid, 16};
  if (model::copies_are_early()) model::make(copy);
  else model::groups[model::current].back().push_back(copy);
}
DEVICE void copy_word_async(u32 to, const void* from, u32 valid,
                            const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  model::touch(true, to, 4, file, line);
  if (reinterpret_cast<uintptr_t>(from) % 4 != 0) model::fail("a copy is not aligned");
  if (valid != 0 && valid != 4) model::fail("a copy of a part of a word");
  model::groups[model::current].back().push_back({to, from, valid, 4});
}
DEVICE void close_copies() { model::groups[model::current].push_back({}); }
template <u32 OPEN> void await_copies() {
  auto& groups = model::groups[model::current];
  // The last group is the one that is not closed yet.
  while (groups.size() > OPEN + 1) {
    for (const model::Copy& copy : groups.front()) model::make(copy);
    groups.pop_front();
  }
}

template <class T> T load_shared(u32 at, T, const char* file = __builtin_FILE(),
                                 int line = __builtin_LINE()) {
  model::touch(false, at, sizeof(T), file, line);
  T got;
  memcpy(&got, model::shared_at(at, sizeof(T)), sizeof(T));
  return got;
}

DEVICE void store_pair(u32 at, f32 first, f32 second) {
  const f32 pair[2] = {first, second};
  memcpy(model::shared_at(at, 8), pair, 8);
}

template <class T> Vector<T> load_chunk(const u8* at, const char* file = __builtin_FILE(),
                                        int line = __builtin_LINE()) {
  model::touch(false, reinterpret_cast<u64>(at), 16, file, line);
  return *reinterpret_cast<const Vector<T>*>(at);
}
template <class T> void store_chunk(u8* at, Vector<T> value, const char* file = __builtin_FILE(),
                                    int line = __builtin_LINE()) {
  model::touch(true, reinterpret_cast<u64>(at), 16, file, line);
  *reinterpret_cast<Vector<T>*>(at) = value;
}

namespace model {

inline void matrices(u32 (&got)[4], u32 at, bool transposed) {
  u64 mine[8] = {at};
  const u64* all = exchange(mine);
  const u32 lane = current % 32;
  for (u32 matrix = 0; matrix < 4; matrix++) {
    u32 rows[8];
    for (u32 row = 0; row < 8; row++) rows[row] = u32(all[(matrix * 8 + row) * 8]);
    if (lane == 0) count_rows(rows, false);
    u16 pair[2];
    for (u32 i = 0; i < 2; i++) {
      const u32 row = transposed ? lane % 4 * 2 + i : lane / 4;
      const u32 column = transposed ? lane / 4 : lane % 4 * 2 + i;
      memcpy(&pair[i], shared_at(rows[row], 16) + 2 * column, 2);
    }
    got[matrix] = pair[0] | u32(pair[1]) << 16;
  }
}

}  // namespace model

DEVICE void load_matrices(u32 (&got)[4], u32 at) { model::matrices(got, at, false); }
DEVICE void load_matrices_transposed(u32 (&got)[4], u32 at) { model::matrices(got, at, true); }

DEVICE void store(Vector<u32>* to, Vector<u32> value) { *to = value; }

DEVICE u32 shuffle(u32 value, u32 lane) {
  const u64 mine[8] = {value};
  return u32(model::exchange(mine)[lane % 32 * 8]);
}
DEVICE u32 exchange_with(u32 value, u32 bits) {
  const u64 mine[8] = {value};
  return u32(model::exchange(mine)[(model::current % 32 ^ bits) * 8]);
}

DEVICE u32 transpose_matrix(u32 pair) {
  const u64 mine[8] = {pair};
  const u64* all = model::exchange(mine);
  const u32 lane = model::current % 32;
  u32 got = 0;
  for (u32 i = 0; i < 2; i++) {
    const u32 row = lane % 4 * 2 + i, column = lane / 4;
    got |= u32(all[(row * 4 + column / 2) * 8] >> 16 * (column % 2) & 0xffff) << 16 * i;
  }
  return got;
}

DEVICE void load_words(u32 (&got)[4], u32 at, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  model::touch(false, at, 16, file, line);
  memcpy(got, model::shared_at(at, 16), 16);
}

DEVICE u32 masked_or(u32 word, u32 mask, u32 other) { return (word & mask) | other; }
DEVICE u32 fused_pair(u32 a, u32 b, u32 c) {
  u32 pair = 0;
  for (u32 shift = 0; shift < 32; shift += 16) {
    const auto half = [&](u32 word) { return widen(bf16{u16(word >> shift)}); };
    pair |= u32(narrow(fmaf(half(a), half(b), half(c)), bf16()).bits) << shift;
  }
  return pair;
}

DEVICE u32 choose_bytes(u32 first, u32 second, u32 chosen) {
  const u64 both = first | u64(second) << 32;
  u32 result = 0;
  for (u32 i = 0; i < 4; i++) result |= u32(both >> 8 * (chosen >> 4 * i & 7) & 255) << 8 * i;
  return result;
}

namespace model {

inline f32 value_of_e2m1(u64 word, u32 at) {
  const f32 sizes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  const u32 bits = u32(word >> 4 * at & 15);
  return bits >> 3 ? -sizes[bits & 7] : sizes[bits & 7];
}

template <class T> T element(u32 word, u32 at) {
  T value;
  memcpy(&value, reinterpret_cast<const u8*>(&word) + at * sizeof(T), sizeof(T));
  return value;
}
inline f32 value_of(bf16 value) { return widen(value); }
inline f32 value_of(f16 value) { return widen(value); }
// The lower 13 bits are ignored.
inline f32 value_of(tf32 value) { return float_of(value.bits & ~0x1fffu); }
inline i32 value_of(i8 value) { return value; }
inline f32 value_of(e4m3 value) { return widen(value); }

template <class T, class Sum>
void multiply_fragments(Sum (&sums)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  constexpr u32 WORD = 4 / sizeof(T), DEPTH = 8 * WORD;
  const u64 mine[8] = {a[0], planted ? a[2] : a[1], planted ? a[1] : a[2], a[3], b[0], b[1], 0, 0};
  const u64* all = exchange(mine);
  const u32 lane = current % 32;
  for (u32 k = 0; k < DEPTH; k++) {
    const u32 unit = k / WORD;
    decltype(value_of(T())) of_row[2], of_column[2];
    for (u32 i = 0; i < 2; i++) {
      const u64* from_a = all + (lane / 4 * 4 + unit % 4) * 8;
      const u64* from_b = all + ((lane % 4 * 2 + i) * 4 + unit % 4) * 8;
      of_row[i] = value_of(element<T>(u32(from_a[i + unit / 4 * 2]), k % WORD));
      of_column[i] = value_of(element<T>(u32(from_b[4 + unit / 4]), k % WORD));
    }
    for (u32 i = 0; i < 4; i++) sums[i] += of_row[i / 2] * of_column[i % 2];
  }
}

}  // namespace model

DEVICE void multiply(f32 (&sums)[4], const u32 (&a)[4], const u32 (&b)[2], bf16) {
  model::multiply_fragments<bf16>(sums, a, b);
}
DEVICE void multiply(f32 (&sums)[4], const u32 (&a)[4], const u32 (&b)[2], f16) {
  model::multiply_fragments<f16>(sums, a, b);
}
DEVICE void multiply(f32 (&sums)[4], const u32 (&a)[4], const u32 (&b)[2], tf32) {
  model::multiply_fragments<tf32>(sums, a, b);
}
DEVICE void multiply(i32 (&sums)[4], const u32 (&a)[4], const u32 (&b)[2], i8) {
  model::multiply_fragments<i8>(sums, a, b);
}
DEVICE void multiply(f64 (&sums)[4], const f64 (&a)[2], const f64& b, f64) {
  u64 mine[8] = {};
  memcpy(mine, a, 16);
  memcpy(mine + 2, &b, 8);
  const u64* all = model::exchange(mine);
  const u32 lane = model::current % 32;
  for (u32 i = 0; i < 4; i++) {
    const u32 column = lane % 4 * 2 + i % 2;
    for (u32 k = 0; k < 4; k++) {
      f64 left, right;
      memcpy(&left, &all[(lane / 4 * 4 + k) * 8 + (model::planted ? 0 : i / 2)], 8);
      memcpy(&right, &all[(column * 4 + k) * 8 + 2], 8);
      sums[i] += left * right;
    }
  }
}
DEVICE void multiply(f64 (&sums)[4], const f64 (&a)[4], const f64 (&b)[2], f64) {
  for (u32 half = 0; half < 2; half++) {
    const f64 part[2] = {a[2 * half], a[2 * half + 1]};
    multiply(sums, part, b[half], f64());
  }
}
