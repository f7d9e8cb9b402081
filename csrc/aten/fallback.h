// The CPU fallback: operators without a kernel run on the CPU, counted and warned about (TORCH_OCL_FALLBACK).
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace ocl::aten {

enum class FallbackPolicy { warn, silent, error };

FallbackPolicy fallback_policy();
void set_fallback_policy(FallbackPolicy policy);
// Operator ("aten::foo.out") -> number of calls that ran on the CPU since the last reset.
std::map<std::string, uint64_t> fallback_counts();
void reset_fallback_counts();

}  // namespace ocl::aten
