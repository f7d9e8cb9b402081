// histogram and histogramdd: a search among the edges of every dimension, then sums of weights. (histc has a kernel:
// search.cpp.)
#include "torch/aten/common.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <cmath>

namespace ocl::aten {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Range = std::optional<at::ArrayRef<double>>;

void check(const Tensor& self, const OptionalTensor& weight) {
  if (!at::isFloatingType(self.scalar_type()) || self.scalar_type() == at::kHalf || self.scalar_type() == at::kBFloat16)
    not_implemented_for("histogramdd", self.scalar_type());
  if (!weight || !weight->defined()) return;
  TORCH_CHECK(
      weight->dtype() == self.dtype(),
      "torch.histogramdd(): if weight tensor is provided, input tensor and weight tensor should have the same dtype, "
      "but got input ",
      self.dtype(), ", and weight ", weight->dtype());
}

// x [points, dimensions]; edges [bins + 1] of every dimension, increasing; weight [points]
Tensor summed(const Tensor& x, at::TensorList edges, const OptionalTensor& weight, bool density) {
  std::vector<int64_t> bins;
  int64_t total = 1;
  for (const Tensor& e : edges) {
    TORCH_CHECK(e.dim() == 1 && e.numel() > 0,
                "torch.histogramdd(): bins tensor should have one dimension and hold at least one edge, but got ",
                e.sizes());
    TORCH_CHECK(
        e.dtype() == x.dtype(),
        "torch.histogramdd(): input tensor and bins tensors should have the same dtype, but got input with dtype ",
        x.dtype(), " and bins with dtype ", e.dtype());
    bins.push_back(e.numel() - 1);
    total *= bins.back();
  }
  Tensor result = at::zeros({total}, x.options());
  if (total && x.size(0)) {
    Tensor at = at::zeros({x.size(0)}, x.options().dtype(at::kLong)),
           inside = at::ones({x.size(0)}, x.options().dtype(at::kBool));
    for (size_t d = 0; d < edges.size(); ++d) {
      const Tensor value = x.select(1, static_cast<int64_t>(d)).contiguous(), e = edges[d].contiguous(),
                   last = e.select(0, bins[d]);
      // bins are open on the right, except the last one
      const Tensor bin = at::searchsorted(e, value, false, true).sub_(1).clamp_(0, bins[d] - 1);
      inside.logical_and_(value.ge(e.select(0, 0))).logical_and_(value.le(last));
      at.mul_(bins[d]).add_(bin);
    }
    const Tensor ones = weight && weight->defined() ? weight->reshape({-1}) : at::ones({x.size(0)}, x.options());
    result.index_add_(0, at, at::where(inside, ones, at::zeros({}, x.options())));
  }
  result = result.view(bins);
  if (!density) return result;
  result.div_(result.sum());
  for (size_t d = 0; d < edges.size(); ++d) {
    at::DimVector shape(bins.size(), 1);
    shape[d] = bins[d];
    result.div_(edges[d].diff().view(shape));
  }
  return result;
}

// Evenly spaced edges between the range's ends, or the smallest and largest value of every dimension.
std::vector<Tensor> even_edges(const Tensor& x, at::IntArrayRef bins, const Range& range) {
  const int64_t dimensions = x.size(1);
  TORCH_CHECK(static_cast<int64_t>(bins.size()) == dimensions,
              "histogramdd: The size of bins must be equal to the innermost dimension of the input.");
  if (range)
    TORCH_CHECK(static_cast<int64_t>(range->size()) == 2 * dimensions, "torch.histogramdd(): for a ", dimensions,
                "-dimensional histogram range should have ", 2 * dimensions, " elements, but got ", range->size());
  std::vector<Tensor> edges;
  for (int64_t d = 0; d < dimensions; ++d) {
    TORCH_CHECK(bins[d] > 0, "torch.histogramdd(): bins must be > 0, but got ", bins[d], " for dimension ", d);
    double low = 0, high = 1;
    if (range) {
      low = (*range)[2 * d];
      high = (*range)[2 * d + 1];
    } else if (x.size(0) > 0) {
      const auto [least, most] = at::aminmax(x.select(1, d));
      low = least.item().toDouble();
      high = most.item().toDouble();
    }
    TORCH_CHECK(std::isfinite(low) && std::isfinite(high), "torch.histogramdd(): dimension ", d, "'s range [", low,
                ", ", high, "] is not finite");
    TORCH_CHECK(low <= high, "torch.histogramdd: min should not exceed max, but got min ", low, " max ", high,
                " for dimension ", d);
    if (low == high) {
      low -= 0.5;
      high += 0.5;
    }
    edges.push_back(at::linspace(low, high, bins[d] + 1, x.options()));
  }
  return edges;
}

// Points in rows: a histogram has one dimension, the others those of the last dimension of self.
Tensor points(const Tensor& self) {
  TORCH_CHECK(self.dim() >= 2, "torch.histogramdd(): input tensor should have at least 2 dimensions, but got ",
              self.dim());
  return self.reshape({-1, self.size(-1)});
}

using Pair = std::tuple<Tensor, Tensor>;
using PairOut = std::tuple<Tensor&, Tensor&>;

Pair histogram_bins(const Tensor& self, const Tensor& bins, const OptionalTensor& weight, bool density) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  check(self, weight);
  return {summed(self.reshape({-1, 1}), {bins}, weight, density), bins.clone()};
}
Pair histogram_count(const Tensor& self, int64_t bins, Range range, const OptionalTensor& weight, bool density) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  check(self, weight);
  TORCH_CHECK(bins > 0, "torch.histogram(): bins must be > 0, but got ", bins, " for dimension 0");
  const Tensor x = self.reshape({-1, 1});
  const std::vector<Tensor> edges = even_edges(x, bins, range);
  return {summed(x, edges, weight, density), edges[0]};
}
PairOut copied(const Pair& result, Tensor& histogram, Tensor& edges) {
  const auto type = std::get<0>(result).dtype();
  TORCH_CHECK(histogram.dtype() == type,
              "torch.histogram: input tensor and hist tensor should have the same dtype, but got input ", type,
              " and hist ", histogram.dtype());
  TORCH_CHECK(edges.dtype() == type,
              "torch.histogram: input tensor and bin_edges tensor should have the same dtype, but got input ", type,
              " and bin_edges ", edges.dtype(), " for dimension 0");
  at::native::resize_output(histogram, std::get<0>(result).sizes());
  at::native::resize_output(edges, std::get<1>(result).sizes());
  return {histogram.copy_(std::get<0>(result)), edges.copy_(std::get<1>(result))};
}
PairOut histogram_bins_out(const Tensor& self, const Tensor& bins, const OptionalTensor& weight, bool density,
                           Tensor& histogram, Tensor& edges) {
  return copied(histogram_bins(self, bins, weight, density), histogram, edges);
}
PairOut histogram_count_out(const Tensor& self, int64_t bins, Range range, const OptionalTensor& weight, bool density,
                            Tensor& histogram, Tensor& edges) {
  return copied(histogram_count(self, bins, range, weight, density), histogram, edges);
}

