# Windows (x86-64) from Debian or Ubuntu: g++-mingw-w64-x86-64-posix, the headers of opencl-headers, GoogleTest's sources
# (googletest), and wine for running the tests: docs/use/cpp.md.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(MINGW x86_64-w64-mingw32)
set(CMAKE_CXX_COMPILER ${MINGW}-g++-posix)
set(CMAKE_C_COMPILER ${MINGW}-gcc-posix)
set(CMAKE_RC_COMPILER ${MINGW}-windres)
set(CMAKE_FIND_ROOT_PATH /usr/${MINGW})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# The programs need no library of the compiler beside them.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static")
# winpthread's thread_local needs no more than Windows 10 has.
add_compile_definitions(_WIN32_WINNT=0x0A00)
find_program(WINE wine)
if(WINE)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${WINE})
endif()
set(TORCH_OCL_BACKEND OFF CACHE BOOL "No LibTorch is cross-compiled")
include(${CMAKE_CURRENT_LIST_DIR}/opencl_headers.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/opencl_import_library.cmake)
