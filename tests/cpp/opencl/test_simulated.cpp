// TORCH_OCL_SIMULATE: what it takes, what it refuses, and that launches see it.
#include "support.h"

#include "opencl/capabilities/simulated.h"

using namespace ocl;
using namespace ocl::testing;

namespace {

Capabilities some_device() {
  Capabilities c;
  c.extensions = {"cl_khr_fp64", "cl_khr_fp16", "cl_khr_subgroups", "cl_khr_int64_base_atomics"};
  c.fp64 = c.fp16 = c.sub_groups = true;
  c.local_memory = 1 << 20;
  c.max_work_group = 4096;
  c.compute_units = 2;
  return c;
}

std::string problem(const char* text) {
  std::vector<std::string> problems;
  simulate(some_device(), text, problems);
  return problems.size() == 1 ? problems[0] : std::to_string(problems.size()) + " problems";
}

TEST(Simulated, TakesWhatIsThere) {
  std::vector<std::string> problems;
  const Capabilities c = simulate(some_device(),
                                  "compute_units=192, local_memory=16384,max_work_group=64,fp64=0,fp16=0,sub_groups=0,"
                                  "float_atomics=0,int64_atomics=0",
                                  problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(c.compute_units, 192u);
  EXPECT_EQ(c.local_memory, 16384u);
  EXPECT_EQ(c.max_work_group, 64u);
  EXPECT_FALSE(c.fp64 || c.fp16 || c.sub_groups);
  EXPECT_TRUE(c.extensions.empty());
}

TEST(Simulated, NamesWhatItDoesNotTake) {
  for (const char* text : {"local_memory=2097152", "local_memory=0", "max_work_group=8192", "compute_units=0", "fp64=2",
                           "float_atomics=1", "fp16", "local_memory=64K", "compute_units=-1", "cores=4"}) {
    EXPECT_NE(problem(text).find("'" + std::string(text) + "' is ignored"), std::string::npos) << problem(text);
  }
  EXPECT_NE(problem("cores=4").find("compute_units"), std::string::npos);
}

TEST(Simulated, ReplacesCapabilitiesWhileItLives) {
  const uint32_t before = device().capabilities().compute_units;
  {
    SimulatedCapabilities simulated(device(), "compute_units=192,max_work_group=32");
    EXPECT_EQ(device().capabilities().compute_units, 192u);
    EXPECT_EQ(device().capabilities().max_work_group, 32u);
  }
  EXPECT_EQ(device().capabilities().compute_units, before);
  EXPECT_THROW(SimulatedCapabilities(device(), "fp64=0"), InvalidArgument);
  EXPECT_THROW(SimulatedCapabilities(device(), "compute_units=many"), InvalidArgument);
}

TEST(Simulated, LaunchesThatDoNotFitFail) {
  SimulatedCapabilities simulated(device(), "local_memory=1024,max_work_group=32");
  Kernel& kernel = get_kernel_from_source(device(), "simulated_test",
                                          "kernel void simulated_test(global int* x, local int* y) {\n"
                                          "  y[get_local_id(0)] = 1;\n"
                                          "  x[get_global_id(0)] = y[get_local_id(0)];\n"
                                          "}\n");
  Array<int32_t> x(64);
  EXPECT_THROW(launch(queue(), kernel, Range(64), Range(32), x.data(), LocalMemory{1028}), DriverError);
  EXPECT_THROW(launch(queue(), kernel, Range(64), Range(64), x.data(), LocalMemory{256}), DriverError);
  launch(queue(), kernel, Range(64), Range(32), x.data(), LocalMemory{1024});
  EXPECT_EQ(x.host(), std::vector<int32_t>(64, 1));
}

}  // namespace
