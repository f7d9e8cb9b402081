// Moves elements of BYTES bytes through an index (csrc/ops/index/indexed.h); any dtype of that width.
//   index_fat   a task copies a block; rows that are contiguous on both sides go by vectors of 16
//   index_simt  a work-item per element
#include "common/memory.clh"

#ifndef BYTES
#define BYTES 4
#endif
#ifndef INDEX_DTYPE
#define INDEX_DTYPE int64
#endif

#define ELEMENT_1 uchar
#define ELEMENT_2 ushort
#define ELEMENT_4 uint
#define ELEMENT_8 ulong
#define ELEMENT_16 ulong2
#define ELEMENT CAT(ELEMENT_, BYTES)

#define UPDATE(d, s) *(d) = (s)
#if DEVICE_FAT && BYTES < 16
#define UPDATE_ROW(d, s, n) copy_row(d, s, n)
inline void copy_row(__global ELEMENT* d, __global const ELEMENT* s, long n) {
  long j = 0;
  for (; j + 64 <= n; j += 64) {
    const CAT(ELEMENT, 16) v0 = vload16(0, s + j), v1 = vload16(1, s + j), v2 = vload16(2, s + j), v3 = vload16(3, s + j);
    STORE_VECTOR(ELEMENT, 16, v0, d + j);
    STORE_VECTOR(ELEMENT, 16, v1, d + j + 16);
    STORE_VECTOR(ELEMENT, 16, v2, d + j + 32);
    STORE_VECTOR(ELEMENT, 16, v3, d + j + 48);
  }
  for (; j + 16 <= n; j += 16) STORE_VECTOR(ELEMENT, 16, vload16(0, s + j), d + j);
  for (; j < n; ++j) d[j] = s[j];
}
#define UPDATE_REVERSED(d, s, n) copy_reversed(d, s, n)
inline void copy_reversed(__global ELEMENT* d, __global const ELEMENT* s, long n) {
  long j = 0;
  for (; j + 16 <= n; j += 16) STORE_VECTOR(ELEMENT, 16, vload16(0, s - j - 15).sfedcba9876543210, d + j);
  for (; j < n; ++j) d[j] = s[-j];
}
#endif

#include "common/indexed.clh"

#if DEVICE_FAT
INDEXED_FAT(index_fat)
#else
INDEXED_SIMT(index_simt)
#endif
