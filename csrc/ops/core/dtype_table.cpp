#include "ops/core/dtype_table.h"

#include "base/error.h"

#include <algorithm>
#include <vector>

namespace ocl::ops {

bool float8_saturates = true;

static constexpr DTypeInfo table[] = {
    {DType::uint8, "uint8", "Byte", 1, false, false, false},
    {DType::int8, "int8", "Char", 1, false, false, true},
    {DType::int16, "int16", "Short", 2, false, false, true},
    {DType::int32, "int32", "Int", 4, false, false, true},
    {DType::int64, "int64", "Long", 8, false, false, true},
    {DType::float16, "float16", "Half", 2, true, false, true},
    {DType::float32, "float32", "Float", 4, true, false, true},
    {DType::float64, "float64", "Double", 8, true, false, true},
    {DType::complex32, "complex32", "ComplexHalf", 4, false, true, true},
    {DType::complex64, "complex64", "ComplexFloat", 8, false, true, true},
    {DType::complex128, "complex128", "ComplexDouble", 16, false, true, true},
    {DType::boolean, "boolean", "Bool", 1, false, false, false},
    {DType::bfloat16, "bfloat16", "BFloat16", 2, true, false, true},
    {DType::float8_e5m2, "float8_e5m2", "Float8_e5m2", 1, true, false, true},
    {DType::float8_e4m3fn, "float8_e4m3fn", "Float8_e4m3fn", 1, true, false, true},
    {DType::float8_e5m2fnuz, "float8_e5m2fnuz", "Float8_e5m2fnuz", 1, true, false, true},
    {DType::float8_e4m3fnuz, "float8_e4m3fnuz", "Float8_e4m3fnuz", 1, true, false, true},
    {DType::float8_e8m0fnu, "float8_e8m0fnu", "Float8_e8m0fnu", 1, true, false, false},
    {DType::uint16, "uint16", "UInt16", 2, false, false, false},
    {DType::uint32, "uint32", "UInt32", 4, false, false, false},
    {DType::uint64, "uint64", "UInt64", 8, false, false, false},
};

std::span<const DTypeInfo> dtype_table() { return table; }

const DTypeInfo& info(DType dtype) {
  for (const DTypeInfo& row : table)
    if (row.dtype == dtype) return row;
  throw InvalidArgument("OpenCL kernels do not support element type number " + std::to_string(static_cast<int>(dtype)));
}

namespace {

// OpenCL C's name of integers of this width.
std::string integer_name(size_t bytes, bool is_signed) {
  const char* name = bytes == 1 ? "char" : bytes == 2 ? "short" : bytes == 4 ? "int" : "long";
  return (is_signed ? "" : "u") + std::string(name);
}

// How memory holds the type: halves as integers, complex numbers as pairs.
std::string storage_name(const DTypeInfo& row) {
  if (row.complex) return storage_name(info(real_of(row.dtype))) + "2";
  if (is_half(row.dtype)) return "ushort";
  if (row.floating) return row.bytes == 8 ? "double" : "float";
  return integer_name(row.bytes, row.is_signed);
}

std::string value_name(const DTypeInfo& row) { return storage_name(info(compute_type(row.dtype))); }

void print_access(std::string& text, const DTypeInfo& row, const std::string& storage) {
  const std::string name = row.name;
  if (row.dtype != DType::boolean) text += "#define READ_" + name + "(p, i) READ_PLAIN(p, i)\n";
  text += "#define WRITE_" + name + "(p, i, v) WRITE_PLAIN(p, i, v)\n";
  if (row.complex) return;
  text += "#define READV_" + name + "(W, p, i) READV_PLAIN(W, p, i)\n";
  text += "#define WRITEV_" + name + "(W, p, i, v) ";
  text += row.bytes <= 2 ? "STORE_NARROW(" + storage + ", W, v, (p) + (i))\n" : "WRITEV_PLAIN(W, p, i, v)\n";
}

}  // namespace

std::string element_types_source() {
  std::string text;
  std::vector<std::string> values;  // of real types
  for (const DTypeInfo& row : table) {
    if (is_float8(row.dtype)) continue;
    const std::string name = row.name, storage = storage_name(row), value = value_name(row);
    text += "#define STORAGE_" + name + " " + storage + "\n";
    text += "#define VALUE_" + name + " " + value + "\n";
    text += "#define IS_COMPLEX_" + name + (row.complex ? " 1\n" : " 0\n");
    text += "#define IS_FLOATING_" + name + (row.floating ? " 1\n" : " 0\n");
    if (!is_storage_only(row.dtype)) print_access(text, row, storage);
    if (row.complex) continue;
    const size_t bytes = size_of(compute_type(row.dtype));
    text += "#define ONE_" + name + "_(W) (CAT(" + integer_name(bytes, true) + ", W))1\n";
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }
  for (const std::string& one : values)
    for (const std::string& other : values)
      text += "#define SAME_" + one + "_" + other + (one == other ? " 1\n" : " 0\n");
  return text;
}

}  // namespace ocl::ops