std::vector<Tensor> histogramdd_edges(const Tensor& self, at::IntArrayRef bins, Range range,
                                      const OptionalTensor& weight, bool) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  check(self, weight);
  return even_edges(points(self), bins, range);
}
Tensor histogramdd_count(const Tensor& self, at::IntArrayRef bins, Range range, const OptionalTensor& weight,
                         bool density) {
  return summed(points(self), histogramdd_edges(self, bins, range, weight, density), weight, density);
}
Tensor histogramdd_bins(const Tensor& self, at::TensorList bins, const OptionalTensor& weight, bool density) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  check(self, weight);
  TORCH_CHECK(self.dim() >= 2 && static_cast<int64_t>(bins.size()) == self.size(-1),
              "torch.histogramdd(): if bins is a sequence of tensors, its size should "
              "equal to the number of dimensions of the input (",
              self.dim() ? self.size(-1) : 0, "), but got ", bins.size());
  return summed(points(self), bins, weight, density);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("histogram.bins_tensor", histogram_bins);
  m.impl("histogram.bins_tensor_out", histogram_bins_out);
  m.impl("histogram.bin_ct", histogram_count);
  m.impl("histogram.bin_ct_out", histogram_count_out);
  m.impl("_histogramdd_bin_edges", histogramdd_edges);
  m.impl("_histogramdd_from_bin_cts", histogramdd_count);
  m.impl("_histogramdd_from_bin_tensors", histogramdd_bins);
}

}  // namespace ocl::aten
