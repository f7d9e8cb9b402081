// Where float32 products may be rounded to TF32 (ten bits behind the point) on devices that multiply those faster. Not
// by default: the result then differs from float32's by about 3e-4 of it. As torch.backends.cuda.matmul.allow_tf32.
#pragma once

namespace ocl::ops {

enum class Tf32 { gemm, conv };

// The switch of both, or what the policy says for one.
bool allows_tf32(Tf32 where);
bool tf32_allowed();
void allow_tf32(bool allowed);
// Asked where the switch is off; null: no.
void set_tf32_policy(bool (*policy)(Tf32));

}  // namespace ocl::ops
