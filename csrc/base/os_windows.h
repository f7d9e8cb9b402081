// What the files os_windows*.cpp share.
#pragma once

#ifndef NOMINMAX
#define NOMINMAX
#endif
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>

#include <memory>

namespace ocl::os {

inline HANDLE handle_of(long long number) { return reinterpret_cast<HANDLE>(static_cast<intptr_t>(number)); }
inline long long number_of(HANDLE handle) { return static_cast<long long>(reinterpret_cast<intptr_t>(handle)); }

struct CloseHandleOf {
  void operator()(HANDLE handle) const {
    if (handle != INVALID_HANDLE_VALUE) CloseHandle(handle);
  }
};
using Handle = std::unique_ptr<void, CloseHandleOf>;

}  // namespace ocl::os
