// Reductions, GPU style: a work-group shares one or more outputs. See reduce/reduce.clh.
#include "common/four.clh"
#include "reduce/reduce.clh"

#define GROUP 256
#define CHAINS 4  // sums that do not wait for each other
#define LOADS 8   // loads that do not wait for each other
#define PART 128  // elements of an item that are summed before they are added to the others

// Written out: an array indexed in a loop that stays one would lie in memory.
#define MERGE_CHAINS            \
  {                             \
    MERGE(1, part[0], part[2]); \
    MERGE(1, part[1], part[3]); \
    MERGE(1, part[0], part[1]); \
    MERGE(1, (*s), part[0]);    \
  }

#if !IS_COMPLEX(IN)
// Neighbours from `first` on by aligned vectors of four, as long as there are whole rounds of the group's `lanes`
// work-items. Returns where they end.
static inline long gpu_vectors(State1* s, INPUT p, long first, long last, int lane, int lanes, VALUE(ACC) center,
                               VALUE(PARAM) param) {
  const int hop = 4 * lanes, round = CHAINS * hop;
  long r = first;
  while (r + round <= last) {
    const long stop = MIN_OF(last, r + PART / (4 * CHAINS) * round);
    State1 part[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; c++) INITIALIZE(1, part[c], (VALUE(INDEX))(r - first + 4 * lane + c * hop));
    for (; r + round <= stop; r += round) {
      FOUR_OF(IN) v[CHAINS];
#pragma unroll
      for (int c = 0; c < CHAINS; c++) v[c] = *(__global const FOUR_OF(IN)*)(p + r + 4 * lane + c * hop);
#pragma unroll
      for (int c = 0; c < CHAINS; c++) {
        const STORAGE(IN) each[4] = {v[c].x, v[c].y, v[c].z, v[c].w};
#pragma unroll
        for (int k = 0; k < 4; k++)
          STEP(1, part[c], LOAD_X(1, each, k), (VALUE(INDEX))(r - first + 4 * lane + c * hop + k));
      }
    }
    MERGE_CHAINS
  }
  return r;
}
#endif

static inline void gpu_range(State1* s, INPUT p, long begin, long end, long step, SHARED const ReduceShape* shape,
                             VALUE(ACC) center, long first, VALUE(PARAM) param) {
  long r = begin;
  if (shape->reduced <= 1) {
    const long stride = shape->reduced ? shape->reduced_x[0] : 1, hop = step * stride;
    // Sums of sums: an error grows with the length of a part, not of the whole.
    while (r < end) {
      const long stop = MIN_OF(end, r + PART * step);
      State1 part[CHAINS];
#pragma unroll
      for (int c = 0; c < CHAINS; c++) INITIALIZE(1, part[c], (VALUE(INDEX))(r + c * step - first));
      INPUT q = p + r * stride;
      for (; r + (LOADS - 1) * step < stop; r += LOADS * step, q += LOADS * hop) {
        VALUE(ACC) v[LOADS];
#pragma unroll
        for (int c = 0; c < LOADS; c++) v[c] = LOAD_X(1, q, c * hop);
#pragma unroll
        for (int c = 0; c < LOADS; c++) STEP(1, part[c % CHAINS], v[c], (VALUE(INDEX))(r + c * step - first));
      }
      for (; r + (CHAINS - 1) * step < stop; r += CHAINS * step, q += CHAINS * hop) {
        VALUE(ACC) v[CHAINS];
#pragma unroll
        for (int c = 0; c < CHAINS; c++) v[c] = LOAD_X(1, q, c * hop);
#pragma unroll
        for (int c = 0; c < CHAINS; c++) STEP(1, part[c], v[c], (VALUE(INDEX))(r + c * step - first));
      }
      for (; r < stop; r += step, q += hop) STEP(1, part[0], LOAD_X(1, q, 0), (VALUE(INDEX))(r - first));
      MERGE_CHAINS
    }
    return;
  }
  for (; r < end; r += step)
    STEP(1, (*s), LOAD_X(1, p, offset_of(r, shape->reduced, shape->reduced_size, shape->reduced_x)),
         (VALUE(INDEX))(r - first));
}

