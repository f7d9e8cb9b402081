// Random operators. ATen's shared code checks arguments and calls a stub; the stubs here reserve Philox counters of the
// generator and fill. All numbers of a call depend only on the generator's seed and offset.
#include "opencl/command_list.h"
#include "torch/aten/common.h"
#include "ops/random/random.h"
#include "torch/runtime/generator.h"

#include <ATen/ExpandUtils.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/_sample_dirichlet_native.h>
#include <ATen/ops/_standard_gamma.h>
#include <ATen/ops/bernoulli_native.h>
#include <ATen/ops/cauchy_native.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/exponential_native.h>
#include <ATen/ops/geometric_native.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/log_normal_native.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/multinomial_native.h>
#include <ATen/ops/normal_native.h>
#include <ATen/ops/random_native.h>
#include <ATen/ops/uniform_native.h>

namespace ocl::aten {

namespace {

using at::Tensor;
using OptionalGenerator = std::optional<at::Generator>;

ops::Philox philox(const OptionalGenerator& generator, const Tensor& like) {
  const auto [seed, offset] =
      runtime::reserve_philox(generator, like.device().index(), ops::random_counters(like.numel()));
  return {seed, offset};
}

// Calls fill(view, state) on the tensor's memory, or on a dense tensor that is then copied into it.
template <class Fill>
void fill_dense(const at::TensorBase& base, const OptionalGenerator& generator, Fill&& fill) {
  const Tensor self(base);
  if (self.numel() == 0) return;
  const c10::DeviceGuard guard(self.device());
  const bool dense = self.is_non_overlapping_and_dense();
  const Tensor target = dense ? self : at::empty(self.sizes(), self.options());
  fill(queue_for(target), view(target), philox(generator, target));
  if (!dense) self.copy_(target);
}

template <ops::Distribution distribution>
void fill_two(at::TensorIteratorBase& iterator, const double p0, const double p1, OptionalGenerator generator) {
  fill_dense(iterator.tensor_base(0), generator, [&](Queue& queue, const ops::TensorView& y, ops::Philox state) {
    ops::fill_random(queue, distribution, y, p0, p1, state);
  });
}
template <ops::Distribution distribution>
void fill_one(at::TensorIteratorBase& iterator, const double p, OptionalGenerator generator) {
  fill_two<distribution>(iterator, p, 0, generator);
}
void fill_normal(const at::TensorBase& self, const double mean, const double deviation, OptionalGenerator generator) {
  fill_dense(self, generator, [&](Queue& queue, const ops::TensorView& y, ops::Philox state) {
    ops::fill_random(queue, ops::Distribution::normal, y, mean, deviation, state);
  });
}

void fill_integers(at::TensorIteratorBase& iterator, uint64_t range, int64_t from, const OptionalGenerator& generator) {
  fill_dense(iterator.tensor_base(0), generator, [&](Queue& queue, const ops::TensorView& y, ops::Philox state) {
    ops::fill_random_integers(queue, y, from, range, state);
  });
}
void random_from_to(at::TensorIteratorBase& iterator, const uint64_t range, const int64_t base,
                    OptionalGenerator generator) {
  fill_integers(iterator, range, base, generator);
}
void random_full_range(at::TensorIteratorBase& iterator, OptionalGenerator generator) {
  fill_integers(iterator, 0, 0, generator);
}

// random_(): integers from 0 to the largest value, or to 2^digits for floating types.
uint64_t natural_range(at::ScalarType type) {
  switch (type) {
    case at::kBool: return 2;
    case at::kByte: return uint64_t{1} << 8;
    case at::kChar: return uint64_t{1} << 7;
    case at::kShort: return uint64_t{1} << 15;
    case at::kInt: return uint64_t{1} << 31;
    case at::kLong: return uint64_t{1} << 63;
    case at::kUInt16: return uint64_t{1} << 16;
    case at::kUInt32: return uint64_t{1} << 32;
    case at::kUInt64: return 0;
    case at::kHalf: return (uint64_t{1} << 11) + 1;
    case at::kBFloat16: return (uint64_t{1} << 8) + 1;
    case at::kFloat: return (uint64_t{1} << 24) + 1;
    case at::kDouble: return (uint64_t{1} << 53) + 1;
    default: not_implemented_for("random_", type);
  }
}
void random_natural(at::TensorIteratorBase& iterator, OptionalGenerator generator) {
  fill_integers(iterator, natural_range(iterator.dtype()), 0, generator);
}

void bernoulli_number(const at::TensorBase& self, const double p, OptionalGenerator generator) {
  fill_dense(self, generator, [&](Queue& queue, const ops::TensorView& y, ops::Philox state) {
    ops::fill_bernoulli(queue, y, p, state);
  });
}
void bernoulli_tensor(const at::TensorBase& self, const at::TensorBase& p, OptionalGenerator generator) {
  const Tensor probabilities = Tensor(p).expand(self.sizes()).to(self.device());
  fill_dense(self, generator, [&](Queue& queue, const ops::TensorView& y, ops::Philox state) {
    // element order of p as that of y
    Tensor ordered =
        at::empty_strided(self.sizes(), at::IntArrayRef(y.strides.data(), y.dims), probabilities.options());
    ordered.copy_(probabilities);
    ops::fill_bernoulli(queue, y, view(ordered), state);
  });
}

// `tensor` with the memory layout of `model`.
Tensor laid_out_as(const Tensor& tensor, const Tensor& model) {
  if (tensor.strides() == model.strides() || tensor.numel() <= 1) return tensor;
  return at::empty_strided(model.sizes(), model.strides(), tensor.options()).copy_(tensor);
}

std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
  const c10::DeviceGuard guard(input.device());
  if (!train.value_or(true) || input.numel() == 0)
    return {input.clone(), at::empty_like(input, input.options().dtype(at::kBool)).fill_(true)};
  TORCH_CHECK(at::isFloatingType(input.scalar_type()), "native_dropout: needs a floating type, got ",
              input.scalar_type());
  const Tensor x = input.is_non_overlapping_and_dense() ? input : input.clone(at::MemoryFormat::Preserve);
  Tensor output = at::empty_strided(x.sizes(), x.strides(), x.options());
  Tensor mask = at::empty_strided(x.sizes(), x.strides(), x.options().dtype(at::kBool));
  ops::dropout(queue_for(x), view(x), view(output), view(mask), p, philox(std::nullopt, x));
  return {output, mask};
}

Tensor native_dropout_backward(const Tensor& grad, const Tensor& mask, double scale) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "Mask should be Bool Scalar Type", mask.scalar_type());
  const c10::DeviceGuard guard(grad.device());
  if (!at::isFloatingType(grad.scalar_type())) return at::mul(at::mul(grad, mask), scale);
  const Tensor kept = mask.is_non_overlapping_and_dense() ? mask : mask.contiguous();
  const Tensor dy = laid_out_as(grad, kept);
  Tensor result = at::empty_strided(kept.sizes(), kept.strides(), dy.options());
  ops::dropout_backward(queue_for(dy), view(dy), view(kept), view(result), scale);
  return result;
}

