# The PyTorch backend for the LibTorch that CMAKE_PREFIX_PATH names, and its Python glue, on top of the target `ocl`.
# Both are installed into a folder of that minor version, so that one package holds several.
include(cmake/LibTorch.cmake)
set(BACKEND_FOLDER lib/torch${TORCH_MINOR})

file(GLOB_RECURSE BACKEND_SOURCES CONFIGURE_DEPENDS csrc/torch/*.cpp)
list(
  FILTER BACKEND_SOURCES
  EXCLUDE
  REGEX "torch/python/(api|generated_[a-z]+|module|torch_layout|torch_objects)\\.cpp$"
)
if(NOT TORCH_HAS_DISTRIBUTED)
  list(FILTER BACKEND_SOURCES EXCLUDE REGEX torch/distributed/)
endif()
add_library(torch_ocl SHARED ${BACKEND_SOURCES})
target_include_directories(torch_ocl PRIVATE csrc)
target_include_directories(torch_ocl SYSTEM PRIVATE ${TORCH_INCLUDE_DIRS})
target_link_libraries(torch_ocl PRIVATE ocl torch_cpu c10)
make_portable(torch_ocl)
# Kineto's headers include each other without a folder.
set_source_files_properties(
  csrc/torch/runtime/profiler.cpp
  PROPERTIES INCLUDE_DIRECTORIES "${TORCH_INSTALL_PREFIX}/include/kineto"
)
if(WIN32)
  set_target_properties(torch_ocl PROPERTIES WINDOWS_EXPORT_ALL_SYMBOLS ON)
else()
  target_link_options(torch_ocl PRIVATE -Wl,-z,defs -Wl,--as-needed)
endif()
# Headers of ATen include the operators they name, not all of them: seconds for every file.
target_compile_definitions(torch_ocl PRIVATE AT_PER_OPERATOR_HEADERS)
if(TORCH_HAS_DISTRIBUTED)
  # As PyTorch's own files of torch.distributed see its headers.
  target_compile_definitions(torch_ocl PRIVATE USE_DISTRIBUTED USE_C10D_GLOO)
endif()
target_precompile_headers(torch_ocl PRIVATE csrc/torch/aten/precompiled.h)
set_target_properties(torch_ocl PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN:$ORIGIN/..")
install(
  TARGETS torch_ocl
  LIBRARY DESTINATION ${BACKEND_FOLDER} COMPONENT python
  RUNTIME DESTINATION ${BACKEND_FOLDER} COMPONENT python
)
install(FILES csrc/torch/runtime/extension.h DESTINATION include/torch_ocl COMPONENT python)
# What extension.h includes: extensions build where no OpenCL headers are installed.
foreach(header cl.h cl_platform.h cl_version.h)
  install(FILES ${OpenCL_INCLUDE_DIRS}/CL/${header} DESTINATION include/CL COMPONENT python)
endforeach()
if(TORCH_OCL_PYTHON)
  add_subdirectory(csrc/torch/python)
endif()
