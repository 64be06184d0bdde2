// The greatest of some numbers, of equal ones the first: crates/domain/src/case/sparse.rs.
//
// A number and its place together are a word of 64 bits, of which no two are equal and the greatest
// are wanted. A block counts words by their first 11 bits, finds the count that the last wanted word
// is among, and leaves what is above it. Words of that count go to shared memory where they fit, and
// are counted by their next bits. Where there are more blocks than rows, each takes a part of a row,
// and the last of them chooses among what all have left.
#include "params.h"
#include "tiles.h"

namespace {

CONSTANT u32 THREADS = 512;
// Bits that words are counted by at once.
CONSTANT u32 BITS = 11;
CONSTANT u32 COUNTS = 1 << BITS;
// Words that fit in shared memory.
CONSTANT u32 FITTING = 2048;
// Numbers that a thread loads at once.
CONSTANT u32 AT_ONCE = 4;
// Fewest numbers of a part, in times of those that are wanted.
CONSTANT u32 PART_MIN = 4;
// Words of 64 bits that a part leaves: at most as many, behind a line with the count of parts done.
CONSTANT u32 LEFT_MAX = 2048;
CONSTANT u32 SLOT = 8 + LEFT_MAX;

struct Room {
  u64 words[FITTING];
  u32 counts[COUNTS];
  u32 sums[2][THREADS];
  u32 digit, left, count, emitted, fitted, done;
};

DEVICE u32 least(u32 a, u32 b) { return a < b ? a : b; }

// Greater for greater numbers, and for lower places of equal ones.
DEVICE u64 word(f32 number, u32 place) {
  const u32 bits = bits_of(number);
  return u64(bits & 0x80000000 ? ~bits : bits | 0x80000000) << 32 | ~place;
}
DEVICE u32 place(u64 word) { return ~u32(word); }

// Where words come from: a part of a row, shared memory, or what parts have left.
struct Row {
  const f32* numbers;
  u32 first;

  DEVICE_MEMBER u64 at(u32 i) const { return word(numbers[first + i], first + i); }
};
struct Shared {
  const u64* words;

  DEVICE_MEMBER u64 at(u32 i) const { return words[i]; }
};
struct Slots {
  const u64* slots;
  u32 each;

