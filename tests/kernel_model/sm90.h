// Stands in for kernels/include/sm90.h. What hardware does beside the threads happens late: one copy
// by the engine in every round of the block's threads, stores and multiplications when they are
// awaited. Whoever reads before it may, or gives a stage back too early, computes wrongly.
#pragma once
#define FIZEAU_SM90_H
#include "descriptor.h"
#include "sm80.h"

#include <map>

#define MAP const TensorMap

// As large and as aligned as the driver's.
struct alignas(64) TensorMap {
  u8* base;
  u32 element;   // bytes
  u64 columns, rows;
  u32 box[2];    // elements along a row, rows
  u32 atom = 16; // bytes that stay together
  u8 rest[84] = {};
};
static_assert(sizeof(TensorMap) == 128 && alignof(TensorMap) == 64, "the stub driver fills it");
// What lanes do not have alike is a fault.
DEVICE u32 warp_uniform(u32 value) {
  if (shuffle(value, 0) != value) model::fail("a value that the lanes of a warp do not share");
  return value;
}
DEVICE u32 warp_number() { return warp_uniform(thread_index() / 32); }
DEVICE u32 warpgroup_number() { return warp_uniform(thread_index() / 128); }
// Another lane in every launch; it waits for a whole warp.
DEVICE bool elected() {
  model::wait_warp();
  return thread_index() % 32 == model::launches % 32;
}
// A cluster's blocks run one after the other where a launch does not say otherwise, and what one
// reads of another it reads of itself: both have filled their memory alike.
DEVICE u32 cluster_place() { return block_index() % (model::cluster == 1 ? 2 : model::cluster); }
DEVICE void cluster_barrier() {
  if (model::cluster == 1) block_barrier();
  else model::wait(model::whole_cluster, model::threads_at_once);
}
DEVICE void cluster_barrier_relaxed() { cluster_barrier(); }
DEVICE u32 address_in_cluster(u32 at, u32 place) {
  if (place > 1 || place == cluster_place()) model::fail("not the other block of the cluster");
  return at;
}
// Static arrays stand outside of the model's shared memory, at a distance that 32 bits hold.
DEVICE Vector<u64> load_from_cluster(u32 at) { return load_from_shared(model::shared + i32(at), 0); }
namespace model {

// `launch` and `block` are those that made it.
struct PhaseBarrier { u32 expected, pending, phase; i32 bytes; u32 launch, block; };
inline std::map<const u64*, PhaseBarrier> phases;
inline std::map<u32, Barrier> named;
// Of each thread: groups of stores, and of multiplications; the last one is open.
inline std::map<u32, std::deque<std::vector<std::function<void()>>>> stores, multiplications;

inline void end_phase_if_complete(PhaseBarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  barrier.phase++;
  barrier.pending = barrier.expected;
  progress++;
}

inline PhaseBarrier& phase_barrier(const u64* barrier) {
  auto found = phases.find(barrier);
  const bool made = found != phases.end() && found->second.launch == launches &&
                    found->second.block == block_at;
  if (!made) fail("a barrier that was never made");
  return found->second;
}

inline void arrive_with(u64* at, i32 bytes) {
  PhaseBarrier& barrier = phase_barrier(at);
  if (barrier.pending == 0) fail("more arrivals than a barrier expects");
  barrier.bytes += bytes;
  barrier.pending--;
  end_phase_if_complete(barrier);
}

inline void complete(u64* at, u32 bytes) {
  PhaseBarrier& barrier = phase_barrier(at);
  barrier.bytes -= i32(bytes);
  end_phase_if_complete(barrier);
}

template <class Groups> void run_groups(Groups& groups, u32 open) {
  while (groups.size() > open) {
    for (auto& each : groups.front()) each();
    groups.pop_front();
  }
}
// Groups are closed by moving them to the back of the closed ones.
inline std::map<u32, std::vector<std::function<void()>>> open_stores, open_multiplications;

inline u8* box_row(const TensorMap& map, i32 column, i32 row, u32 at, u32 byte) {
  const i32 from_row = row + i32(at), from_column = column + i32(byte / map.element);
  const bool there = from_row >= 0 && u64(from_row) < map.rows && from_column >= 0 &&
                     u64(from_column) < map.columns;
  return there ? map.base + (u64(from_row) * map.columns + from_column) * map.element : nullptr;
}

// Rows of 128 bytes: the chunk c of row r stands at c ^ r % 8, a chunk of 32 bytes at c ^ r % 4 (CUDA
// programming guide, "Swizzle modes").
inline u8* swizzled(const TensorMap& map, u8* tile, u32 row, u32 byte) {
  const u32 chunk = byte / map.atom ^ row % (128 / map.atom);
  return tile + row * 128 + chunk * map.atom + byte % map.atom;
}

inline void check_tile(const TensorMap& map, const void* tile) {
  if (shared_address(tile) % 1024 != 0) fail("a swizzled tile does not start at 1024 bytes");
  if (map.box[0] * map.element != 128 || map.box[1] > 256) fail("a box that cannot be");
  if (shared_address(tile) + map.box[1] * 128 > shared_size) fail("a tile past the end");
  if (map.columns * map.element % 16 != 0) fail("rows of a map are not aligned");
}

}  // namespace model

