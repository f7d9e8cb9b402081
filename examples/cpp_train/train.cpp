// Trains a small network on `ocl` and on the CPU with libtorch and prints both losses.
#include <c10/core/DeviceType.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>

// Module::to() refuses devices that PyTorch does not count as its own; this is what it does for the others.
static void move_to(torch::nn::Module& module, torch::Device device) {
  const torch::NoGradGuard no_grad;
  for (const std::vector<torch::Tensor>& tensors : {module.parameters(), module.buffers()})
    for (const torch::Tensor& tensor : tensors) tensor.unsafeGetTensorImpl()->shallow_copy_from(tensor.detach().to(device).getIntrusivePtr());
}

static double train(torch::Device device, int steps) {
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 3).padding(1)), torch::nn::ReLU(), torch::nn::MaxPool2d(2),
                              torch::nn::Flatten(), torch::nn::Linear(8 * 16, 4));
  move_to(*model, device);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-2));
  double loss = 0;
  for (int step = 0; step < steps; ++step) {
    const torch::Tensor y = torch::randint(4, {32}), x = torch::rand({32, 1, 8, 8}) * 0.1 + y.view({32, 1, 1, 1}) * 0.25;
    optimizer.zero_grad();
    const torch::Tensor result = torch::nn::functional::cross_entropy(model->forward(x.to(device)), y.to(device));
    result.backward();
    optimizer.step();
    loss = result.item<double>();
  }
  return loss;
}

int main() {
  c10::register_privateuse1_backend("ocl");
  const double ocl = train(torch::Device("ocl"), 20), cpu = train(torch::kCPU, 20);
  std::printf("ocl: loss %.6f, cpu: loss %.6f, %s\n", ocl, cpu, std::abs(ocl - cpu) < 1e-3 ? "agree" : "DISAGREE");
  return std::abs(ocl - cpu) < 1e-3 ? 0 : 1;
}
