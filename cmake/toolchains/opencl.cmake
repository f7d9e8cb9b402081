# The headers of OpenCL are the same for all systems: those of this machine's package, in a folder of their own, because
# /usr/include has headers that are not. Programs are linked with a library that has the names of the functions that
# cl.h declares; the loader of the target's system (OpenCL.dll, libOpenCL.so.1) takes its place when they are started.
set(STUB ${CMAKE_BINARY_DIR}/opencl)
if(CMAKE_SYSTEM_NAME STREQUAL Windows)
  set(STUB_LIBRARY ${STUB}/libOpenCL.a)
else()
  set(STUB_LIBRARY ${STUB}/libOpenCL.so)
endif()
if(NOT EXISTS ${STUB_LIBRARY})
  file(MAKE_DIRECTORY ${STUB}/include)
  file(COPY /usr/include/CL DESTINATION ${STUB}/include FOLLOW_SYMLINK_CHAIN)
  file(READ ${STUB}/include/CL/cl.h text)
  string(REGEX MATCHALL "\ncl[A-Z][A-Za-z]+\\(" names "${text}")
  list(TRANSFORM names REPLACE "[\n(]" "")
  list(REMOVE_DUPLICATES names)
  if(CMAKE_SYSTEM_NAME STREQUAL Windows)
    list(JOIN names "\n" names)
    file(WRITE ${STUB}/OpenCL.def "LIBRARY OpenCL.dll\nEXPORTS\n${names}\n")
    set(
      MAKE_STUB
      ${TARGET}-dlltool
      -d
      ${STUB}/OpenCL.def
      -l
      ${STUB_LIBRARY}
    )
  else()
    list(TRANSFORM names REPLACE "(.+)" "void \\1(void) {}")
    list(JOIN names "\n" names)
    file(WRITE ${STUB}/OpenCL.c "${names}\n")
    set(
      MAKE_STUB
      ${TARGET}-gcc
      -shared
      -Wl,-soname,libOpenCL.so.1
      -o
      ${STUB_LIBRARY}
      ${STUB}/OpenCL.c
    )
  endif()
  execute_process(COMMAND ${MAKE_STUB} COMMAND_ERROR_IS_FATAL ANY)
endif()
set(OpenCL_INCLUDE_DIR ${STUB}/include CACHE PATH "")
set(OpenCL_LIBRARY ${STUB_LIBRARY} CACHE FILEPATH "")
