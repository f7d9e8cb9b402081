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
#include "gemm/gemm.clh"
#include "common/register_tile.clh"
#include "common/transpose16.clh"
#include "common/transpose8.clh"

// defines: DTYPE, WIDE (1: double), PAIRS, DEEP, DIRECT (1: a's storage type is the compute type);
//          MC * KC and NC * KC elements of a and b fit into local memory
#define MR 8
#define NR (2 * L)
#if DEEP
#define PANELS __global
#else
#define PANELS __local
#endif

// How an operand is packed: its panel direction is contiguous, or its k direction is, or neither.
#define ALONG_PANEL 0
#define ALONG_K 1

// Mirrors PanelPlan in csrc/ops/gemm/panel.cpp.
typedef struct {
  long carry_batch, carry_row;  // strides of carry, columns are contiguous
  int mc, nc, kc, block;        // sizes of tiles, slabs and blocks of rows of this launch
  int a_mode, b_mode;
  int dense;  // c's columns are contiguous
  int batch;
  int direct;  // a is read where it lies: elements along k are neighbours and of the compute type
} panel_plan;

#if PAIRS
#include "common/bfloat16_pairs.clh"
typedef uint packed_t;
#define PACKED uint16
#define PACKED_HALF uint8
#define DEPTH(k) (((k) + 1) / 2)  // elements along k of kc steps
#define MULTIPLY_ADD ADD_PRODUCTS
#else
typedef T packed_t;
#define PACKED V
#define PACKED_HALF float8
#define DEPTH(k) (k)
#define MULTIPLY_ADD FUSED_MULTIPLY_ADD
#endif

// Elements from one panel to the next: a cache line of padding, because many panels are written at the same time, and
// at multiples of a
// page they would have the same places in the first-level cache.
#define LINE (64 / (int)sizeof(packed_t))
#define A_PANEL(kc) (MR * (kc) + LINE)
#define B_PANEL(kc) (NR * (kc) + LINE)

// Vector p .. p + L - 1 along the panels at depth k of kc.
inline PANELS packed_t* at_a(PANELS packed_t* la, int p, int kc, int k) {
  return la + p / MR * A_PANEL(kc) + k * MR + p % MR;
}
inline PANELS packed_t* at_b(PANELS packed_t* lb, int p, int kc, int k) {
  return lb + p / NR * B_PANEL(kc) + k * NR + p % NR;
}
inline void put_a(PANELS packed_t* la, int p, int kc, int k, PACKED v) {
#if L == MR
  *(PANELS PACKED*)at_a(la, p, kc, k) = v;
#else
  *(PANELS PACKED_HALF*)at_a(la, p, kc, k) = v.lo;
  *(PANELS PACKED_HALF*)at_a(la, p + MR, kc, k) = v.hi;
#endif
}
inline void put_b(PANELS packed_t* lb, int p, int kc, int k, PACKED v) { *(PANELS PACKED*)at_b(lb, p, kc, k) = v; }

// Depth k of L neighbours along the panel; of L depths from k on of one of them; of one element.
#if PAIRS
inline PACKED load_across(__global const storage_t* s, long ld, int k, int steps) {
  return join_rows(vload16(0, s + 2 * k * ld), 2 * k + 1 < steps ? vload16(0, s + (2 * k + 1) * ld) : (ushort16)0);
}
// The element behind the last step of an odd slab must be zero in both operands, it may hold a NaN.
inline PACKED load_along(__global const storage_t* s, int k, int steps) {
  const PACKED v = load_pairs(s + 2 * k);
  return steps % 2 && k + L >= DEPTH(steps) ? (LANES == (int16)(steps / 2 - k) ? v & 0xffff : v) : v;
}
inline packed_t load_one(__global const storage_t* s, long ld, int k, int steps) {
  const uint low = s[2 * k * ld];
  return 2 * k + 1 < steps ? low | (uint)s[(2 * k + 1) * ld] << 16 : low;
}
#else
inline PACKED load_across(__global const storage_t* s, long ld, int k, int steps) { return load_vector(s + k * ld); }
inline PACKED load_along(__global const storage_t* s, int k, int steps) { return load_vector(s + k); }
inline packed_t load_one(__global const storage_t* s, long ld, int k, int steps) {
  return LOAD(DTYPE, COMPUTE, s, k * ld);
}
#endif

