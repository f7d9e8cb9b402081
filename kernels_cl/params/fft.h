// Fourier transforms. Strides in reals.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

typedef struct {
  int64_t n, done, radix, total, inverse;
} Pass;
PARAMS_LAYOUT(Pass, 40);

typedef struct {
  int64_t outer, line, point;
} Side;
PARAMS_LAYOUT(Side, 24);

typedef struct {
  int64_t n, m;            // length of the transform, of the complex one behind it (n / 2 for real rows of even length)
  int64_t points, room;    // of the spectra of real rows: n / 2 + 1, or n; of a task's scratch for one side
  int64_t lines, groups;   // lines of one outer element, groups of LANES of them in all
  int64_t share, scratch;  // groups and vectors of a task
  int64_t inverse, turns;  // turns > 0: result k of line l is multiplied by exp(-2 pi i k l / turns)
  int64_t passes;
  Side x, y;
  int32_t radix[32];
} Lines;
PARAMS_LAYOUT(Lines, 264);

PARAMS_END
