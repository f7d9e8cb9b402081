// Sizes of the panel algorithm: pure arithmetic, tested without a device.
#pragma once

#include "ops/core/dtype.h"
#include "params/gemm.h"

#include <cstdint>

namespace ocl::ops {

// What local memory (or a work-item's workspace) holds at once: mc rows of a and nc columns of b, kc deep.
struct PanelTile {
  int mc, nc, kc;
  int64_t carried = 128 << 10;  // elements of c that a task keeps in the cache from slab to slab
};
PanelTile panel_tile(uint64_t local_memory, DType dtype);

// Sizes of one launch. A task computes mc x nc of c in slabs of kc; b's columns are packed once per slab, a's rows
// `block` at a time. mc and block are multiples of 16, nc of 32, kc of 16; block * kc and nc * kc are not above the
// tile's.
struct PanelSplit {
  int32_t mc, nc, kc, block;
};
// Tasks of equal size whose number keeps all `units` busy. `direct`: rows of a are read where they lie.
PanelSplit split_panels(const PanelTile& tile, int64_t batch, int64_t m, int64_t n, int64_t k, int64_t units,
                        bool direct);

using params::PanelPlan;

}  // namespace ocl::ops
