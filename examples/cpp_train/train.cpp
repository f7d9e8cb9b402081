// Trains a small convolutional network on `ocl` and on `cpu` from equal weights, and compares loss curves and
// inference. Prints both curves; exit status 1 when they differ.
#include <torch/torch.h>

#include <iostream>
#include <sstream>

struct Net : torch::nn::Module {
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear out{nullptr};

  Net() {
    conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    conv2 = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 16, 3).padding(1)));
    out = register_module("out", torch::nn::Linear(16 * 4 * 4, 4));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(norm(conv1(x))), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    return out(x.flatten(1));
  }
};

// Losses of the steps, and what the trained network says about one batch more.
std::pair<std::vector<float>, torch::Tensor> train(const std::string& weights, torch::Device device) {
  auto net = std::make_shared<Net>();
  std::istringstream stream(weights);
  torch::load(net, stream);
  net->to(device);
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(1e-3));
  std::vector<float> losses;
  for (int step = 0; step < 10; ++step) {
    torch::manual_seed(step);
    const auto classes = torch::randint(4, {16});
    const auto images = (torch::randn({16, 1, 16, 16}) + classes.view({-1, 1, 1, 1})).to(device);
    optimizer.zero_grad();
    auto loss = torch::cross_entropy_loss(net->forward(images), classes.to(device));
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<float>());
  }
  net->eval();
  torch::NoGradGuard no_grad;
  torch::manual_seed(99);
  return {losses, net->forward(torch::randn({4, 1, 16, 16}).to(device)).cpu()};
}

int main() {
  c10::register_privateuse1_backend("ocl");
  torch::manual_seed(0);
  std::ostringstream weights;
  torch::save(std::make_shared<Net>(), weights);
  const auto [expected, expected_output] = train(weights.str(), torch::kCPU);
  const auto [losses, output] = train(weights.str(), torch::Device("ocl"));
  bool equal = torch::allclose(output, expected_output, 1e-2, 1e-3);
  for (size_t i = 0; i < losses.size(); ++i) {
    std::cout << "step " << i << "  ocl " << losses[i] << "  cpu " << expected[i] << '\n';
    equal = equal && std::abs(losses[i] - expected[i]) < 1e-3 * std::abs(expected[i]) + 1e-4;
  }
  std::cout << (equal ? "ocl learns what the CPU learns" : "ocl and CPU differ") << '\n';
  return equal ? 0 : 1;
}