// As on the CPU, which looks at every weight.
void check_weights(const Tensor& weights) {
  const auto [smallest, largest] = at::aminmax(weights);
  TORCH_CHECK(smallest.item<double>() >= 0, "invalid multinomial distribution (encountering probability entry < 0)");
  TORCH_CHECK(std::isfinite(largest.item<double>()),
              "invalid multinomial distribution (encountering probability entry = infinity or NaN)");
  TORCH_CHECK(weights.sum(1).min().item<double>() > 0, "invalid multinomial distribution (sum of probabilities <= 0)");
}

void multinomial_with_replacement(Tensor& result, const Tensor& self, int64_t count, OptionalGenerator generator) {
  const c10::DeviceGuard guard(self.device());
  const int64_t rows = self.dim() == 2 ? self.size(0) : 1, categories = self.size(-1);
  const Tensor weights = self.contiguous().view({rows, categories});
  check_weights(weights);
  const Tensor samples = at::empty({rows, count}, result.options());
  ops::multinomial_with_replacement(queue_for(self), view(weights), view(samples), philox(generator, samples));
  result.copy_(samples.view(result.sizes()));
}

Tensor& randperm_out(int64_t n, OptionalGenerator generator, Tensor& result) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  at::native::resize_output(result, {n});
  if (n == 0) return result;
  const c10::DeviceGuard guard(result.device());
  if (CommandList* list = queue_for(result).capture()) list->refuse("randperm, which makes its numbers on the host,");
  const auto [seed, offset] = runtime::reserve_philox(generator, result.device().index(), ops::random_counters(n));
  Tensor permutation = at::empty({n}, at::TensorOptions(at::kLong));
  ops::random_permutation(permutation.mutable_data_ptr<int64_t>(), n, {seed, offset});
  TORCH_CHECK(result.scalar_type() != at::kBool, "randperm: bool results are not supported");
  return result.copy_(permutation.to(result.scalar_type()));
}

