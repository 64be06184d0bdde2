// Makes a kernel file a library that the stub driver launches: entries by name, parameters as the
// bytes that a driver is given, and faults as words instead of an end of the process. It comes last,
// behind the file's text and the table `ENTRIES`.
#pragma once

#include <utility>

namespace model {

// What a launch is given; crates/stub-driver/src/model.rs mirrors it.
struct Launch {
  const u8* params;
  u64 bytes;
  u32 grid, threads, shared, together;
  u64 tick;
  u64 (*distance)(const void*);
};

// Parameters stand one after the other, each at a multiple of its own alignment.
template <class T> u64 place_of(u64& end) {
  const u64 at = (end + alignof(T) - 1) / alignof(T) * alignof(T);
  end = at + sizeof(T);
  return at;
}

template <class T> T taken(const u8* params, u64 at) {
  T value;
  memcpy(static_cast<void*>(&value), params + at, sizeof(T));
  return value;
}

template <class... T, size_t... I>
void start(void (*kernel)(T...), const Launch& launch, std::index_sequence<I...>) {
  u64 end = 0;
  // In the order they stand in; an initializer list keeps it.
  const u64 places[] = {place_of<T>(end)...};
  if (end != launch.bytes) fail("parameters of another length than the kernel takes");
  const u8* params = launch.params;
  model::launch(launch.grid, launch.threads, launch.shared,
                [=] { kernel(taken<T>(params, places[I])...); }, launch.together);
}

// Where a parameter stands; crates/stub-driver/src/model.rs mirrors it.
struct Parameter { u64 place, bytes, alignment; };
constexpr u64 PARAMETERS_MAX = 8;

template <class... T> u64 parameters(void (*)(T...), Parameter* found) {
  static_assert(sizeof...(T) <= PARAMETERS_MAX);
  u64 end = 0, count = 0;
  ((found[count++] = {place_of<T>(end), sizeof(T), alignof(T)}), ...);
  return count;
}

template <class... T> void start(void (*kernel)(T...), const Launch& launch) {
  start(kernel, launch, std::index_sequence_for<T...>());
}

}  // namespace model

#define EXPORTED extern "C" __attribute__((visibility("default")))

// Runs an entry to its end; what went wrong, or nothing. After a fault the library is not launched
// again: its threads stopped where they were.
EXPORTED const char* model_launch(const char* name, const model::Launch* launch) {
  sigjmp_buf here;
  model::fault = nullptr;
  model::tick = launch->tick;
  model::distance = launch->distance;
  if (sigsetjmp(here, 1) == 0) {
    model::caught = &here;
    if (launch->shared > model::SHARED_BYTES) model::fail("more shared memory than a unit has");
    if (launch->together > model::CLUSTER_MAX) model::fail("a cluster of too many blocks");
    if (launch->grid % launch->together != 0) model::fail("a grid of no whole clusters");
    if (launch->threads == 0 || launch->grid == 0) model::fail("a launch of nothing");
    bool found = false;
#define ENTRY(NAME)                                                                               \
  if (!found && strcmp(name, #NAME) == 0) {                                                       \
    found = true;                                                                                 \
    model::start(NAME, *launch);                                                                  \
  }
    ENTRIES
#undef ENTRY
    if (!found) model::fail("no entry of this name");
  }
  model::caught = nullptr;
  return model::fault;
}

// Ends the launch that this thread runs, for who handles a signal.
EXPORTED void model_end(const char* what) { model::fail(what); }

EXPORTED bool model_has(const char* name) {
#define ENTRY(NAME)                                                                               \
  if (strcmp(name, #NAME) == 0) return true;
  ENTRIES
#undef ENTRY
  return false;
}

// The parameters of an entry, and how many they are.
EXPORTED u64 model_parameters(const char* name, model::Parameter* found) {
#define ENTRY(NAME)                                                                               \
  if (strcmp(name, #NAME) == 0) return model::parameters(NAME, found);
  ENTRIES
#undef ENTRY
  return 0;
}
