// Where a thread's next chunks of a matrix come from. Products by fragments copy a matrix stage after
// stage; of each stage a thread has a few chunks of 16 bytes, in lines that are equally far apart.
// Which tile comes when is found out once a tile: from stage to stage only addresses grow.
#pragma once
#include "sm80.h"

struct Source {
  const u8* at;    // the first of this thread's chunks of a stage
  u32 line, byte;  // of the matrix, where it starts
  u32 to;          // where it goes, within a stage

  // `pitch`: bytes from a line to the next.
  DEVICE_MEMBER void aim(const void* matrix, u64 pitch, u32 line_now, u32 byte_now) {
    at = static_cast<const u8*>(matrix) + line_now * pitch + byte_now;
    line = line_now;
    byte = byte_now;
  }
  // COUNT chunks, APART lines from each other, which stand TO_APART bytes from each other in the stage.
  // What is behind the matrix' last line, of `lines`, or behind a line's last byte, of `bytes`, becomes
  // zero, and is not read.
  template <u32 COUNT, u32 APART, u32 TO_APART>
  DEVICE_MEMBER void copy(u32 stage, u64 pitch, u32 lines, u32 bytes) const {
    const u32 there = byte >= bytes ? 0 : bytes - byte < 16 ? bytes - byte : 16;
    UNROLL for (u32 i = 0; i < COUNT; i++) {
      const u32 valid = line + i * APART < lines ? there : 0;
      copy_async(stage + to + i * TO_APART, at + i * APART * pitch, valid);
    }
  }
  DEVICE_MEMBER void along(u32 count) {
    at += count;
    byte += count;
  }
  DEVICE_MEMBER void down(u32 count, u64 pitch) {
    at += count * pitch;
    line += count;
  }
};
