# What toolchain files share. TARGET: the prefix of the cross compiler's names.
set(CMAKE_FIND_ROOT_PATH /usr/${TARGET})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(TORCH_OCL_BACKEND OFF CACHE BOOL "No LibTorch is cross-compiled")
include(${CMAKE_CURRENT_LIST_DIR}/opencl.cmake)
