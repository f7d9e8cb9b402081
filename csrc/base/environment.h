// The environment variables that the library reads: one row each, so that values are checked in one place and the
// documentation is generated.
//
// A value that its variable does not accept is as if it were unset. The first reader (or check()) warns about it, once
// per variable: the warning names the variable, the value, what is accepted and what happens instead.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace ocl::environment {

enum class Kind {
  flag,    // 1, on, yes, true or 0, off, no, false
  number,  // a whole number from `low` to `high`
  word,    // one of `words`
  path,    // a file or folder
  text,    // whatever `words` describes; its reader checks it and calls reject()
};

struct Values {
  Kind kind;
  const char* words = "";  // separated by spaces; text: a description
  int64_t low = 0, high = INT64_MAX;
};

struct Variable {
  const char* name;
  const char* default_value;
  Values values;
  const char* meaning;
};

// Every variable, in the order of the documentation.
std::span<const Variable> table();
// What a variable accepts, in words: "0 or 1", "0 to 64", "warn, silent or error", "a path".
std::string accepted(const Variable& variable);

// The value of a variable of kind path or text, or nothing when it is unset or empty. For all readers: the name must be
// in the table, with the kind that is asked for (std::logic_error).
std::optional<std::string> get(const char* name);
bool flag(const char* name, bool default_value = false);
int64_t number(const char* name, int64_t default_value);
// One of the variable's words, in lower case. Other spellings of yes and no stand for the first of its words that means
// the same (1, on, auto; 0, off).
std::string word(const char* name, const char* default_value);

// Warns, once, that a variable of kind text has a value that its reader does not accept.
void reject(const char* name, const std::string& value, const std::string& accepted, const std::string& instead);

// Warns about all values that are not accepted, and about variables whose names begin like ours and are not known. Once
// per process; called when devices are looked for.
void check();

}  // namespace ocl::environment