DEVICE void make_barrier(u64* barrier, u32 arrivals) {
  model::phases[barrier] = {arrivals, arrivals, 0, 0, model::launches, model::block_at};
}
DEVICE void barriers_made() {}
DEVICE void arrive(u64* barrier) { model::arrive_with(barrier, 0); }
DEVICE void arrive_expecting(u64* barrier, u32 bytes) { model::arrive_with(barrier, i32(bytes)); }
DEVICE void await_phase(u64* barrier, u32 parity) {
  while ((model::phase_barrier(barrier).phase & 1) == parity) model::yield();
}
// Copies that are still open are made as late as the engine's.
DEVICE void arrive_when_copied(u64* barrier) {
  auto& open = model::groups[model::current].back();
  const u32 thread = model::current;
  model::engine.push_back([=, copies = std::move(open)] {
    model::current = thread;
    for (const model::Copy& copy : copies) model::make(copy);
    model::arrive_with(barrier, 0);
  });
  open.clear();
}
template <u32 THREADS> void barrier_of(u32 number) {
  model::wait(model::named[model::place() * 16 + number], THREADS);
}
template <u32 THREADS> void come_to_barrier(u32 number) {
  model::Barrier& barrier = model::named[model::place() * 16 + number];
  if (++barrier.waiting == THREADS) {
    barrier.waiting = 0;
    barrier.round++;
  }
  model::progress++;
}
// The same place of another block, of clusters whose blocks run at once.
template <class T> T* in_block(T* at, u32 place) {
  if (place >= model::cluster || !model::lives(place)) model::fail("the other block does not run");
  const long step = (long(place) - long(model::place())) * long(model::SHARED_BYTES);
  return reinterpret_cast<T*>(reinterpret_cast<intptr_t>(at) + step);
}
DEVICE void arrive_in_cluster(u64* barrier, u32 place) {
  arrive(place == cluster_place() ? barrier : in_block(barrier, place));
}

