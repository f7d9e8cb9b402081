// The environment variables that the library reads: one row each, so that the documentation can be generated from them.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace ocl::environment {

struct Variable {
  const char* name;
  const char* default_value;
  const char* meaning;
};

// Every variable, in the order of the documentation.
std::span<const Variable> table();

// The value of a variable, or nothing when it is unset or empty. The name must be in the table (asserted).
std::optional<std::string> get(const char* name);
bool flag(const char* name, bool default_value = false);
long number(const char* name, long default_value);

}  // namespace ocl::environment
