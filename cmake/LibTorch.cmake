# Imported targets torch_cpu and c10 of an installed LibTorch or PyTorch, with TORCH_INSTALL_PREFIX, TORCH_INCLUDE_DIRS
# and TORCH_MINOR (2.13).
# Not find_package(Torch): in a PyTorch that was built for CUDA it asks for the CUDA toolkit, which nothing here needs.
find_file(
  TORCH_CONFIG
  TorchConfig.cmake
  PATHS ${CMAKE_PREFIX_PATH}
  ENV CMAKE_PREFIX_PATH
  PATH_SUFFIXES Torch share/cmake/Torch
)
if(NOT TORCH_CONFIG)
  message(
    FATAL_ERROR
    "LibTorch was not found: set CMAKE_PREFIX_PATH to the output of "
    "python -c 'import torch; print(torch.utils.cmake_prefix_path)'"
  )
endif()
get_filename_component(TORCH_INSTALL_PREFIX ${TORCH_CONFIG}/../../../.. ABSOLUTE)
set(TORCH_INCLUDE_DIRS ${TORCH_INSTALL_PREFIX}/include ${TORCH_INSTALL_PREFIX}/include/torch/csrc/api/include)
set(TORCH_MINOR "")
foreach(part MAJOR MINOR)
  file(STRINGS ${TORCH_INSTALL_PREFIX}/include/torch/headeronly/version.h LINE REGEX "define TORCH_VERSION_${part} ")
  string(REGEX MATCH "[0-9]+" NUMBER "${LINE}")
  list(APPEND TORCH_MINOR ${NUMBER})
endforeach()
list(JOIN TORCH_MINOR "." TORCH_MINOR)
foreach(name c10 torch_cpu)
  unset(LIBRARY CACHE)
  find_library(LIBRARY ${name} PATHS ${TORCH_INSTALL_PREFIX}/lib NO_DEFAULT_PATH REQUIRED)
  add_library(${name} SHARED IMPORTED)
  set_target_properties(
    ${name}
    PROPERTIES IMPORTED_LOCATION ${LIBRARY} INTERFACE_INCLUDE_DIRECTORIES "${TORCH_INCLUDE_DIRS}"
  )
  if(WIN32)
    set_target_properties(${name} PROPERTIES IMPORTED_IMPLIB ${LIBRARY})
  endif()
endforeach()

# Whether this PyTorch has torch.distributed: a link without its headers, which take long to compile.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES ${LIBRARY})
set(CMAKE_REQUIRED_LINK_OPTIONS -Wl,--unresolved-symbols=ignore-in-shared-libs)
check_cxx_source_compiles(
  "extern \"C\" void _ZN4c10d7BackendC2Eii(); int main() { _ZN4c10d7BackendC2Eii(); }"
  TORCH_HAS_DISTRIBUTED
)
unset(CMAKE_REQUIRED_LIBRARIES)
unset(CMAKE_REQUIRED_LINK_OPTIONS)