// A group is GROUP / lanes outputs with `lanes` (a power of two) work-items each, and one chunk of the reduced range.
// Neighbouring items run along the reduction when reduced_fast, otherwise along the outputs.
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void reduce_gpu(OUTPUTS, int reduced_fast) {
  SHARE(ReduceShape, shape, shared);
  __local VALUE(ACC) values[GROUP];
#if INDEXED
  __local VALUE(INDEX) indices[GROUP];
#endif
  const int id = get_local_id(0), lanes = (int)shape.lanes, width = GROUP / lanes;
  const int lane = reduced_fast ? id % lanes : id / width, column = reduced_fast ? id / lanes : id % width;
  // Along columns, neighbouring groups have neighbouring outputs.
  const long task = get_group_id(0), strips = (shape.outputs + width - 1) / width,
             split = reduced_fast ? task % shape.splits : task / strips;
  const long o = (reduced_fast ? task / shape.splits : task - split * strips) * width + column;
  const long first = split * shape.chunk, last = MIN_OF(first + shape.chunk, shape.extent);
  State1 s;
  INITIALIZE(1, s, (VALUE(INDEX))lane);
  if (o < shape.outputs) {
#if CENTERED
    const VALUE(ACC) center = centers[o];
#else
    const VALUE(ACC) center = CONSTANT(1, 0);
#endif
    INPUT p = x + offset_of(o, shape.kept, shared->kept_size, shared->kept_x);
    long begin = first;
#if !IS_COMPLEX(IN)
    if (shape.reduced == 1 && shape.reduced_x[0] == 1 && (size_t)(p + first) % sizeof(FOUR_OF(IN)) == 0)
      begin = gpu_vectors(&s, p, first, last, lane, lanes, center, param);
#endif
    if (begin < last) gpu_range(&s, p, begin + lane, last, lanes, shared, center, first, param);
  }
  const int slot = lane * width + column;
  for (int left = lanes; left > 1;) {  // 16 states to one at a time
    const int next = left > 16 ? left / 16 : 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    values[slot] = s.a;
#if INDEXED
    indices[slot] = s.i;
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < next)
      for (int k = next; k < left; k += next) {
        State1 t;
        t.a = values[slot + k * width];
#if INDEXED
        t.i = indices[slot + k * width];
#endif
        MERGE(1, s, t);
      }
    left = next;
  }
  if (lane == 0 && o < shape.outputs)
    store_result(s, o, split, first, shared, y, y_index, partial, partial_index, param);
}

// A group of FINISHERS work-items combines the partial states of an output: each a run of splits in their order, then
// neighbouring runs.
#define FINISHERS 64
kernel __attribute__((reqd_work_group_size(FINISHERS, 1, 1))) void reduce_final(global const STORAGE(ACC) * partial,
                                                                                global const long* partial_index,
                                                                                global STORAGE(OUT) * y,
                                                                                global long* y_index, ReduceShape shape,
                                                                                long splits, VALUE(PARAM) param) {
  SHARE(ReduceShape, shape, shared);
  __local VALUE(ACC) values[FINISHERS];
#if INDEXED
  __local long indices[FINISHERS];
  long best_index = 0;
#endif
  const int item = get_local_id(0);
  const long o = get_group_id(0), run = (splits + FINISHERS - 1) / FINISHERS, begin = item * run,
             end = MIN_OF(begin + run, splits);
  VALUE(ACC) best = CONSTANT(1, IDENTITY);
  for (long split = begin; split < end; ++split) {
    const VALUE(ACC) v = partial[split * shape.outputs + o];
#if INDEXED
    // chunks are in the order of the indices, so an earlier one wins a tie
    if (split == begin || BETTER(best, v)) best = v, best_index = partial_index[split * shape.outputs + o];
#else
    best = split == begin ? v : COMBINE_VALUES(1, best, v);
#endif
  }
  for (int distance = 1; distance < FINISHERS; distance *= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    values[item] = best;
#if INDEXED
    indices[item] = best_index;
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    const int other = item + distance;
    if (item % (2 * distance) == 0 && other * run < splits) {
#if INDEXED
      if (BETTER(best, values[other])) best = values[other], best_index = indices[other];
#else
      best = COMBINE_VALUES(1, best, values[other]);
#endif
    }
  }
  if (item > 0) return;
#if INDEXED
  if (shape.has_index) y_index[offset_of(o, shape.kept, shared->kept_size, shared->kept_index)] = best_index;
  if (!shape.has_y) return;
#endif
  STORE(OUT, ACC, y, offset_of(o, shape.kept, shared->kept_size, shared->kept_y), FINISH(best));
}
