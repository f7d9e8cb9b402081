#include "support.h"

#include "ops/optimizer/optimizer.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

const std::vector<size_t> sizes{1, 61, 0, 4099, 20011};

// Lists of tensors on the device with their float64 images on the host.
struct Model {
  std::vector<std::vector<Array<float>>> lists;
  std::vector<std::vector<std::vector<double>>> images;
  std::vector<Array<float>> steps;
  std::vector<MultiTensorRow> rows;

  explicit Model(int count) : lists(count), images(count) {
    for (size_t t = 0; t < sizes.size(); ++t) {
      MultiTensorRow row{int64_t(sizes[t]), 0, {}};
      for (int k = 0; k < count; ++k) {
        const auto values = random_values<float>(sizes[t], unsigned(10 * t + k + 1), k > 2 ? 0 : -1, 1);
        lists[k].emplace_back(values);
        images[k].emplace_back(values.begin(), values.end());
        row.data[k] = lists[k][t].data();
      }
      steps.emplace_back(std::vector<float>{float(t + 1)});
      row.data[5] = steps[t].data();
      rows.push_back(row);
    }
  }
  // reference(t, lists of element i...) changes the images.
  template <class F>
  void check(F&& reference, const char* what) {
    for (size_t t = 0; t < sizes.size(); ++t)
      for (size_t i = 0; i < sizes[t]; ++i) {
        double v[5] = {};
        for (size_t k = 0; k < lists.size(); ++k) v[k] = images[k][t][i];
        reference(int(t + 1), v);
        for (size_t k = 0; k < lists.size(); ++k) images[k][t][i] = v[k];
      }
    for (size_t k = 0; k < lists.size(); ++k)
      for (size_t t = 0; t < sizes.size(); ++t) {
        const auto host = lists[k][t].host();
        for (size_t i = 0; i < sizes[t]; ++i)
          ASSERT_NEAR(host[i], images[k][t][i], 3e-6) << what << " list " << k << " tensor " << t << " " << i;
      }
  }
};

}  // namespace

TEST(Optimizer, Sgd) {
  for (double momentum : {0.0, 0.9})
    for (bool nesterov : {false, true})
      for (bool first : {false, true}) {
        const SgdOptions o{0.1, 0.01, momentum, nesterov ? 0 : 0.2, nesterov && momentum != 0, first, first};
        Model model(momentum != 0 ? 3 : 2);
        sgd_step(queue(), DType::float32, model.rows, o);
        model.check(
            [&](int, double* v) {
              double g = (o.maximize ? -v[1] : v[1]) + o.weight_decay * v[0];
              if (momentum != 0) {
                v[2] = first ? g : momentum * v[2] + (1 - o.dampening) * g;
                g = nesterov ? g + momentum * v[2] : v[2];
              }
              v[0] -= o.lr * g;
            },
            "sgd");
      }
}

TEST(Optimizer, Adam) {
  for (bool amsgrad : {false, true})
    for (bool decoupled : {false, true}) {
      AdamOptions o{0.01, 0.9, 0.999, 0.05, 1e-8, amsgrad, decoupled, decoupled};
      Model model(amsgrad ? 5 : 4);
      adam_step(queue(), DType::float32, model.rows, o);
      model.check(
          [&](int step, double* v) {
            double g = o.maximize ? -v[1] : v[1];
            if (decoupled)
              v[0] *= 1 - o.lr * o.weight_decay;
            else
              g += o.weight_decay * v[0];
            v[2] = o.beta1 * v[2] + (1 - o.beta1) * g;
            v[3] = o.beta2 * v[3] + (1 - o.beta2) * g * g;
            if (amsgrad) v[4] = std::max(v[4], v[3]);
            const double denominator = std::sqrt(v[amsgrad ? 4 : 3]) / std::sqrt(1 - std::pow(o.beta2, step)) + o.eps;
            v[0] -= o.lr / (1 - std::pow(o.beta1, step)) * v[2] / denominator;
          },
          "adam");
    }
}

TEST(Optimizer, Adagrad) {
  const AdagradOptions o{0.1, 0.2, 0.05, 1e-10, false};
  Model model(4);  // list 3 is not used
  for (auto& row : model.rows) std::swap(row.data[2], row.data[3]);
  adagrad_step(queue(), DType::float32, model.rows, o);
  model.check(
      [&](int step, double* v) {
        const double g = v[1] + o.weight_decay * v[0];
        v[3] += g * g;
        v[0] -= o.lr / (1 + (step - 1) * o.lr_decay) * g / (std::sqrt(v[3]) + o.eps);
      },
      "adagrad");
}

TEST(Optimizer, ExtrasOnTheDevice) {
  Array<float> lr(std::vector<float>{0.5}), scale(std::vector<float>{4}), found(std::vector<float>{0});
  Model model(2);
  const SgdOptions o{0.1};
  sgd_step(queue(), DType::float32, model.rows, o, {lr.data(), scale.data(), found.data()});
  const auto reference = [&](int, double* v) {
    v[1] /= 4;
    v[0] -= 0.5 * v[1];
  };
  model.check(reference, "scaled");
  const float one = 1;
  queue().write(found.data(), &one, 4);
  sgd_step(queue(), DType::float32, model.rows, o, {lr.data(), scale.data(), found.data()});
  model.check([](int, double*) {}, "skipped");
}

TEST(Optimizer, StepsBeyondFloatPrecisionOfPow) {
  // bias correction at beta 0.999, step 1: 1 - 0.999 loses four digits when it is computed from float32 powers
  Array<float> p(std::vector<float>(16, 0)), g(std::vector<float>(16, 1)), m(std::vector<float>(16, 0)),
      v(std::vector<float>(16, 0));
  Array<float> step(std::vector<float>{1});
  std::vector<MultiTensorRow> rows{{16, 0, {p.data(), g.data(), m.data(), v.data(), nullptr, step.data()}}};
  adam_step(queue(), DType::float32, rows, AdamOptions{1e-3, 0.9, 0.999, 0, 1e-8});
  for (float value : p.host()) EXPECT_NEAR(value, -1e-3, 1e-9);
}

TEST(Optimizer, BFloat16) {
  Array<uint16_t> p(std::vector<uint16_t>(33, 0x3f80)), g(std::vector<uint16_t>(33, 0x4000));  // 1 and 2
  std::vector<MultiTensorRow> rows{{33, 0, {p.data(), g.data()}}};
  sgd_step(queue(), DType::bfloat16, rows, SgdOptions{0.25});
  EXPECT_EQ(p.host(), std::vector<uint16_t>(33, 0x3f00));  // 0.5
  EXPECT_THROW(sgd_step(queue(), DType::int32, rows, SgdOptions{0.25}), InvalidArgument);
}