// Packs `extent` rows (a) or columns (b) and `steps` steps of k; strides `step` along the panels, `ld` along k.
#define DEFINE_PACK(NAME, PUT, AT)                                                                               \
  inline void NAME(__global const storage_t* s, long step, long ld, int extent, int steps, PANELS packed_t* out, \
                   int mode) {                                                                                   \
    const int kc = DEPTH(steps);                                                                                 \
    if (mode == ALONG_PANEL) {                                                                                   \
      for (int k = 0; k < kc; k++)                                                                               \
        for (int p = 0; p < extent; p += L) PUT(out, p, kc, k, load_across(s + p, ld, k, steps));                \
    } else if (mode == ALONG_K) {                                                                                \
      for (int p = 0; p < extent; p += L) {                                                                      \
        __global const storage_t* row = s + p * step;                                                            \
        const int last = extent - 1 - p;                                                                         \
        for (int k = 0; k < kc; k += L) {                                                                        \
          PACKED r[L];                                                                                           \
          _Pragma("unroll") for (int i = 0; i < L; i++) r[i] =                                                   \
              load_along(row + (i < last ? i : last) * step, k, steps);                                          \
          CAT(TRANSPOSE, L)(PACKED, r);                                                                          \
          if (k + L <= kc) {                                                                                     \
            _Pragma("unroll") for (int i = 0; i < L; i++) PUT(out, p, kc, k + i, r[i]);                          \
          } else {                                                                                               \
            for (int i = 0; i < kc - k; i++) PUT(out, p, kc, k + i, r[i]);                                       \
          }                                                                                                      \
        }                                                                                                        \
      }                                                                                                          \
    } else {                                                                                                     \
      for (int k = 0; k < kc; k++)                                                                               \
        for (int p = 0; p < extent; p++) *AT(out, p, kc, k) = load_one(s + p * step, ld, k, steps);              \
    }                                                                                                            \
  }
DEFINE_PACK(pack_a, put_a, at_a)
DEFINE_PACK(pack_b, put_b, at_b)

typedef struct {
  T alpha, beta;
  int first, last;  // slab
} slab_info;

// Finishes L sums of a row, columns of c contiguous.
inline void store_row(V v, __global storage_t* c, __global const storage_t* d, __global T* carry,
                      const gemm_arguments* p, slab_info slab) {
  if (!slab.first)
    v += CAT(vload, L)(0, carry);
  else if (p->add)
    v = fma((V)slab.beta, load_addend(d, p->d_column), v);
  if (!slab.last) {
    CAT(vstore, L)(v, 0, carry);
    return;
  }
  if (p->activation) v = activate(v, p->activation);
#if PAIRS
  ushort16 rounded;
  ROUND_PAIRS(rounded, v);
  STORE_NARROW(ushort, 16, rounded, c);
#else
  store_vector(v, c);
#endif
}

// Rows of L sums at the edge of c, or of a c with strided columns.
inline void store_edge(__local const T* lt, int rows, int columns, int dense, __global storage_t* c,
                       __global const storage_t* d, __global T* carry, const gemm_arguments* p, long carry_row,
                       slab_info slab) {
  for (int x = 0; x < rows; x++, c += p->c_row, d += p->d_row, carry += carry_row, lt += L) {
    if (dense && columns == L) {
      store_row(*(__local const V*)lt, c, d, carry, p, slab);
      continue;
    }
    for (int y = 0; y < columns; y++) {
      T v = lt[y];
      if (!slab.first)
        v += carry[y];
      else if (p->add)
        v = fma(slab.beta, LOAD(DTYPE, COMPUTE, d, y * p->d_column), v);
      if (slab.last)
        STORE(DTYPE, COMPUTE, c, y * p->c_column, activate_scalar(v, p->activation));
      else
        carry[y] = v;
    }
  }
}

// ---- one register tile: MR rows and NR columns of c

// What is brought to the caches while a tile is multiplied, an eighth at a time so that loads of the product find the
// way free: the rows
// that store_row will read or write, `pitch` bytes apart, and a piece of the panel of b that comes next.
typedef struct {
  __global const char* row;  // null: none
  long pitch;
  PANELS const packed_t* next;
  int piece;  // elements of an eighth
} tile_ahead;

inline void prefetch_eighth(const tile_ahead* ahead, int x) {
  if (ahead->row) {
    PREFETCH_FIRST(ahead->row + x * ahead->pitch);
    PREFETCH_FIRST(ahead->row + x * ahead->pitch + 64);
  }
#if DEEP
  for (int i = 0; i < ahead->piece; i += 64 / sizeof(packed_t)) PREFETCH_SECOND(ahead->next + x * ahead->piece + i);
#endif
}

