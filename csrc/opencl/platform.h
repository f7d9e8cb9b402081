// The operating system, as far as the library needs it. One implementation file per system.
#pragma once

#include <cstddef>
#include <string>

namespace ocl::platform {

// Zeroed, page-aligned, committed lazily. nullptr on failure.
void* map_pages(size_t bytes);
// Address space that traps when touched. nullptr on failure.
void* reserve_addresses(size_t bytes);
void unmap(void* address, size_t bytes);
size_t page_size();
// Bytes of memory that the system could give out without swapping; 0: unknown.
size_t available_memory();

int process_id();
// OpenCL drivers do not survive fork(): watch_forks() is called before the first device is opened, in_forked_child() is true in
// every process forked after that.
void watch_forks();
bool in_forked_child();

std::string user_cache_folder();

}  // namespace ocl::platform
