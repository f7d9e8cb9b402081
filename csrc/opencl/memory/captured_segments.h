// Segments that command lists use. A list keeps addresses, no tensors, so the memory of one that was freed, or whose
// storage was resized, must stay mapped as long as the list can be replayed. Blocks inside are given to others all the
// same: what a replay then reads and writes is nobody's promise, as on CUDA.
#pragma once

#include <vector>

namespace ocl::captured_segments {

// Segments whose addresses are looked up between these calls, by any thread, are noted; pairs may overlap. The second
// returns an address in each of them, which stay in use until they are given to release().
void begin();
std::vector<const void*> end();
void release(std::vector<const void*>& segments);  // empties the list

// Whether the segment that holds the address must not be freed.
bool in_use(const void* address) noexcept;

}  // namespace ocl::captured_segments