  DEVICE_MEMBER u64 at(u32 i) const {
    return load_fresh(slots + u64(i / each) * SLOT + 8 + i % each);
  }
};

// Each of some words once, by any thread.
template <class From, class Visit> DEVICE void visit(const From& from, u32 count, Visit visit) {
  for (u32 first = thread_index(); first < count; first += AT_ONCE * THREADS) {
    u64 words[AT_ONCE];
    UNROLL for (u32 i = 0; i < AT_ONCE; i++) {
      // Beyond the last one, the last one again.
      words[i] = from.at(least(first + i * THREADS, count - 1));
    }
    UNROLL for (u32 i = 0; i < AT_ONCE; i++) {
      if (first + i * THREADS < count) visit(words[i]);
    }
  }
}

// What is known of the last wanted word: its bits from `shift` on, how many words have the same, and
// how many of these are wanted.
struct Known { u64 prefix; u32 shift, count, left; };

// Finds some bits more.
template <class From> DEVICE Known narrowed(const From& from, u32 all, const Known& known, Room& room) {
  const u32 width = least(BITS, known.shift), shift = known.shift - width, me = thread_index();
  for (u32 i = me; i < COUNTS; i += THREADS) room.counts[i] = 0;
  block_barrier();
  visit(from, all, [&](u64 word) {
    // In two steps: by 64 a word cannot be shifted.
    if (known.shift < 64 && word >> known.shift != known.prefix) return;
    atomic_add(&room.counts[u32(word >> shift) & ((1 << width) - 1)], 1u);
  });
  block_barrier();
  // From the greatest on, each thread has some counts.
  constexpr u32 EACH = COUNTS / THREADS;
  u32 mine = 0;
  UNROLL for (u32 i = 0; i < EACH; i++) mine += room.counts[COUNTS - 1 - (EACH * me + i)];
  room.sums[0][me] = mine;
  block_barrier();
  u32 side = 0;
  for (u32 step = 1; step < THREADS; step *= 2) {
    const u32 before = me >= step ? room.sums[side][me - step] : 0;
    room.sums[1 - side][me] = room.sums[side][me] + before;
    side = 1 - side;
    block_barrier();
  }
  u32 above = room.sums[side][me] - mine;
  if (above < known.left && known.left <= above + mine) {
    for (u32 digit = COUNTS - 1 - EACH * me;; digit--) {
      const u32 count = room.counts[digit];
      if (known.left <= above + count) {
        room.digit = digit;
        room.count = count;
        room.left = known.left - above;
        break;
      }
      above += count;
    }
  }
  block_barrier();
  const u64 before = known.shift < 64 ? known.prefix << width : 0;
  return {before | room.digit, shift, room.count, room.left};
}

// Hands the `wanted` greatest of `count` words to `emit`, each with a number of its own.
template <class From, class Emit>
DEVICE void choose(const From& from, u32 count, u32 wanted, Room& room, Emit emit) {
  if (thread_index() == 0) room.emitted = room.fitted = 0;
  block_barrier();
  const auto leave = [&](u64 word) { emit(atomic_add(&room.emitted, 1u), word); };
  Known known = {0, 64, count, wanted};
  const auto is_wanted = [&](u64 word) { return known.shift == 64 || word >> known.shift >= known.prefix; };
  while (known.count > known.left && (known.shift == 64 || known.count > FITTING)) {
    known = narrowed(from, count, known, room);
  }
  const bool is_done = known.count == known.left;
  visit(from, count, [&](u64 word) {
    if (!is_wanted(word)) return;
    if (is_done || word >> known.shift != known.prefix) leave(word);
    else room.words[atomic_add(&room.fitted, 1u)] = word;
  });
  block_barrier();
  if (is_done) return;
  const u32 fitted = room.fitted;
  const Shared shared = {room.words};
  while (known.count > known.left) known = narrowed(shared, fitted, known, room);
  visit(shared, fitted, [&](u64 word) {
    if (is_wanted(word)) leave(word);
  });
  block_barrier();
}

// Whether this block is the last of some; `count` is zero again then.
DEVICE bool is_last(u32* count, u32 blocks, Room& room) {
  device_fence();
  block_barrier();
  if (thread_index() == 0) {
    room.done = atomic_add(count, 1u) + 1;
    if (room.done == blocks) *count = 0;
  }
  block_barrier();
  device_fence();
  return room.done == blocks;
}

}  // namespace

KERNEL(512, 2) sparse_top_k(const SparseTopKParams p, u64* scratch) {
  SHARED Room room;
  const u32 most = p.selected > LEFT_MAX ? 1 : p.context / (PART_MIN * p.selected);
  const u32 asked = least(block_count() / p.rows, most), wanted = asked > 1 ? asked : 1;
  const u32 span = tiles_along(p.context, wanted), parts = tiles_along(p.context, span);
  for (u32 index = block_index(); index < p.rows * parts; index += block_count()) {
    const u32 row = index / parts, first = index % parts * span;
    const u32 count = least(span, p.context - first);
    const Row numbers = {p.logits + u64(row) * p.context, first};
    u32* selection = p.selection + u64(row) * p.selected;
    const auto leave = [&](u32 at, u64 word) { selection[at] = place(word); };
    if (parts == 1) {
      choose(numbers, count, p.selected, room, leave);
      continue;
    }
    u64* slot = scratch + u64(index) * SLOT;
    u64* slots = slot - u64(index % parts) * SLOT;
    choose(numbers, count, least(p.selected, count), room,
           [&](u32 at, u64 word) { slot[8 + at] = word; });
    if (!is_last(reinterpret_cast<u32*>(slots), parts, room)) continue;
    const u32 last = least(p.selected, p.context - (parts - 1) * span);
    const u32 all = (parts - 1) * p.selected + last;
    choose(Slots{slots, p.selected}, all, p.selected, room, leave);
  }
}