// A product in eighths of kc, each after its part of what lies ahead. STEP is the statement for `steps` of k. Where the
// parts of a register
// tile follow each other, eighths would make them short: all that lies ahead comes first.
#if NARROW_REGISTERS
#define IN_EIGHTHS(kc, ahead, STEP)                                                 \
  {                                                                                 \
    for (int x_ahead = 0; x_ahead < MR; ++x_ahead) prefetch_eighth(ahead, x_ahead); \
    const int steps = kc, k_ahead = 0;                                              \
    STEP;                                                                           \
  }
#else
#define IN_EIGHTHS(kc, ahead, STEP)                                       \
  for (int x_ahead = 0, k_ahead = 0; x_ahead < MR; ++x_ahead) {           \
    prefetch_eighth(ahead, x_ahead);                                      \
    const int steps = x_ahead < MR - 1 ? (kc) / MR & ~3 : (kc) - k_ahead; \
    STEP;                                                                 \
    k_ahead += steps;                                                     \
  }
#endif

// acc += panel of a times panel of b, of which only the first vector is used where there are no more columns.
inline void multiply_panels(PANELS const packed_t* pa, PANELS const packed_t* pb, int kc, int vectors,
                            const tile_ahead* ahead, V acc[MR][2]) {
#define B_AT(p, y) *(PANELS const PACKED*)((p) + (y) * L)
  V sum[MR][2];  // in registers even where this function is not inlined
#pragma unroll
  for (int x = 0; x < MR; x++) sum[x][0] = sum[x][1] = (V)0;
  IN_EIGHTHS(kc, ahead,
             REGISTER_TILE(PACKED, V, sum, steps, vectors, pa + k_ahead * MR, MR, NEXT_ELEMENT, pb + k_ahead * NR, NR,
                           B_AT, MULTIPLY_ADD))
#pragma unroll
  for (int x = 0; x < MR; x++) acc[x][0] = sum[x][0], acc[x][1] = sum[x][1];
}

#if DIRECT
// The same with rows of a where they lie, `pitch` elements apart; the last of `rows` stands for those behind it.
inline void multiply_rows(__global const packed_t* a, long pitch, int rows, PANELS const packed_t* pb, int kc,
                          int vectors, const tile_ahead* ahead, V acc[MR][2]) {
  V sum[MR][2];
  long row[MR];
#pragma unroll
  for (int x = 0; x < MR; x++) row[x] = min(x, rows - 1) * pitch, sum[x][0] = sum[x][1] = (V)0;
#define ROW_AT(p, x) (p)[row[x]]
  IN_EIGHTHS(
      kc, ahead,
      REGISTER_TILE(PACKED, V, sum, steps, vectors, a + k_ahead, 1, ROW_AT, pb + k_ahead * NR, NR, B_AT, MULTIPLY_ADD))
#pragma unroll
  for (int x = 0; x < MR; x++) acc[x][0] = sum[x][0], acc[x][1] = sum[x][1];
}
#endif

// The sums of a tile; c, d and carry point to its first element, `rows` and `columns` are what is left of the task's
// tile.
inline void store_tile(V acc[MR][2], int rows, int columns, __global storage_t* c, __global const storage_t* d,
                       __global T* carry, __local T* lt, const gemm_arguments* p, const panel_plan* plan,
                       slab_info slab) {
#pragma unroll
  for (int y = 0; y < 2; y++, columns -= L, c += L * p->c_column, d += L * p->d_column, carry += L) {
    if (rows >= MR && columns >= L && plan->dense) {
#pragma unroll
      for (int x = 0; x < MR; x++)
        store_row(acc[x][y] * slab.alpha, c + x * p->c_row, d + x * p->d_row, carry + x * plan->carry_row, p, slab);
    } else if (columns > 0) {
#pragma unroll
      for (int x = 0; x < MR; x++) *(__local V*)(lt + x * L) = acc[x][y] * slab.alpha;
      store_edge(lt, min(rows, MR), min(L, columns), plan->dense, c, d, carry, p, plan->carry_row, slab);
    }
  }
}

// ---- one task

typedef struct {
  __global storage_t* c;  // first element of the task's tile; so d and carry
  __global const storage_t* d;
  __global T* carry;
  int rows, columns;
} task_tile;

inline task_tile find_tile(__global storage_t* c, __global const storage_t* d, __global T* carry,
                           const gemm_arguments* p, const panel_plan* plan, long batch, long m0, long n0) {
  const task_tile tile = {c + batch * p->c_batch + m0 * p->c_row + n0 * p->c_column,
                          d + batch * p->d_batch + m0 * p->d_row + n0 * p->d_column,
                          carry + batch * plan->carry_batch + m0 * plan->carry_row + n0, min((long)plan->mc, p->m - m0),
                          min((long)plan->nc, p->n - n0)};
  return tile;
}

