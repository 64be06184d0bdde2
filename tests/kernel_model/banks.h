// How often shared memory has to be asked for what the lanes of a warp or wave want at once. It has
// 32 banks of 4 bytes, and in one pass each bank gives or takes one word, to as many lanes as want
// that one. Lanes go together as many as make 128 bytes: 32 of 4 bytes, 16 of 8, 8 of 16.
//
// NVIDIA: lanes that follow each other (CUDA programming guide, "Shared Memory"). AMD: the same,
// but for reads of CDNA. CDNA 2 and 3 read 16 bytes for lanes 0..3 and 20..23, 4..7 and 16..19,
// 8..11 and 28..31, 12..15 and 24..27 together (AMD, "Avoiding LDS Bank Conflicts on AMD GPUs Using
// CK-Tile Framework"). CDNA 4 reads 8 and 16 bytes from 64 banks: 8 for 32 lanes that follow each
// other, 16 for lanes 0..3, 12..15 and 20..27, and 4..11, 16..19 and 28..31 (measured: HipKittens,
// arXiv 2511.08083, table 5). Lanes from 32 on go as those before.
#pragma once
#include "gpu.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

namespace model {

// Passes that would do without a conflict, and those that it takes.
struct Passes {
  u64 needed = 0, made = 0;
  void operator+=(Passes more) {
    needed += more.needed;
    made += more.made;
  }
};
struct Traffic { Passes reads, writes; };

inline Traffic traffic;
// Where nobody asks, nothing is counted: it takes time.
inline bool counts_banks;
// CDNA 4's.
inline bool has_64_banks;

constexpr u64 ABSENT = ~u64(0);

// Four lanes that follow each other go together; which fours, in the order of passes of CDNA's
// reads of 16 bytes: with 32 banks two of them, with 64 four.
constexpr u32 FOURS[2][8] = {{0, 5, 1, 4, 2, 7, 3, 6}, {0, 3, 5, 6, 1, 2, 4, 7}};

// Passes for one instruction of a warp's lanes, of so many bytes each.
inline Passes passes(const std::vector<u64>& addresses, u32 bytes, bool writes) {
  const bool wide = !writes && has_64_banks && bytes >= 8;
  const u32 banks = wide ? 64 : 32, together = banks * 4 / bytes;
  const bool is_cdnas = MODEL_LANES == 64 && !writes && bytes == 16;
  Passes found;
  for (u32 first = 0; first < addresses.size(); first += together) {
    std::array<u64, 256> words;
    u32 count = 0;
    for (u32 i = first; i < first + together && i < addresses.size(); i++) {
      const u32 lane = is_cdnas ? i / 32 * 32 + FOURS[wide][i / 4 % 8] * 4 + i % 4 : i;
      const u64 at = addresses[lane];
      if (at == ABSENT) continue;
      for (u64 word = at / 4; word < (at + bytes + 3) / 4; word++) words[count++] = word;
    }
    std::sort(words.begin(), words.begin() + count);
    const auto end = std::unique(words.begin(), words.begin() + count);
    std::array<u32, 64> of_banks = {};
    u32 most = 0;
    for (auto word = words.begin(); word < end; word++) {
      most = std::max(most, ++of_banks[*word % banks]);
    }
    found += {most > 0, most};
  }
  return found;
}

// What lanes want by an instruction of the text, the first time, the second and so on, until all
// lanes have come there as often.
struct Wanted {
  u32 bytes;
  bool writes;
  u64 first = 0;
  std::vector<u64> times = std::vector<u64>(MODEL_LANES);
  struct Time { std::vector<u64> addresses = std::vector<u64>(MODEL_LANES, ABSENT); u32 lanes = 0; };
  std::deque<Time> open;

  void count() {
    Passes& to = writes ? traffic.writes : traffic.reads;
    to += passes(open.front().addresses, bytes, writes);
    open.pop_front();
    first++;
  }
};
// By warp, and by line of the text.
inline std::map<std::pair<u32, std::pair<const char*, int>>, Wanted> wanted;

inline void count_rest() {
  for (auto& [where, each] : wanted) {
    while (!each.open.empty()) each.count();
  }
  wanted.clear();
}

// A lane's access to shared memory, by the instruction at a line of the text.
inline void touch(bool writes, u64 at, u32 bytes, const char* file, int line) {
  if (!counts_banks) return;
  after_block = count_rest;
  const u32 warp = current / MODEL_LANES, lane = current % MODEL_LANES;
  Wanted& here = wanted.try_emplace({warp, {file, line}}, Wanted{bytes, writes}).first->second;
  if (here.bytes != bytes || here.writes != writes) fail("two kinds of access at one line of a text");
  const u64 time = here.times[lane]++;
  while (here.first + here.open.size() <= time) here.open.emplace_back();
  Wanted::Time& now = here.open[time - here.first];
  now.addresses[lane] = at;
  if (++now.lanes == MODEL_LANES && time == here.first) here.count();
}

// What each kernel asked for so far, by its name.
inline std::map<std::string, Traffic> of_kernels;

// Counts what the last launch asked for as a kernel's.
inline void count_for(const char* name) {
  of_kernels[name].reads += traffic.reads;
  of_kernels[name].writes += traffic.writes;
  traffic = {};
}

// Kernels that have conflicts, in passes for each 100 that would do, and why. In their name a `*`
// stands for anything.
struct Known {
  std::string name;
  u32 reads, writes;
  const char* why;

  bool is(const std::string& other) const {
    const size_t star = name.find('*');
    if (star == std::string::npos) return name == other;
    const std::string end = name.substr(star + 1);
    return other.size() + 1 >= name.size() && other.compare(0, star, name, 0, star) == 0 &&
           other.compare(other.size() - end.size(), end.size(), end) == 0;
  }
};

// To the nearest; 100 only where there is no conflict at all.
inline u32 percent(Passes passes) {
  if (passes.made == passes.needed) return 100;
  const u32 nearest = u32((passes.made * 100 + passes.needed / 2) / passes.needed);
  return nearest > 100 ? nearest : 101;
}

// Prints every kernel's passes. No kernel may have conflicts but the known ones, and those neither
// more nor fewer than is known: 1 where one has.
inline int judge_banks(const std::vector<Known>& known) {
  int faults = 0;
  for (const auto& [name, traffic] : of_kernels) {
    const u32 reads = percent(traffic.reads), writes = percent(traffic.writes);
    u32 reads_known = 100, writes_known = 100;
    const char* why = "";
    for (const Known& each : known) {
      if (!each.is(name)) continue;
      reads_known = each.reads;
      writes_known = each.writes;
      why = each.why;
    }
    const auto told = [](Passes passes) {
      return passes.needed == 0 ? "not counted" : std::to_string(percent(passes));
    };
    printf("banks of %s: passes for each 100 that would do: reads %s, writes %s%s%s\n", name.c_str(),
           told(traffic.reads).c_str(), told(traffic.writes).c_str(), *why ? "; known: " : "", why);
    if (reads == reads_known && writes == writes_known) continue;
    printf("fault: %s: bank conflicts: %u and %u were known\n", name.c_str(), reads_known,
           writes_known);
    faults = 1;
  }
  return faults;
}

}  // namespace model
