# Kernels that clang compiles ahead of time for CPU devices (csrc/cpu/ahead_library.h): the programs that
# kernels_cl/ahead/programs.txt lists, for two levels of x86-64, as libraries beside the operator library. On where the
# CPU executor is built for x86-64 and a clang of version 15 or later is found, which Debian's PoCL brings along.
set(
  TORCH_OCL_AHEAD
  AUTO
  CACHE STRING
  "Compile kernels for CPU devices ahead of time: ON, OFF, or AUTO (where clang 15 or later is found)"
)
set(AHEAD_REASON "")
if(TORCH_OCL_AHEAD STREQUAL "OFF" OR NOT TORCH_OCL_AHEAD)
  set(AHEAD_REASON "TORCH_OCL_AHEAD is OFF")
elseif(NOT TORCH_OCL_CPU_EXECUTOR)
  set(AHEAD_REASON "the CPU executor is not built")
elseif(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux" OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(AHEAD_REASON "it is for x86-64 Linux")
else()
  # Versions that were not tried are not taken by themselves: name one with -DAHEAD_CLANG=PATH.
  find_program(
    AHEAD_CLANG
    NAMES clang-15 clang-16 clang-17 clang-18 clang-19
    PATHS /usr/lib/llvm-15/bin
  )
  find_program(AHEAD_OBJCOPY NAMES objcopy)
  mark_as_advanced(AHEAD_CLANG AHEAD_OBJCOPY)
  if(NOT AHEAD_CLANG OR NOT AHEAD_OBJCOPY)
    set(AHEAD_REASON "clang 15 to 19 or objcopy was not found")
  endif()
endif()
if(AHEAD_REASON)
  if(TORCH_OCL_AHEAD STREQUAL "ON")
    message(FATAL_ERROR "Kernels cannot be compiled ahead of time: ${AHEAD_REASON}")
  endif()
  message(STATUS "Kernels are not compiled ahead of time: ${AHEAD_REASON}")
  return()
endif()
message(STATUS "Kernels are compiled ahead of time by ${AHEAD_CLANG}")

add_executable(torch_ocl_ahead csrc/cpu/ahead_main.cpp)
target_link_libraries(torch_ocl_ahead PRIVATE ocl_ops)
make_portable(torch_ocl_ahead)

set(AHEAD_LIST ${CMAKE_SOURCE_DIR}/kernels_cl/ahead/programs.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${AHEAD_LIST})
file(STRINGS ${AHEAD_LIST} AHEAD_PROGRAMS REGEX "^== ")
list(LENGTH AHEAD_PROGRAMS AHEAD_COUNT)
set(AHEAD_LEVELS x86-64-v3 x86-64-v4)
set(AHEAD_TUNE_x86-64-v3 haswell)
set(AHEAD_TUNE_x86-64-v4 skylake-avx512)
set(AHEAD_FOLDER ${CMAKE_BINARY_DIR}/ahead)
math(EXPR AHEAD_LAST "${AHEAD_COUNT} - 1")

# The texts. Those that stay the same keep their time, and are not compiled again.
set(AHEAD_TEXTS "")
foreach(level ${AHEAD_LEVELS})
  foreach(i RANGE ${AHEAD_LAST})
    list(APPEND AHEAD_TEXTS ${AHEAD_FOLDER}/${level}/${i}.cl)
  endforeach()
endforeach()
add_custom_command(
  OUTPUT ${AHEAD_TEXTS}
  COMMAND torch_ocl_ahead write ${AHEAD_LIST} ${AHEAD_FOLDER}
  DEPENDS torch_ocl_ahead ${AHEAD_LIST}
  COMMENT "Writing the programs to be compiled ahead of time"
)
# Expressions are contracted (a * b + c rounds once), as OpenCL C does by default and drivers do: PoCL's results are the
# same bits. No fast mathematics.
set(
  AHEAD_OPTIONS
  -x
  cl
  -cl-std=CL1.2
  -cl-no-stdinc
  -cl-fp32-correctly-rounded-divide-sqrt
  -ffp-contract=on
  -w
  -O3
  -fPIC
  -ffunction-sections
  -fdata-sections
  -fno-ident
  -mprefer-vector-width=512
  CACHE INTERNAL
  "for tools/record_programs.py"
)
set(AHEAD_LIBRARIES "")
foreach(level ${AHEAD_LEVELS})
  set(objects "")
  foreach(i RANGE ${AHEAD_LAST})
    set(file ${AHEAD_FOLDER}/${level}/${i})
    # Programs define the same names: none but the kernels' functions is seen by the others.
    add_custom_command(
      OUTPUT ${file}.o
      COMMAND
        ${AHEAD_CLANG} ${AHEAD_OPTIONS} -march=${level} -mtune=${AHEAD_TUNE_${level}} -c ${file}.cl -o ${file}.all.o
      COMMAND ${AHEAD_OBJCOPY} --wildcard --keep-global-symbol=ocl_* ${file}.all.o ${file}.o
      DEPENDS ${file}.cl
      COMMENT "Compiling ahead of time: ${level}, ${i} of ${AHEAD_LAST}"
    )
    list(APPEND objects ${file}.o)
  endforeach()
  set(library ${CMAKE_BINARY_DIR}/libocl_ahead_${level}.so)
  list(JOIN objects "\n" AHEAD_OBJECTS)
  file(CONFIGURE OUTPUT ${AHEAD_FOLDER}/${level}.objects CONTENT "@AHEAD_OBJECTS@\n" @ONLY)
  # Kernels that are not called as functions, which need what only drivers have, are left out as unused sections.
  add_custom_command(
    OUTPUT ${library}
    COMMAND
      ${CMAKE_CXX_COMPILER} -shared -nostartfiles -Wl,--gc-sections -Wl,-z,defs -Wl,--build-id=none -Wl,-s -o ${library}
      @${AHEAD_FOLDER}/${level}.objects -lm -lc
    COMMAND torch_ocl_ahead seal ${library}
    DEPENDS ${objects} torch_ocl_ahead
    COMMENT "Linking libocl_ahead_${level}.so"
  )
  list(APPEND AHEAD_LIBRARIES ${library})
endforeach()
add_custom_target(ahead ALL DEPENDS ${AHEAD_LIBRARIES})
install(PROGRAMS ${AHEAD_LIBRARIES} DESTINATION lib COMPONENT python)
install(PROGRAMS ${AHEAD_LIBRARIES} DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/torch_ocl COMPONENT ops)
if(TARGET ocl_tests)
  add_dependencies(ocl_tests ahead)
  foreach(library ${AHEAD_LIBRARIES})
    get_filename_component(name ${library} NAME)
    add_custom_command(
      TARGET ahead
      POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E create_symlink ${library} ${CMAKE_BINARY_DIR}/tests/cpp/${name}
    )
  endforeach()
endif()