// Rows i0 to i1 of a task, one slab deep: a are the panels of these rows (direct: the rows themselves, in `rows`), b
// those of all columns.
inline void multiply_block(task_tile t, int i0, int i1, PANELS packed_t* a, __global const storage_t* rows,
                           PANELS packed_t* b, int kc, __local T* lt, const gemm_arguments* p, const panel_plan* plan,
                           slab_info slab) {
#if DEEP
  const int piece = (NR * kc / (i1 - i0) + 15) / 16 * 16;
#else
  const int piece = 0;
#endif
  for (int j = 0; j < t.columns; j += NR)
    for (int i = i0; i < i1; i += MR) {
      __global storage_t* target = t.c + i * p->c_row + j * p->c_column;
      __global T* sums = t.carry + i * plan->carry_row + j;
      tile_ahead ahead = {0, 0, at_b(b, j + NR < t.columns ? j + NR : 0, kc, 0) + (i - i0) * piece, piece};
      if (t.rows - i >= MR && plan->dense) {
        if (slab.first && slab.last)
          ahead.row = (__global const char*)target, ahead.pitch = p->c_row * sizeof(storage_t);
        else
          ahead.row = (__global const char*)sums, ahead.pitch = plan->carry_row * sizeof(T);
      }
      V acc[MR][2];
      const int vectors = t.columns - j > L ? 2 : 1;
#if DIRECT
      if (plan->direct)
        multiply_rows(rows + (i - i0) * p->a_row, p->a_row, i1 - i, at_b(b, j, kc, 0), kc, vectors, &ahead, acc);
      else
#endif
        multiply_panels(at_a(a, i - i0, kc, 0), at_b(b, j, kc, 0), kc, vectors, &ahead, acc);
      store_tile(acc, t.rows - i, t.columns - j, target, t.d + i * p->d_row + j * p->d_column, sums, lt, p, plan, slab);
    }
}

// All of a task; la and lb are memory for its panels. a, rows and b: of the task's first row and column.
inline void multiply_task(__global const storage_t* a, __global const storage_t* b, task_tile tile, PANELS packed_t* la,
                          PANELS packed_t* lb, __local T* lt, const gemm_arguments* arguments,
                          const panel_plan* shared_plan, T alpha, T beta) {
  const gemm_arguments p = *arguments;
  const panel_plan plan = *shared_plan;
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
CPU_CALLABLE(gemm_panel,
             (BUFFER(const storage_t, a), BUFFER(const storage_t, b), BUFFER(storage_t, c), BUFFER(const storage_t, d),
              BUFFER(T, carry), PLAIN(gemm_arguments, p), PLAIN(panel_plan, plan), PLAIN(T, alpha), PLAIN(T, beta),
              BUFFER(packed_t, panels), PLAIN(int, parts), BUFFER(int, counters))) {
  LOCAL_ARRAY(T, lt, MR * L);
  OPEN(const storage_t, a);
  OPEN(const storage_t, b);
  OPEN(storage_t, c);
  OPEN(const storage_t, d);
  OPEN(T, carry);
  OPEN(packed_t, panels);
  OPEN(int, counters);
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
CPU_CALLABLE(gemm_panel,
             (BUFFER(const storage_t, a), BUFFER(const storage_t, b), BUFFER(storage_t, c), BUFFER(const storage_t, d),
              BUFFER(T, carry), PLAIN(gemm_arguments, p), PLAIN(panel_plan, plan), PLAIN(T, alpha), PLAIN(T, beta))) {
  LOCAL_ARRAY(packed_t, la, MC / MR * A_PANEL(DEPTH(KC)));
  LOCAL_ARRAY(packed_t, lb, NC / NR * B_PANEL(DEPTH(KC)));
  LOCAL_ARRAY(T, lt, MR * L);
  const long batch = get_group_id(2), m0 = (long)get_group_id(0) * plan.mc, n0 = (long)get_group_id(1) * plan.nc;
  OPEN(const storage_t, a);
  OPEN(const storage_t, b);
  OPEN(storage_t, c);
  OPEN(const storage_t, d);
  OPEN(T, carry);
  multiply_task(a + batch * p.a_batch + m0 * p.a_row, b + batch * p.b_batch + n0 * p.b_column,
                find_tile(c, d, carry, &p, &plan, batch, m0, n0), la, lb, lt, &p, &plan, alpha, beta);
}
#endif
