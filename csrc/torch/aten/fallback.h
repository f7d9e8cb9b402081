// The CPU fallback: operators without a kernel run on the CPU, counted and warned about (TORCH_OCL_FALLBACK).
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

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
// Counts and warns; an error where the policy forbids the CPU. `why`: "has no OpenCL kernel".
void count_fallback(const std::string& name, const std::string& why);
// Generators of this device on the stack, from position `first`, become generators of the CPU that are seeded by them.
void replace_generators(torch::jit::Stack& stack, size_t first, c10::DeviceIndex index);
// Runs the operator on the CPU with the arguments on the stack, subject to the policy. Tensors must agree on the
// device.
void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack);
// The same for an operator that has a kernel whose program could not be built; `error` says why.
void fall_back_because(const c10::OperatorHandle& op, torch::jit::Stack* stack, const std::string& error);

}  // namespace ocl::aten
