// What the files about quantized tensors share.
#pragma once

#include "torch/aten/common.h"

namespace ocl::aten {

// The stored integers of a quantized tensor as a dense tensor of the same memory: int8 of qint8, uint8 of quint8 and of
// the types of less than a byte, int32 of qint32.
at::Tensor codes_of(const at::Tensor& quantized);

// Whether several numbers share a byte, as in quint4x2 and quint2x4.
inline bool shares_bytes(at::ScalarType type) { return type == at::kQUInt4x2 || type == at::kQUInt2x4; }

}  // namespace ocl::aten
