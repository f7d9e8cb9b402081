# Linux on 64-bit ARM from Debian or Ubuntu: g++-aarch64-linux-gnu, opencl-headers, GoogleTest's sources (googletest).
# The tests run in the root of such a system, under qemu-user: docs/use/cpp.md.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(TARGET aarch64-linux-gnu)
set(CMAKE_CXX_COMPILER ${TARGET}-g++)
set(CMAKE_C_COMPILER ${TARGET}-gcc)
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
