// Products of matrices and batches of them, for rows of several files.
#pragma once

#include "onnxruntime/operators/common.h"
#include "ops/gemm/gemm.h"

namespace ocl::ort {

// What is done to the product on its way to memory.
struct Epilogue {
  TensorView bias{};  // of the columns; data null: none
  ops::Activation activation = ops::Activation::none;
};

// y = activation(a b + bias): [..., m, k], [..., k, n], [..., m, n] of one rank; leading dimensions of a and b are
// broadcast to those of y, which is row-major. Errors: InvalidArgument.
void multiply(Run& run, const TensorView& a, const TensorView& b, const TensorView& y, const Epilogue& epilogue = {});

}  // namespace ocl::ort
