// Convolution, batch norm and ReLU, forward and backward, on memory of one's own.
#include <ocl/ops.h>

#include <cstdio>

using namespace ocl::ops;

int main() try {
  ocl::Queue& queue = ocl::Device::get(0).default_queue();
  const DType f = DType::float32;
  const std::initializer_list<int64_t> image{8, 16, 32, 32}, filter{16, 16, 3, 3}, channels{16};
  ocl::Buffer x(queue, f, image), w(queue, f, filter), conv(queue, f, image), out(queue, f, image);
  ocl::Buffer dx(queue, f, image), dw(queue, f, filter), dconv(queue, f, image), dout(queue, f, image);
  ocl::Buffer mean(queue, f, channels), invstd(queue, f, channels);

  fill_random(queue, Distribution::normal, x, 0, 1, {1, 0});
  fill_random(queue, Distribution::normal, w, 0, 0.1, {2, 0});
  const ocl::ConvolutionOptions same{.padding = {0, 1, 1}};
  ocl::convolution_forward(queue, x, w, {}, conv, same);
  batch_norm_forward(queue,
                     {.x = conv, .y = out, .save_mean = mean, .save_invstd = invstd, .training = true, .relu = true});

  // The gradient of the sum of out's squares / 2 is out itself; ReLU lets through what it let through before.
  copy(queue, dout, out);
  batch_norm_backward(
      queue,
      {.grad = dout, .x = conv, .save_mean = mean, .save_invstd = invstd, .grad_input = dconv, .training = true});
  ocl::convolution_backward_data(queue, dconv, w, dx, same);
  ocl::convolution_backward_weight(queue, dconv, x, dw, same);

  // A plan can be kept, and says how much scratch memory it takes.
  const ocl::Convolution plan(queue.device(), ConvPass::forward, ocl::convolution_problem(x, w, same));
  std::printf("%s, %s: %zu bytes of workspace\n", queue.device().capabilities().name.c_str(), plan.algorithm(),
              plan.workspace());
  double sum = 0;
  for (const float value : out.read<float>()) sum += value;
  std::printf("mean of the output %.4f (0.3989 for a normal distribution behind a ReLU)\n", sum / (8 * 16 * 32 * 32));
  return 0;
} catch (const ocl::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
