# cmake -DROOT=<kernels_cl> -DOUTPUT=<file.cpp> -P embed_kernels.cmake: writes every .cl, .clh, .h and .tsv file
# as a string into one C++ file.
file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/*.cl ${ROOT}/*.clh ${ROOT}/*.h ${ROOT}/*.tsv)
list(SORT files)
set(body "// Generated from kernels_cl/ by cmake/embed_kernels.cmake.\n")
string(APPEND body "#include \"opencl/program/kernel_sources.h\"\n#include \"ops/core/dtype_table.h\"\n\n")
string(APPEND body "namespace ocl {\n\n")
string(APPEND body "static const KernelFile files[] = {\n")
foreach(name IN LISTS files)
  file(READ ${ROOT}/${name} text)
  # Pieces below the length that compilers promise for one literal (65,536; MSVC 16,380).
  string(LENGTH "${text}" length)
  string(APPEND body "  {\"${name}\",\n")
  set(position 0)
  while(position LESS length)
    string(SUBSTRING "${text}" ${position} 12000 piece)
    string(APPEND body "R\"~cl~(${piece})~cl~\"\n")
    math(EXPR position "${position} + 12000")
  endwhile()
  if(length EQUAL 0)
    string(APPEND body "\"\"")
  endif()
  string(APPEND body "  },\n")
endforeach()
string(
  APPEND body
  "};\n\nstd::span<const KernelFile> embedded_kernel_files() { return files; }\n\n"
  "static const PrintedKernelFile printed[] = {{\"printed/element_types.clh\", ops::element_types_source}};\n\n"
  "std::span<const PrintedKernelFile> printed_kernel_files() { return printed; }\n\n}  // namespace ocl\n"
)
file(WRITE ${OUTPUT} "${body}")
