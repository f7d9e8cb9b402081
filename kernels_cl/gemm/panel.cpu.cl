// Gemm with packed panels and a register tile, for CPU runtimes: one work-item computes one tile of c.
//   for each slab along k:
//     pack b -> __local [nc / NR][kc][NR]      (NR = two vectors)
//     for each block of rows:
//       pack a -> __local [block / 8][kc][8], if its rows cannot be read where they lie
//       for each panel of b (stays in L1), each panel of a (streams from L2): 8 x 2 vectors of accumulators in
//       registers
//   sums are carried from slab to slab in `carry`: c itself where it is dense and of the compute type, else a workspace
// Past the edge of a panel lies whatever was read there (the slack of tensors makes that safe); those sums are not
// stored.
// DEEP: panels lie in a workspace, a part of it for every work-item that runs, and may be larger than local memory:
// large products.
// PAIRS: bfloat16 as it is, two steps of k in one 32-bit element (common/bfloat16_pairs.clh), at twice the rate of
// float32.
// Grid: (tiles along m, tiles along n, batch), where nothing else is said. Chosen on CPU devices for real floating
// types.
#include "gemm/panel.clh"

// defines: DTYPE, WIDE (1: double), PAIRS, DEEP, DIRECT (1: a's storage type is the compute type);
//          MC * KC and NC * KC elements of a and b fit into local memory

// All of a task; la and lb are memory for its panels. a, rows and b: of the task's first row and column.
inline void multiply_task(__global const storage_t* a, __global const storage_t* b, task_tile tile, PANELS packed_t* la,
                          PANELS packed_t* lb, __local T* lt, const GemmArguments* arguments,
                          const PanelPlan* shared_plan, T alpha, T beta) {
  const GemmArguments p = *arguments;
  const PanelPlan plan = *shared_plan;
  long k0 = 0;
  do {
    const int steps = min((long)plan.kc, p.k - k0);
    const slab_info slab = {alpha, beta, k0 == 0, k0 + steps >= p.k};
    pack_b(b + k0 * p.b_row, p.b_column, p.b_row, tile.columns, steps, lb, plan.b_mode);
    for (int i0 = 0; i0 < tile.rows; i0 += plan.block) {
      const int i1 = min(i0 + plan.block, tile.rows);
      __global const storage_t* rows = a + k0 * p.a_column + i0 * p.a_row;
      if (!plan.direct) pack_a(rows, p.a_row, p.a_column, i1 - i0, steps, la, plan.a_mode);
      multiply_block(tile, i0, i1, la, rows, lb, DEPTH(steps), lt, &p, &plan, slab);
    }
    k0 += steps;
  } while (k0 < p.k);
}

#if DEEP
// Elements of a work-item's part of the workspace; a multiple of a cache line.
#define PART (plan.block / MR * A_PANEL(DEPTH(plan.kc)) + plan.nc / NR * B_PANEL(DEPTH(plan.kc)))

// Waits for a part of the workspace that no other work-item has: there are as many as compute units, so one will be
// free.
inline int take_part(__global int* taken, int parts) {
  for (int i = 0;; i = (i + 1) % parts)
    if (atomic_cmpxchg(taken + i, 0, 1) == 0) return i;
}

// Work-items claim one tile after another: a core that others slow down leaves them to the rest, however the runtime
// deals out work-groups.
// Grid: any number of them. panels: `parts` times PART elements. counters, zero before and after: the next tile,
// work-items that have ended,
// then for each part whether somebody has it.
CPU_KERNEL void gemm_panel(global const storage_t* a, global const storage_t* b, global storage_t* c,
                           global const storage_t* d, global T* carry, GemmArguments p, PanelPlan plan, T alpha, T beta,
                           global packed_t* panels, int parts, global int* counters) {
  local T lt[MR * L];
  const int along_m = (p.m + plan.mc - 1) / plan.mc, along_n = (p.n + plan.nc - 1) / plan.nc,
            tasks = along_m * along_n * plan.batch;
  int task = atomic_inc(counters);
  if (task < tasks) {
    const int part = take_part(counters + 2, parts);
    PANELS packed_t* la = panels + part * (long)PART;
    for (; task < tasks; task = atomic_inc(counters)) {
      const long batch = task / (along_m * along_n), m0 = (long)(task % along_m) * plan.mc,
                 n0 = (long)(task / along_m % along_n) * plan.nc;
      multiply_task(a + batch * p.a_batch + m0 * p.a_row, b + batch * p.b_batch + n0 * p.b_column,
                    find_tile(c, d, carry, &p, &plan, batch, m0, n0), la,
                    la + plan.block / MR * A_PANEL(DEPTH(plan.kc)), lt, &p, &plan, alpha, beta);
    }
    atomic_xchg(counters + 2 + part, 0);
  }
  if (atomic_inc(counters + 1) == get_num_groups(0) - 1) counters[0] = counters[1] = 0;
}
#else
CPU_KERNEL void gemm_panel(global const storage_t* a, global const storage_t* b, global storage_t* c,
                           global const storage_t* d, global T* carry, GemmArguments p, PanelPlan plan, T alpha,
                           T beta) {
  local packed_t la[MC / MR * A_PANEL(DEPTH(KC))];
  local packed_t lb[NC / NR * B_PANEL(DEPTH(KC))];
  local T lt[MR * L];
  const long batch = get_group_id(2), m0 = (long)get_group_id(0) * plan.mc, n0 = (long)get_group_id(1) * plan.nc;
  multiply_task(a + batch * p.a_batch + m0 * p.a_row, b + batch * p.b_batch + n0 * p.b_column,
                find_tile(c, d, carry, &p, &plan, batch, m0, n0), la, lb, lt, &p, &plan, alpha, beta);
}
#endif
