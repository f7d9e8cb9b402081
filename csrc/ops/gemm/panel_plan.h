// Tile sizes of the panel algorithm: pure arithmetic, tested without a device.
#pragma once

#include "ops/core/dtype.h"

#include <cstdint>

namespace ocl::ops {

// Largest tile of c (mc x nc) and slab of k that one program handles.
struct PanelTile {
  int mc, nc, kc;
};
PanelTile panel_tile(uint64_t local_memory, DType dtype);

// Sizes of one launch: multiples of 16, 32 and 16 not above the tile's.
struct PanelSplit {
  int32_t mc, nc, kc;
};
// Tiles of equal size whose number keeps all `units` busy.
PanelSplit split_panels(const PanelTile& tile, int64_t batch, int64_t m, int64_t n, int64_t k, int units);

}  // namespace ocl::ops
