// The forms in which kernels are entered, as text and run.
#include "opencl/program/entry_points.h"

#include "opencl/device.h"
#include "opencl/launch.h"
#include "opencl/program/kernel_sources.h"
#include "opencl/program/program.h"

#include "support.h"

#include <gtest/gtest.h>

#include <sstream>

using namespace ocl;
using namespace ocl::testing;

namespace {

// The source with kernels as the driver enqueues them.
std::string entered(const std::string& source) { return write_entry_points(source, HostDriver::none).source; }

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace

TEST(EntryPoints, TensorsAreBuffersAndOffsets) {
  const std::string text =
      entered("kernel void f(global const X* restrict x, __global float *y, Shape s, local acc* m) { g(); }\n");
  EXPECT_TRUE(has(text,
                  "kernel void f(__global const X *x_buffer, ulong x_offset, __global float *y_buffer, "
                  "ulong y_offset, Shape s, local acc* m) {"));
  EXPECT_TRUE(has(text,
                  "__global const X* restrict x = (__global const X*)((__global char*)x_buffer + "
                  "(x_offset & ~(1UL << 63)));"));
  EXPECT_TRUE(has(text, "__global float* y = ("));
  EXPECT_TRUE(has(text, " g(); }\n"));
  EXPECT_FALSE(has(text, "m ="));
}

TEST(EntryPoints, AttributesAndMacrosStayBeforeTheName) {
  const std::string text = entered(
      "#define MY_KERNEL kernel\n"
      "MY_KERNEL __attribute__((reqd_work_group_size(A * (2), 1, 1))) void f(global TYPE(D, 3)* x) {}\n"
      "__kernel void g(void);\n");
  EXPECT_TRUE(
      has(text, "MY_KERNEL __attribute__((reqd_work_group_size(A * (2), 1, 1))) void f(__global TYPE(D, 3) *x_buffer"));
  EXPECT_TRUE(has(text, "__kernel void g(void);\n"));
}

TEST(EntryPoints, WhatIsNoKernelStaysAsItIs) {
  const std::string source =
      "// kernel void a(global int* x) {}\n"
      "/* kernel void b(global int* x) {} */\n"
      "#define MADE(name) \\\n  kernel void name(global int* x) {}\n"
      "static void kernel_like(global int* x) { const char quote = '\"'; }\n"
      "constant char text[] = \"kernel void c(global int* x) {\\\"\";\n"
      "int kernel_size;";
  EXPECT_EQ(entered(source), source);
  EXPECT_EQ(entered(""), "");
  for (const char* part : {"kernel void f(global int* x", "kernel", "kernel void", "kernel void f", "kernel f(x) {",
                           "kernel void f(global int* x)", "TASK_KERNEL void f(/*"})
    EXPECT_EQ(entered(part), part);
}

TEST(EntryPoints, ListsMayBeMacrosAndHavePreprocessorLines) {
  const std::string text = entered(
      "#define MORE_WORDS int no\n"
      "#define MORE global int* a, \\\n  REST\n"
      "#define REST long n\n"
      "#define MORE other, list\n"
      "kernel void f(global int* x /* the, first */,\n"
      "#if WANTED\n"
      "              global int* w,  // maybe\n"
      "#endif\n"
      "              MORE) {\n"
      "}\n");
  EXPECT_TRUE(has(text,
                  "f(__global int *x_buffer, ulong x_offset, \n#if WANTED\n__global int *w_buffer, ulong w_offset, "
                  "\n#endif\n__global int *a_buffer, ulong a_offset, long n) {"));
  EXPECT_TRUE(has(text, "\n#if WANTED\n __global int* w = "));
}

TEST(EntryPoints, LocalArraysOfCpuKernelsBeginACacheLine) {
  const std::string text = entered(
      "TASK_KERNEL void f(int n) {\n  local float a[N];\n}\n"
      "CPU_KERNEL void g(int n) {\n  local PAIR(float) b[2 * (N)];\n}\n"
      "kernel void h(int n) {\n  local float c[N];\n}\n");
  EXPECT_TRUE(has(text, "local float a[N];"));
  EXPECT_TRUE(has(text, "local PAIR(float) b[2 * (N)] __attribute__((aligned(64)));"));
  EXPECT_TRUE(has(text, "local float c[N];"));
}

// A list that is not understood would stay, and the driver would take it as it is.
TEST(EntryPoints, NoKernelOfTheLibraryIsMissed) {
  size_t kernels = 0;
  for (const KernelFile& file : embedded_kernel_files()) {
    if (!file.name.ends_with(".cl")) continue;
    const std::string text = entered(expanded_source(std::string(file.name)));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      EXPECT_FALSE(has(line, "(global ") && !line.starts_with("//")) << file.name << ": " << line;
    for (size_t at = text.find("_buffer, ulong "); at != text.npos; at = text.find("_buffer, ulong ", at + 1))
      ++kernels;
  }
  EXPECT_GT(kernels, 500u);
}

TEST(EntryPoints, KernelsOfAllFormsRun) {
  const std::string source =
      "#define FACTORS int a, int b\n"
      "#include \"common/memory.clh\"\n"
      "TASK_KERNEL void forms(global const int* restrict x,\n"
      "#if 1\n"
      "                       global const int* absent,\n"
      "#endif\n"
      "                       global int* y, FACTORS, local int* memory) {\n"
      "  const long i = get_global_id(0);\n"
      "  memory[0] = HAS(absent) ? absent[i] : b;\n"
      "  y[i] = a * x[i] + memory[0];\n"
      "}\n";
  Kernel& kernel = get_kernel_from_source(device(), "forms", source);
  Array<int> x(std::vector<int>{1, 2, 3, 4}), y(3);
  launch(queue(), kernel, Range(3), Range(1), static_cast<const int*>(x.data() + 1), static_cast<const int*>(nullptr),
         y.data(), int32_t{10}, int32_t{5}, LocalMemory{sizeof(int)});
  EXPECT_EQ(y.host(), (std::vector<int>{25, 35, 45}));
}
