# The plug-in execution provider for ONNX Runtime (csrc/onnxruntime): on where the headers of ONNX Runtime 1.23 or later
# are found (`./run setup --onnxruntime` unpacks Debian's). Nothing of ONNX Runtime is linked: the process that loads
# the library gives it the functions.
find_path(
  ONNXRUNTIME_INCLUDE
  onnxruntime_ep_c_api.h
  HINTS ${CMAKE_SOURCE_DIR}/.apt/usr/include
  PATH_SUFFIXES onnxruntime onnxruntime/core/session
)
mark_as_advanced(ONNXRUNTIME_INCLUDE)
set(
  TORCH_OCL_ONNXRUNTIME
  AUTO
  CACHE STRING
  "Build the execution provider for ONNX Runtime: ON, OFF, or AUTO (where its headers are found)"
)
if(TORCH_OCL_ONNXRUNTIME STREQUAL "AUTO")
  if(NOT ONNXRUNTIME_INCLUDE)
    return()
  endif()
elseif(NOT TORCH_OCL_ONNXRUNTIME)
  return()
elseif(NOT ONNXRUNTIME_INCLUDE)
  message(FATAL_ERROR "onnxruntime_ep_c_api.h (ONNX Runtime 1.23 or later) was not found: set ONNXRUNTIME_INCLUDE")
endif()
file(GLOB_RECURSE PROVIDER_SOURCES CONFIGURE_DEPENDS csrc/onnxruntime/*.cpp)
add_library(onnxruntime_ep_ocl MODULE ${PROVIDER_SOURCES})
target_include_directories(onnxruntime_ep_ocl SYSTEM PRIVATE ${ONNXRUNTIME_INCLUDE})
target_link_libraries(onnxruntime_ep_ocl PRIVATE ocl_ops)
target_compile_definitions(onnxruntime_ep_ocl PRIVATE OCL_PROVIDER_VERSION="${PROJECT_VERSION}")
# The library of operators inside stays inside: a process may also have PyTorch's backend with another one.
target_link_options(onnxruntime_ep_ocl PRIVATE -Wl,-z,defs -Wl,--as-needed -Wl,--exclude-libs,ALL)
make_portable(onnxruntime_ep_ocl)
install(TARGETS onnxruntime_ep_ocl LIBRARY DESTINATION . COMPONENT onnxruntime)
install(TARGETS torch_ocl_compiler RUNTIME DESTINATION . COMPONENT onnxruntime)
