// y = x W^T + bias for many rows of bfloat16 x, W quantised (quantized/codes.clh), for CPU runtimes: the product of
// packed panels (gemm/panel.cpu.cl) whose panels of b are packed out of codes, so that the numbers that they stand for
// are never written to memory.
// Grid: (tiles along m, tiles along n). Chosen where bfloat16_pairs multiplies.
#include "gemm/panel.clh"

// defines: as gemm/panel.cpu.cl, PAIRS 1, DEEP 0, DIRECT 0; and as quantized/codes.clh
#define UNPACKED __local
#define PUT_WEIGHTS(v, p, i)                                   \
  do {                                                         \
    ushort16 rounded_;                                         \
    ROUND_PAIRS(rounded_, v);                                  \
    STORE_NARROW_IN(__local, ushort, 16, rounded_, (p) + (i)); \
  } while (0)
#include "quantized/unpack.clh"

#define STAGED 256  // weights of 16 rows that are made numbers together: one unit, or several

typedef struct {
  __global const uchar* codes;
  __global const scale_t *scales, *offsets;
} weights;

// Rows n0 to n0 + columns - 1 of W as the columns of panels, `steps` steps from k0 on: a multiple of STAGED, or of
// BLOCK where units are blocks. stage: 16 rows of STAGED.
inline void pack_weights(weights w, const QuantizedArguments* arguments, long n0, int columns, long k0, int steps,
                         __local ushort* stage, PANELS packed_t* out) {
  const QuantizedArguments p = *arguments;
  const int kc = DEPTH(steps);
  for (int column = 0; column < columns; column += L)
    for (int k = 0; k < steps; k += STAGED) {
      const int count = min(STAGED, steps - k);
      for (int i = 0; i < L; i++) {
        const long row = n0 + min(column + i, columns - 1);
        __local ushort* to = stage + i * STAGED;
        // The next 16 rows' codes: a slab's part of a row is too short for the processor to see where it leads.
        __global const uchar* ahead = w.codes + (row + L) * p.pitch + (k0 + k) / UNIT * UNIT_BYTES;
        for (int byte = 0; byte < STAGED / UNIT * UNIT_BYTES; byte += 64) PREFETCH_FIRST(ahead + byte);
        to[(count - 1) | 1] = 0;  // behind the last step of an odd number there must be zero
        unpack_row(w.codes + row * p.pitch, w.scales + row * p.scale_row, w.offsets + row * p.offset_row, p, k0 + k,
                   k0 + k + count, to);
      }
      for (int x = 0; x < DEPTH(count); x += L) {
        PACKED r[L];
#pragma unroll
        for (int i = 0; i < L; i++) r[i] = *(__local const uint16*)(stage + i * STAGED + 2 * x);
        CAT(TRANSPOSE, L)(PACKED, r);
        if (x + L <= DEPTH(count)) {
#pragma unroll
          for (int i = 0; i < L; i++) put_b(out, column, kc, k / 2 + x + i, r[i]);
        } else {
          for (int i = 0; i < DEPTH(count) - x; i++) put_b(out, column, kc, k / 2 + x + i, r[i]);
        }
      }
    }
}

CPU_KERNEL void quantized_panels(global const storage_t* a, global const uchar* codes, global const scale_t* scales,
                                 global const scale_t* offsets, global storage_t* c, global const storage_t* d,
                                 global T* carry, GemmArguments p, PanelPlan plan, QuantizedArguments q) {
  local packed_t la[MC / MR * A_PANEL(DEPTH(KC))];
  local packed_t lb[NC / NR * B_PANEL(DEPTH(KC))];
  local T lt[MR * L];
  local ushort stage[16 * STAGED];
  const long m0 = (long)get_group_id(0) * plan.mc, n0 = (long)get_group_id(1) * plan.nc;
  const weights w = {codes, scales, offsets};
  const task_tile tile = find_tile(c, d, carry, &p, &plan, 0, m0, n0);
  for (long k0 = 0; k0 < p.k; k0 += plan.kc) {
    const int steps = min((long)plan.kc, p.k - k0);
    const slab_info slab = {1, 1, k0 == 0, k0 + steps >= p.k};
    pack_weights(w, &q, n0, tile.columns, k0, steps, stage, lb);
    for (int i0 = 0; i0 < tile.rows; i0 += plan.block) {
      const int i1 = min(i0 + plan.block, tile.rows);
      __global const storage_t* rows = a + k0 + (m0 + i0) * p.a_row;
      pack_a(rows, p.a_row, p.a_column, i1 - i0, steps, la, plan.a_mode);
      multiply_block(tile, i0, i1, la, rows, lb, DEPTH(steps), lt, &p, &plan, slab);
    }
  }
}
