// Warnings of the library: what it met, and what it does instead. They never stop a program.
#pragma once

#include <string>

namespace ocl {

// Tells the user. Any thread may call it; the caller sees to it that one cause warns once.
void warn(const std::string& text);

// Takes all warnings from now on (any thread); nullptr: they are lines on stderr, as at the start.
using WarningHandler = void (*)(const std::string& text);
void set_warning_handler(WarningHandler handler);

}  // namespace ocl
