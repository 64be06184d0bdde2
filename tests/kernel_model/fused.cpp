// Fused operations by their portable kernel, on random rows of even and odd lengths, against the
// same in f64: sums with the residual are equal, and each output is the rounding of a number that
// is within a bound of the right one.
#include "gpu.h"
#include "sm80.h"

#include "params.h"
#include "fused/portable.cu"

#include "checks.h"

namespace {

// What f32 may lose of an output before it is rounded: a part in 2^16, of which a sum of 8200
// squares by 256 threads takes less than a tenth.
constexpr f64 BOUND = 1.0 / 65536;

u64 state;
f64 uniform() {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return f64(state >> 11) / f64(1ull << 53) * 2 - 1;
}
bf16 random(f64 size) { return narrow(f32((uniform() + uniform() + uniform()) * size), bf16()); }

// The numbers that round to a value lie between the middles of it and its neighbours.
bool rounds_to(f64 wanted, f64 got, f64 below, f64 above, f64 bound) {
  if (std::signbit(wanted) != std::signbit(got) && got != 0) return false;
  const f64 size = std::fabs(wanted), value = std::fabs(got);
  return size * (1 + bound) >= (below + value) / 2 && size * (1 - bound) <= (value + above) / 2;
}
bool rounds_to_bf16(f64 wanted, bf16 got, f64 bound) {
  const u32 bits = got.bits & 0x7fff;
  const auto value = [](u32 bits) { return f64(float_of(bits << 16)); };
  const f64 sign = got.bits & 0x8000 ? -1 : 1;
  return rounds_to(wanted, sign * value(bits), bits ? value(bits - 1) : 0, value(bits + 1), bound);
}
bool rounds_to_e4m3(f64 wanted, u8 got, f64 bound) {
  const u32 bits = got & 0x7f;
  if (bits == 0x7f) return false;
  const auto value = [](u32 bits) { return f64(model::small_float<4, 3, 7>(bits)); };
  const f64 sign = got & 0x80 ? -1 : 1, above = bits == 0x7e ? INFINITY : value(bits + 1);
  return rounds_to(wanted, sign * value(bits), bits ? value(bits - 1) : 0, above, bound);
}

enum class To { Bf16, Fp8, Fp8Block };

struct Shape { u32 rows, width, blocks; };

// What should stand in a row, as the output has it.
void check_row(const FusedParams& p, To to, const char* name, u32 row,
               const std::vector<f64>& wanted) {
  const u64 first = u64(row) * p.width;
  const u32 blocks = tiles_along(p.width, 128);
  for (u32 at = 0; at < p.width; at++) {
    if (to == To::Bf16) {
      const bf16 got = static_cast<const bf16*>(p.output)[first + at];
      same(rounds_to_bf16(wanted[at], got, BOUND), name, "an output");
      continue;
    }
    const u8 got = static_cast<const u8*>(p.output)[first + at];
    f64 scale = 1 / f64(p.inverse);
    if (to == To::Fp8Block) {
      f64 largest = 1e-10;
      const u32 start = at / 128 * 128, end = start + 128 < p.width ? start + 128 : p.width;
      for (u32 i = start; i < end; i++) largest = std::fmax(largest, std::fabs(wanted[i]));
      scale = largest / 448;
      const f64 found = p.scales[u64(row) * blocks + at / 128];
      same(std::fabs(found - scale) <= BOUND * scale, name, "a scale");
    }
    same(rounds_to_e4m3(wanted[at] / scale, got, 3 * BOUND), name, "a code");
  }
}

u64 bytes_of(const Shape& shape, To to) {
  return u64(shape.rows) * shape.width * (to == To::Bf16 ? 2 : 1);
}

void check_norm(const Shape& shape, To to, const char* name, void (*kernel)(const FusedParams)) {
  const auto [rows, width, blocks] = shape;
  const u64 all = u64(rows) * width;
  Array<bf16> input(all), residual(all), updated(all), weight(width);
  Array<u8> output(bytes_of(shape, to));
  Array<f32> scales(u64(rows) * tiles_along(width, 128));
  for (u32 row = 0; row < rows; row++) {
    // Every second row is so small that epsilon shows.
    const f64 size = row % 2 ? 1.0 / 2048 : 1;
    for (u32 at = 0; at < width; at++) {
      input.data()[u64(row) * width + at] = random(size);
      residual.data()[u64(row) * width + at] = random(size);
    }
  }
  for (u32 at = 0; at < width; at++) weight.data()[at] = random(1);
  const FusedParams p = {input.data(),  residual.data(), updated.data(), weight.data(),
                         output.data(), scales.data(),   rows,           width,
                         1e-6f,         64.0f};
  model::launch(blocks, 256, 0, [&] { kernel(p); });
  for (u32 row = 0; row < rows; row++) {
    f64 squares = 0;
    std::vector<f64> sums(width);
    for (u32 at = 0; at < width; at++) {
      const u64 place = u64(row) * width + at;
      const bf16 sum = narrow(widen(input.data()[place]) + widen(residual.data()[place]), bf16());
      same(updated.data()[place].bits == sum.bits, name, "a sum with the residual");
      sums[at] = widen(sum);
      squares += sums[at] * sums[at];
    }
    const f64 factor = 1 / std::sqrt(squares / width + f64(p.epsilon));
    for (u32 at = 0; at < width; at++) sums[at] *= factor * widen(weight.data()[at]);
    check_row(p, to, name, row, sums);
  }
  same(input.intact() && residual.intact() && updated.intact() && weight.intact() &&
       output.intact() && scales.intact(), name, "a write beside an array");
}

void check_swiglu(const Shape& shape, To to, const char* name, void (*kernel)(const FusedParams)) {
  const auto [rows, width, blocks] = shape;
  Array<bf16> input(u64(rows) * 2 * width);
  Array<u8> output(bytes_of(shape, to));
  Array<f32> scales(u64(rows) * tiles_along(width, 128));
  for (u64 at = 0; at < input.count; at++) input.data()[at] = random(3);
  const FusedParams p = {input.data(), nullptr, nullptr, nullptr, output.data(),
                         scales.data(), rows, width, 0.0f, 1.0f};
  model::launch(blocks, 256, 0, [&] { kernel(p); });
  for (u32 row = 0; row < rows; row++) {
    const bf16* gate = input.data() + u64(row) * 2 * width;
    std::vector<f64> wanted(width);
    for (u32 at = 0; at < width; at++) {
      const f64 value = widen(gate[at]);
      wanted[at] = value / (1 + std::exp(-value)) * widen(gate[width + at]);
    }
    check_row(p, to, name, row, wanted);
  }
  same(input.intact() && output.intact() && scales.intact(), name, "a write beside an array");
}

}  // namespace

int main() {
  // Even lengths within and beyond what registers keep, whole scales and not; then odd ones.
  const Shape shapes[] = {{3, 8, 2},    {5, 136, 2},  {2, 1000, 1}, {3, 2048, 2}, {2, 4096, 3},
                          {3, 7168, 2}, {2, 8192, 1}, {2, 8200, 1}, {2, 10240, 1},
                          {3, 1, 2},    {2, 7, 1},    {5, 129, 3},  {3, 333, 2},  {2, 4097, 1}};
  for (u64 seed : {2, 4, 7, 12}) {
    state = seed;
    for (const Shape& shape : shapes) {
      check_norm(shape, To::Bf16, "fused/norm/bf16", fused_norm_bf16);
      check_norm(shape, To::Fp8, "fused/norm/fp8", fused_norm_fp8);
      check_norm(shape, To::Fp8Block, "fused/norm/fp8block", fused_norm_fp8block);
      check_swiglu(shape, To::Bf16, "fused/swiglu/bf16", fused_swiglu_bf16);
      check_swiglu(shape, To::Fp8Block, "fused/swiglu/fp8block", fused_swiglu_fp8block);
    }
  }
  printf("%u checks passed\n", checked);
}
