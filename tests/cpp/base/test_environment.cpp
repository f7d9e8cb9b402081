// Values of environment variables that are not accepted: a warning, once, and the default.
#include "base/environment.h"

#include "base/os.h"
#include "base/warning.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

namespace ocl {
namespace {

// Every variable warns once per process, so that every test takes one of its own.
class Environment : public ::testing::Test {
 protected:
  void SetUp() override {
    warnings.clear();
    set_warning_handler([](const std::string& text) { warnings.push_back(text); });
  }
  void TearDown() override {
    set_warning_handler(nullptr);
    if (!name_.empty()) os::set_environment(name_.c_str(), before_.empty() ? nullptr : before_.c_str());
  }
  void set(const char* name, const char* value) {
    if (name_.empty()) {
      const char* before = std::getenv(name);
      name_ = name, before_ = before ? before : "";
    }
    os::set_environment(name, value);
  }
  static bool told(const std::string& text) {
    return warnings.size() == 1 && warnings[0].find(text) != std::string::npos;
  }
  static inline std::vector<std::string> warnings;
  std::string name_, before_;
};

TEST_F(Environment, Flags) {
  for (const char* yes : {"1", "on", "Yes", "TRUE"}) {
    set("TORCH_OCL_TUNE", yes);
    EXPECT_TRUE(environment::flag("TORCH_OCL_TUNE", false)) << yes;
  }
  for (const char* no : {"0", "off", "No", "FALSE"}) {
    set("TORCH_OCL_TUNE", no);
    EXPECT_FALSE(environment::flag("TORCH_OCL_TUNE", true)) << no;
  }
  set("TORCH_OCL_TUNE", "");
  EXPECT_TRUE(environment::flag("TORCH_OCL_TUNE", true));
  EXPECT_TRUE(warnings.empty());
  set("TORCH_OCL_TUNE", "of");
  EXPECT_FALSE(environment::flag("TORCH_OCL_TUNE", false));
  EXPECT_TRUE(environment::flag("TORCH_OCL_TUNE", true));
  EXPECT_TRUE(told("TORCH_OCL_TUNE=of is not accepted (0 or 1): the default is used (0)"));
}

TEST_F(Environment, Numbers) {
  set("TORCH_OCL_TUNE_BUDGET", "0x10");
  EXPECT_EQ(environment::number("TORCH_OCL_TUNE_BUDGET", 7), 16);
  EXPECT_TRUE(warnings.empty());
  for (const char* bad : {"0", "-3", "12ms", "many", "1e3", "99999999999999999999", " "}) {
    set("TORCH_OCL_TUNE_BUDGET", bad);
    EXPECT_EQ(environment::number("TORCH_OCL_TUNE_BUDGET", 7), 7) << bad;
  }
  EXPECT_TRUE(told("TORCH_OCL_TUNE_BUDGET=0 is not accepted (a whole number from 1)"));
}

TEST_F(Environment, NumberOutOfRange) {
  set("TORCH_OCL_VECTOR_FLOATS", "65");
  EXPECT_EQ(environment::number("TORCH_OCL_VECTOR_FLOATS", 8), 8);
  EXPECT_TRUE(told("1 to 64"));
}

TEST_F(Environment, Words) {
  set("TORCH_OCL_WINOGRAD", "Precise");
  EXPECT_EQ(environment::word("TORCH_OCL_WINOGRAD", "auto"), "precise");
  set("TORCH_OCL_WINOGRAD", "0");
  EXPECT_EQ(environment::word("TORCH_OCL_WINOGRAD", "auto"), "off");
  set("TORCH_OCL_WINOGRAD", "1");
  EXPECT_EQ(environment::word("TORCH_OCL_WINOGRAD", "off"), "auto");
  EXPECT_TRUE(warnings.empty());
  set("TORCH_OCL_WINOGRAD", "presise");
  EXPECT_EQ(environment::word("TORCH_OCL_WINOGRAD", "auto"), "auto");
  EXPECT_TRUE(told("TORCH_OCL_WINOGRAD=presise is not accepted (auto, precise or off)"));
}

TEST_F(Environment, TheTableIsConsistent) {
  for (const environment::Variable& v : environment::table()) {
    EXPECT_FALSE(environment::accepted(v).empty()) << v.name;
    EXPECT_NE(*v.meaning, 0) << v.name;
    if (v.values.kind == environment::Kind::number) {
      EXPECT_LT(v.values.low, v.values.high) << v.name;
    }
  }
  EXPECT_THROW(environment::get("TORCH_OCL_NO_SUCH"), std::logic_error);
  EXPECT_THROW(environment::flag("TORCH_OCL_TUNE_BUDGET"), std::logic_error);
}

}  // namespace
}  // namespace ocl