DEVICE u64 policy_evict_first() { return 0; }
DEVICE void bulk_load(void* to, const void* from, u32 bytes, u64* barrier, u64) {
  if (bytes % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0) {
    model::fail("a bulk copy is not aligned");
  }
  if (bytes == 0) model::fail("a bulk copy of nothing");
  model::engine.push_back([=] {
    // What stands around arrays: see checks.h.
    static const std::vector<u8> outside(16, 0xa5);
    for (u32 at = 0; at < bytes; at += 16) {
      if (memcmp(static_cast<const u8*>(from) + at, outside.data(), 16) == 0) {
        model::fail("a bulk copy reads outside of an array");
      }
    }
    memcpy(to, from, bytes);
    model::complete(barrier, bytes);
  });
}
DEVICE void bulk_load(void* to, const void* from, u32 bytes, u64* barrier) {
  bulk_load(to, from, bytes, barrier, 0);
}
// Both blocks get it, and both barriers its bytes: first the other, as it may be.
DEVICE void bulk_load_to_both(void* to, const void* from, u32 bytes, u64* barrier) {
  if (model::cluster != 2) model::fail("not a cluster of two blocks");
  const u32 other = model::place() ^ 1;
  bulk_load(in_block(static_cast<u8*>(to), other), from, bytes, in_block(barrier, other));
  model::engine.push_back([=] {
    if (!model::lives(other)) model::fail("a copy to a block that has ended");
  });
  bulk_load(to, from, bytes, barrier);
}
DEVICE void bulk_copy_in_cluster(void* to, const void* from, u32 bytes, u64* barrier, u32 place) {
  if (bytes % 16 != 0) model::fail("a bulk copy is not aligned");
  u8* there = in_block(static_cast<u8*>(to), place);
  u64* its = in_block(barrier, place);
  model::engine.push_back([=] {
    if (!model::lives(place)) model::fail("a copy to a block that has ended");
    memcpy(there, from, bytes);
    model::complete(its, bytes);
  });
}
DEVICE void bulk_store(void* to, const void* from, u32 bytes, u64) {
  if (bytes % 16 != 0 || reinterpret_cast<uintptr_t>(to) % 16 != 0) {
    model::fail("a bulk copy is not aligned");
  }
  model::open_stores[model::current].push_back([=] { memcpy(to, from, bytes); });
}
DEVICE void tile_load(void* to, const TensorMap* map, u32 column, u32 row, u64* barrier) {
  model::check_tile(*map, to);
  for (u32 at = 0; at < map->box[1]; at++) {
    const u8* from = model::box_row(*map, i32(column), i32(row), at, 0);
    if (from) model::visit(from, 128);
  }
  model::copy_later([=, map = *map] {
    for (u32 at = 0; at < map.box[1]; at++) {
      for (u32 byte = 0; byte < 128; byte += map.element) {
        u8* place = model::swizzled(map, static_cast<u8*>(to), at, byte);
        const u8* from = model::box_row(map, i32(column), i32(row), at, byte);
        if (from) memcpy(place, from, map.element);
        else memset(place, 0, map.element);
      }
    }
    model::complete(barrier, map.box[1] * 128);
  });
}
// Both blocks get the tile, and both barriers its bytes: first the other, as it may be.
DEVICE void tile_load_to_both(void* to, const TensorMap* map, u32 column, u32 row, u64* barrier) {
  if (model::cluster != 2) model::fail("not a cluster of two blocks");
  const u32 other = model::place() ^ 1;
  tile_load(in_block(static_cast<u8*>(to), other), map, column, row, in_block(barrier, other));
  model::engine.push_back([=] {
    if (!model::lives(other)) model::fail("a copy to a block that has ended");
  });
  tile_load(to, map, column, row, barrier);
}
DEVICE void tile_store(const TensorMap* map, const void* from, u32 column, u32 row) {
  model::check_tile(*map, from);
  model::open_stores[model::current].push_back([=, map = *map] {
    u8* tile = const_cast<u8*>(static_cast<const u8*>(from));
    for (u32 at = 0; at < map.box[1]; at++) {
      for (u32 byte = 0; byte < 128; byte += map.element) {
        u8* to = model::box_row(map, i32(column), i32(row), at, byte);
        if (to) memcpy(to, model::swizzled(map, tile, at, byte), map.element);
      }
    }
  });
}
DEVICE void prefetch_map(const TensorMap*) {}
DEVICE void close_stores() {
  model::stores[model::current].push_back(std::move(model::open_stores[model::current]));
  model::open_stores[model::current].clear();
}
template <u32 OPEN> void await_stores_read() { model::run_groups(model::stores[model::current], OPEN); }
template <u32 OPEN> void await_stores() { model::run_groups(model::stores[model::current], OPEN); }
DEVICE void show_to_copies() {}