Tensor poisson(const Tensor& rate, OptionalGenerator generator) {
  const c10::DeviceGuard guard(rate.device());
  const Tensor in = rate.contiguous();
  TORCH_CHECK(in.numel() == 0 || in.min().item<double>() >= 0,
              "invalid Poisson rate, expected rate to be non-negative");
  Tensor out = at::empty_like(in);
  ops::fill_poisson(queue_for(in), view(in), view(out), philox(generator, in));
  return out;
}
Tensor binomial(const Tensor& count, const Tensor& probability, OptionalGenerator generator) {
  const c10::DeviceGuard guard(count.device());
  const auto expanded = at::expand_outplace(count, probability);
  const Tensor n = std::get<0>(expanded)->contiguous(), p = std::get<1>(expanded)->to(count.scalar_type()).contiguous();
  Tensor out = at::empty_like(n);
  ops::fill_binomial(queue_for(n), view(n), view(p), view(out), philox(generator, n));
  return out;
}
Tensor standard_gamma(const Tensor& alpha, OptionalGenerator generator) {
  const c10::DeviceGuard guard(alpha.device());
  const Tensor in = alpha.contiguous();
  Tensor out = at::empty_like(in);
  ops::fill_standard_gamma(queue_for(in), view(in), view(out), philox(generator, in));
  return out;
}
Tensor sample_dirichlet(const Tensor& alpha, OptionalGenerator generator) {
  const Tensor gamma = standard_gamma(alpha, generator);
  return gamma.div(gamma.sum(-1, true));
}

// Picks one overload of an overloaded native function.
template <class... Arguments>
constexpr auto in_place(Tensor& (*function)(Tensor&, Arguments...)) {
  return function;
}

