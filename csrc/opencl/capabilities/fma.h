// Whether programs may call fma(). Every OpenCL has it, but Mesa's Rusticl takes it from a library of another project
// (libclc), and with those of some distributions (version 22 as LLVM published it) no program that calls it links:
// "nir_shader not fully linked". There mad() stands for it, which its compilers round once as well.
#pragma once

namespace ocl {

class Device;

bool has_fma(const Device& device);  // a probe (probes.h)
bool may_lack_fma(const Device& device);
bool multiplies_and_adds(Device& device);  // tries it in this process

}  // namespace ocl