DEVICE void store_matrices(u32 at, const u32 (&values)[4]) {
  const u64 mine[8] = {at, values[0], values[1], values[2], values[3]};
  const u64* all = model::exchange(mine);
  const u32 lane = model::current % 32;
  for (u32 matrix = 0; matrix < 4; matrix++) {
    u32 rows[8];
    for (u32 row = 0; row < 8; row++) rows[row] = u32(all[(matrix * 8 + row) * 8]);
    if (lane == 0) model::count_rows(rows, true);
    memcpy(model::shared_at(rows[lane / 4], 16) + lane % 4 * 4, &values[matrix], 4);
  }
}

template <u32 COUNT> void keep_registers() {}
template <u32 COUNT> void take_registers() {}
DEVICE void begin_multiplications() {}
DEVICE void close_multiplications() {
  auto& open = model::open_multiplications[model::current];
  model::multiplications[model::current].push_back(std::move(open));
  open.clear();
}
// A warp waits as one (wgmma.wait_group.sync.aligned): none of its lanes goes on, and gives a stage
// back, before all have read it.
template <u32 OPEN> void await_multiplications() {
  model::run_groups(model::multiplications[model::current], OPEN);
  model::wait_warp();
}
template <class Sum, u32 SUMS> void settle(Sum (&)[SUMS]) {}

namespace model {

// Where element `mn`, `k` of a described tile stands: patterns of 8 rows of 128 bytes, chunks
// exchanged by bits 7..9 of the address (PTX manual, "Strides" and "Swizzling modes").
inline const u8* described(u64 descriptor, bool k_major, u32 size, u32 mn, u32 k) {
  const u32 start = u32(descriptor & 0x3fff) << 4;
  const u32 leading = u32(descriptor >> 16 & 0x3fff) << 4;
  const u32 stride = u32(descriptor >> 32 & 0x3fff) << 4;
  if (descriptor >> 62 != 1) fail("a descriptor without a swizzle of 128 bytes");
  // `older` of sm100.h: chunks of 32 bytes, which words along m or n have to be in.
  const bool wide = descriptor >> 61 & 1;
  if (wide != (!k_major && size == 4)) fail("chunks of another size");
  u32 at = start;
  if (wide) {
    at += mn / 32 * leading + k / 4 * stride + k % 4 * 128 + mn % 32 * 4;
    return shared_at(at ^ (at >> 7 & 3) << 5, size);
  }
  if (k_major) at += mn / 8 * stride + mn % 8 * 128 + k * size;
  else at += mn / (128 / size) * leading + k / 8 * stride + k % 8 * 128 + mn % (128 / size) * size;
  at ^= (at >> 7 & 7) << 4;
  return shared_at(at, size);
}

// One row of A, or column of B: as many elements as one multiplication takes along k.
template <class T> struct Line {
  static constexpr u32 DEPTH = 32 / sizeof(T);
  decltype(value_of(T())) at[DEPTH];

  Line() = default;
  Line(u64 descriptor, bool k_major, u32 mn) {
    T elements[DEPTH];
    // Along k 16 bytes stand together.
    const u32 together = k_major ? DEPTH / 2 : 1;
    for (u32 k = 0; k < DEPTH; k += together) {
      memcpy(&elements[k], described(descriptor, k_major, sizeof(T), mn, k), together * sizeof(T));
    }
    for (u32 k = 0; k < DEPTH; k++) at[k] = value_of(elements[k]);
  }
  template <class Sum> Sum added(Sum sum, const Line& other) const {
    for (u32 k = 0; k < DEPTH; k++) sum += at[k] * other.at[k];
    return sum;
  }
};

// A thread's sums: two rows by two columns of every eight.
template <class T, class Sum>
void multiply_lines(Sum* into, u32 count, const Line<T> (&rows)[2], u64 b, u32 accumulate,
                    bool b_k_major) {
  const u32 lane = current % 32;
  for (u32 i = 0; i < count; i += 4) {
    const u32 first = i / 4 * 8 + lane % 4 * 2;
    const Line<T> columns[2] = {Line<T>(b, b_k_major, first), Line<T>(b, b_k_major, first + 1)};
    Sum sums[4];
    for (u32 s = 0; s < 4; s++) sums[s] = accumulate ? into[i + s] : 0;
    for (u32 k = 0; k < Line<T>::DEPTH; k++) {
      for (u32 s = 0; s < 4; s++) sums[s] += rows[s / 2].at[k] * columns[s % 2].at[k];
    }
    for (u32 s = 0; s < 4; s++) into[i + s] = sums[s];
  }
}

template <class T, class Sum, u32 SUMS>
void multiply_described(Sum (&sums)[SUMS], u64 a, u64 b, u32 accumulate, bool b_k_major,
                        bool a_k_major = true) {
  const u32 warp = current / 32 % 4, lane = current % 32;
  Sum* into = sums;
  open_multiplications[current].push_back([=] {
    const u32 row = 16 * warp + lane / 4;
    const Line<T> rows[2] = {Line<T>(a, a_k_major, row), Line<T>(a, a_k_major, row + 8)};
    multiply_lines(into, SUMS, rows, b, accumulate, b_k_major);
  });
}

}  // namespace model

