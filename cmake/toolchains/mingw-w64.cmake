# Windows (x86-64) from Debian or Ubuntu: g++-mingw-w64-x86-64-posix, opencl-headers, GoogleTest's sources (googletest),
# and wine, under which ctest runs the tests: docs/use/cpp.md.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(TARGET x86_64-w64-mingw32)
set(CMAKE_CXX_COMPILER ${TARGET}-g++-posix)
set(CMAKE_C_COMPILER ${TARGET}-gcc-posix)
set(CMAKE_RC_COMPILER ${TARGET}-windres)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static") # no library of the compiler beside the programs
add_compile_definitions(_WIN32_WINNT=0x0A00) # Windows 10
find_program(WINE wine)
if(WINE)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${WINE})
endif()
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