// rrelu: negative elements times a random slope, which noise keeps for the gradient (1 elsewhere); the mean slope in
// evaluation.
Tensor& rrelu_with_noise_out(const Tensor& self, Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                             bool training, std::optional<at::Generator> generator, Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  TORCH_CHECK(self.sym_sizes() == noise.sym_sizes(),
              "noise tensor shape must match self tensor shape. Got self.shape = ", self.sym_sizes(),
              " noise.shape = ", noise.sym_sizes());
  const double low = lower.toDouble(), high = upper.toDouble();
  if (!training) return at::leaky_relu_out(out, self, (low + high) / 2);
  at::native::resize_output(out, self.sizes());
  noise.uniform_(low, high, std::move(generator)).masked_fill_(self.le(0).logical_not_(), 1);
  return at::mul_out(out, self, noise);
}
Tensor rrelu_with_noise(const Tensor& self, Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                        bool training, std::optional<at::Generator> generator) {
  Tensor out = at::empty_like(self);
  return rrelu_with_noise_out(self, noise, lower, upper, training, std::move(generator), out);
}
Tensor& rrelu_with_noise_(Tensor& self, Tensor& noise, const at::Scalar& lower, const at::Scalar& upper, bool training,
                          std::optional<at::Generator> generator) {
  return rrelu_with_noise_out(self, noise, lower, upper, training, std::move(generator), self);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("rrelu_with_noise", &rrelu_with_noise);
  m.impl("rrelu_with_noise.out", &rrelu_with_noise_out);
  m.impl("rrelu_with_noise_", &rrelu_with_noise_);
  using namespace at;
  m.impl("uniform_", &native::uniform_);
  m.impl("normal_", &native::normal_);
  m.impl("exponential_", &native::exponential_);
  m.impl("cauchy_", &native::cauchy_);
  m.impl("log_normal_", &native::log_normal_);
  m.impl("geometric_", &native::geometric_);
  m.impl("random_.from", in_place<int64_t, std::optional<int64_t>, OptionalGenerator>(&native::random_));
  m.impl("random_.to", in_place<int64_t, OptionalGenerator>(&native::random_));
  m.impl("random_", in_place<OptionalGenerator>(&native::random_));
  m.impl("bernoulli_.Tensor", in_place<const Tensor&, OptionalGenerator>(&native::bernoulli_));
  m.impl("bernoulli_.float", in_place<double, OptionalGenerator>(&native::bernoulli_));
  m.impl("bernoulli.out", static_cast<Tensor& (*)(const Tensor&, OptionalGenerator, Tensor&)>(&native::bernoulli_out));
  m.impl("normal.Tensor_float", static_cast<Tensor (*)(const Tensor&, double, OptionalGenerator)>(&native::normal));
  m.impl("normal.Tensor_float_out",
         static_cast<Tensor& (*)(const Tensor&, double, OptionalGenerator, Tensor&)>(&native::normal_out));
  m.impl("normal.float_Tensor", static_cast<Tensor (*)(double, const Tensor&, OptionalGenerator)>(&native::normal));
  m.impl("normal.float_Tensor_out",
         static_cast<Tensor& (*)(double, const Tensor&, OptionalGenerator, Tensor&)>(&native::normal_out));
  m.impl("normal.Tensor_Tensor",
         static_cast<Tensor (*)(const Tensor&, const Tensor&, OptionalGenerator)>(&native::normal));
  m.impl("normal.Tensor_Tensor_out",
         static_cast<Tensor& (*)(const Tensor&, const Tensor&, OptionalGenerator, Tensor&)>(&native::normal_out));
  m.impl("multinomial", &native::multinomial);
  m.impl("multinomial.out", &native::multinomial_out);
  m.impl("native_dropout", &native_dropout);
  m.impl("native_dropout_backward", &native_dropout_backward);
  m.impl("randperm.generator_out", &randperm_out);
  m.impl("poisson", &poisson);
  m.impl("binomial", &binomial);
  m.impl("_standard_gamma", &standard_gamma);
  m.impl("_sample_dirichlet", &sample_dirichlet);
}

}  // namespace ocl::aten

namespace at::native {
using ocl::ops::Distribution;
REGISTER_PRIVATEUSE1_DISPATCH(uniform_stub, &ocl::aten::fill_two<Distribution::uniform>)
REGISTER_PRIVATEUSE1_DISPATCH(cauchy_stub, &ocl::aten::fill_two<Distribution::cauchy>)
REGISTER_PRIVATEUSE1_DISPATCH(log_normal_stub, &ocl::aten::fill_two<Distribution::log_normal>)
REGISTER_PRIVATEUSE1_DISPATCH(exponential_stub, &ocl::aten::fill_one<Distribution::exponential>)
REGISTER_PRIVATEUSE1_DISPATCH(geometric_stub, &ocl::aten::fill_one<Distribution::geometric>)
REGISTER_PRIVATEUSE1_DISPATCH(normal_stub, &ocl::aten::fill_normal)
REGISTER_PRIVATEUSE1_DISPATCH(random_from_to_stub, &ocl::aten::random_from_to)
REGISTER_PRIVATEUSE1_DISPATCH(random_full_64_bits_range_stub, &ocl::aten::random_full_range)
REGISTER_PRIVATEUSE1_DISPATCH(random_stub, &ocl::aten::random_natural)
REGISTER_PRIVATEUSE1_DISPATCH(bernoulli_scalar_stub, &ocl::aten::bernoulli_number)
REGISTER_PRIVATEUSE1_DISPATCH(bernoulli_tensor_stub, &ocl::aten::bernoulli_tensor)
REGISTER_PRIVATEUSE1_DISPATCH(multinomial_with_replacement_stub, &ocl::aten::multinomial_with_replacement)
}  // namespace at::native