DEVICE void multiply_tiles(f32 (&sums)[128], u64 a, u64 b, u32 accumulate, bf16) {
  model::multiply_described<bf16>(sums, a, b, accumulate, false);
}
DEVICE void multiply_tiles(f32 (&sums)[128], u64 a, u64 b, u32 accumulate, f16) {
  model::multiply_described<f16>(sums, a, b, accumulate, false);
}
DEVICE void multiply_tiles(f32 (&sums)[128], u64 a, u64 b, u32 accumulate, e4m3) {
  model::multiply_described<e4m3>(sums, a, b, accumulate, true);
}
DEVICE void multiply_tiles(f32 (&sums)[96], u64 a, u64 b, u32 accumulate, e4m3) {
  model::multiply_described<e4m3>(sums, a, b, accumulate, true);
}
DEVICE void multiply_tiles(f32 (&sums)[64], u64 a, u64 b, u32 accumulate, bf16) {
  model::multiply_described<bf16>(sums, a, b, accumulate, false);
}
DEVICE void multiply_tiles(f32 (&sums)[128], u64 a, u64 b, u32 accumulate, tf32) {
  model::multiply_described<tf32>(sums, a, b, accumulate, true);
}
DEVICE void multiply_tiles(i32 (&sums)[128], u64 a, u64 b, u32 accumulate, i8) {
  model::multiply_described<i8>(sums, a, b, accumulate, true);
}
template <class In> struct AlongK {};
template <class In>
DEVICE void multiply_tiles(f32 (&sums)[128], u64 a, u64 b, u32 accumulate, AlongK<In>) {
  model::multiply_described<In>(sums, a, b, accumulate, true);
}
template <class In, u32 SUMS>
void multiply_turned(f32 (&sums)[SUMS], u64 a, u64 b, u32 accumulate, AlongK<In>) {
  model::multiply_described<In>(sums, a, b, accumulate, true);
}
template <u32 SUMS>
void multiply_turned(f32 (&sums)[SUMS], u64 a, u64 b, u32 accumulate, bf16) {
  model::multiply_described<bf16>(sums, a, b, accumulate, true, false);
}
template <u32 SUMS>
void multiply_turned(f32 (&sums)[SUMS], u64 a, u64 b, u32 accumulate, f16) {
  model::multiply_described<f16>(sums, a, b, accumulate, true, false);
}
template <u32 SUMS>
void multiply_turned(f32 (&sums)[SUMS], u64 a, u64 b, u32 accumulate, e4m3) {
  model::multiply_described<e4m3>(sums, a, b, accumulate, true);
}

