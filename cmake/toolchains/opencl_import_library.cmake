# The import library of OpenCL.dll, which every OpenCL driver of Windows brings: made of the functions that cl.h declares
# up to OpenCL 2.0.
set(OPENCL_LIBRARY ${CMAKE_BINARY_DIR}/opencl/libOpenCL.a)
if(NOT EXISTS ${OPENCL_LIBRARY})
  file(READ ${OPENCL_HEADERS}/CL/cl.h text)
  string(REGEX MATCHALL "\ncl[A-Z][A-Za-z]+\\(" names "${text}")
  list(TRANSFORM names REPLACE "[\n(]" "")
  list(REMOVE_DUPLICATES names)
  list(JOIN names "\n" names)
  file(WRITE ${CMAKE_BINARY_DIR}/opencl/OpenCL.def "LIBRARY OpenCL.dll\nEXPORTS\n${names}\n")
  execute_process(
    COMMAND ${MINGW}-dlltool -d ${CMAKE_BINARY_DIR}/opencl/OpenCL.def -l ${OPENCL_LIBRARY}
    COMMAND_ERROR_IS_FATAL ANY
  )
endif()
set(OpenCL_LIBRARY ${OPENCL_LIBRARY} CACHE FILEPATH "")
