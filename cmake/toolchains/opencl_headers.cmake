# The headers of OpenCL are the same for all systems: those of this machine's package, in a folder of their own, because
# /usr/include has headers that are not.
set(OPENCL_HEADERS ${CMAKE_BINARY_DIR}/opencl/include)
if(NOT EXISTS ${OPENCL_HEADERS}/CL)
  file(MAKE_DIRECTORY ${OPENCL_HEADERS})
  file(COPY /usr/include/CL DESTINATION ${OPENCL_HEADERS} FOLLOW_SYMLINK_CHAIN)
endif()
set(OpenCL_INCLUDE_DIR ${OPENCL_HEADERS} CACHE PATH "")
