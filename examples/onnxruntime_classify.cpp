// An image classifier in ONNX Runtime's C++ interface on an OpenCL device: the class of random numbers.
//   g++ -std=c++17 onnxruntime_classify.cpp -I ONNXRUNTIME/include -L ONNXRUNTIME/lib -lonnxruntime -o classify
//   ./classify model.onnx path/to/libonnxruntime_ep_ocl.so
// The path is what `python -c "import onnxruntime_ep_ocl as o; print(o.get_library_path())"` prints.
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

int main(int count, char** arguments) try {
  if (count != 3) {
    std::fprintf(stderr, "usage: %s model.onnx libonnxruntime_ep_ocl.so\n", arguments[0]);
    return 2;
  }
  Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "classify");
  env.RegisterExecutionProviderLibrary("ocl", arguments[2]);
  std::vector<Ort::ConstEpDevice> devices;
  for (const Ort::ConstEpDevice& device : env.GetEpDevices())
    if (std::string(device.EpName()) == "OclExecutionProvider" && devices.empty()) devices.push_back(device);
  if (devices.empty()) throw std::runtime_error("there is no OpenCL device");
  std::printf("%s\n", devices[0].EpMetadata().GetValue("ocl_name"));

  Ort::SessionOptions options;
  options.AppendExecutionProvider_V2(env, devices, Ort::KeyValuePairs());
  Ort::Session session(env, arguments[1], options);

  Ort::AllocatorWithDefaultOptions allocator;
  const auto input = session.GetInputNameAllocated(0, allocator), output = session.GetOutputNameAllocated(0, allocator);
  std::vector<int64_t> sizes = session.GetInputTypeInfo(0).GetTensorTypeAndShapeInfo().GetShape();
  int64_t elements = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < 1) sizes[d] = d < 2 ? (d == 0 ? 1 : 3) : 224;
    elements *= sizes[d];
  }
  std::mt19937 random(0);
  std::normal_distribution<float> normal;
  std::vector<float> image(static_cast<size_t>(elements));
  for (float& pixel : image) pixel = normal(random);

  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  const Ort::Value x = Ort::Value::CreateTensor(memory, image.data(), image.size(), sizes.data(), sizes.size());
  const char *input_name = input.get(), *output_name = output.get();
  const auto results = session.Run(Ort::RunOptions(), &input_name, &x, 1, &output_name, 1);
  const float* scores = results[0].GetTensorData<float>();
  const size_t classes = results[0].GetTensorTypeAndShapeInfo().GetElementCount();
  std::printf("class %td of %zu\n", std::max_element(scores, scores + classes) - scores, classes);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
