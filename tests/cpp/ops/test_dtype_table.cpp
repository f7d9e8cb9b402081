// What kernels are told of element types: printed from the table, as wide as the table says.
#include "ops/core/dtype_table.h"

#include "opencl/program/program.h"
#include "support.h"

#include <map>
#include <sstream>

using namespace ocl;
using namespace ocl::ops;

namespace {

// {macro: what it stands for} of lines `#define MACRO ...`.
std::map<std::string, std::string> definitions(const std::string& source) {
  std::map<std::string, std::string> all;
  std::istringstream lines(source);
  for (std::string line, word, name; std::getline(lines, line);) {
    std::istringstream words(line);
    words >> word >> name >> word;
    all[name] = word;
  }
  return all;
}

size_t bytes_of(const std::string& type) {
  const size_t pair = type.ends_with("2") ? 2 : 1;
  const std::string base = type.substr(0, type.size() + 1 - pair);
  for (const auto& [name, bytes] :
       {std::pair{"char", 1}, {"short", 2}, {"int", 4}, {"float", 4}, {"long", 8}, {"double", 8}})
    if (base == name || base == "u" + std::string(name)) return pair * static_cast<size_t>(bytes);
  return 0;
}

}  // namespace

TEST(DTypeTable, KernelsHaveEveryTypeAsWideAsItIs) {
  auto all = definitions(kernel_source("printed/element_types.clh"));
  size_t types = 0;
  for (const DTypeInfo& row : dtype_table()) {
    if (is_float8(row.dtype)) continue;
    const std::string name = row.name;
    EXPECT_EQ(bytes_of(all["STORAGE_" + name]), row.bytes) << name;
    EXPECT_EQ(bytes_of(all["VALUE_" + name]), size_of(compute_type(row.dtype))) << name;
    EXPECT_EQ(all["IS_COMPLEX_" + name], row.complex ? "1" : "0") << name;
    EXPECT_EQ(all["IS_FLOATING_" + name], row.floating ? "1" : "0") << name;
    ++types;
  }
  EXPECT_EQ(types, 16u);
  EXPECT_EQ(all["STORAGE_uint16"], "ushort");
  EXPECT_EQ(all["VALUE_bfloat16"], "float");
  EXPECT_EQ(all["SAME_int_int"], "1");
  EXPECT_EQ(all["SAME_int_uint"], "0");
}

TEST(DTypeTable, OtherFilesAreStillFound) {
  EXPECT_NE(kernel_source("common/types.clh").find("printed/element_types.clh"), std::string::npos);
  EXPECT_THROW(kernel_source("printed/nothing.clh"), InvalidArgument);
}
