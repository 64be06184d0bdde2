// Types of attention by tensor memory.
#pragma once
#include "sm89.h"

// Of elements of type T: the number of the type in the order to multiply (descriptor.h), and the type
// of the output.
template <class T> struct AttentionType;
template <> struct AttentionType<f16> {
  static constexpr u32 NUMBER = 0;
  using Out = f16;
};
template <> struct AttentionType<bf16> {
  static constexpr u32 NUMBER = 1;
  using Out = bf16;
};
template <> struct AttentionType<e4m3> {
  static constexpr u32 NUMBER = 0;
  using Out = bf16;
};
