#include "opencl/program/entry_points.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace ocl {

namespace {

using Kind = KernelParameter::Kind;

// Every program is read, on warm starts too: one look at each character.
enum class Class : uint8_t { other, letter, quote, slash, hash };
constexpr auto classes = [] {
  std::array<Class, 256> table{};
  for (int c = 'a'; c <= 'z'; ++c) table[c] = table[c - 'a' + 'A'] = Class::letter;
  for (int c = '0'; c <= '9'; ++c) table[c] = Class::letter;
  table['_'] = Class::letter;
  table['"'] = table['\''] = Class::quote;
  table['/'] = Class::slash;
  table['#'] = Class::hash;
  return table;
}();

Class class_of(char c) { return classes[static_cast<unsigned char>(c)]; }
bool letter(char c) { return class_of(c) == Class::letter; }
bool blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

size_t word_end(std::string_view text, size_t at) {
  while (at < text.size() && letter(text[at])) ++at;
  return at;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

bool is_word(std::string_view text) { return !text.empty() && word_end(text, 0) == text.size(); }

// The end of a line that a backslash may continue: the position of its '\n', or of the text's end.
size_t line_end(std::string_view text, size_t at) {
  for (;; ++at) {
    at = text.find('\n', at);
    if (at == text.npos) return text.size();
    if (at == 0 || text[at - 1] != '\\') return at;
  }
}

// Behind the comment or literal that begins here; `at` itself when none does.
size_t skip_quoted(std::string_view text, size_t at) {
  if (text[at] == '/' && at + 1 < text.size()) {
    if (text[at + 1] == '/') return line_end(text, at);
    if (text[at + 1] != '*') return at;
    const size_t end = text.find("*/", at + 2);
    return end == text.npos ? text.size() : end + 2;
  }
  if (text[at] != '"' && text[at] != '\'') return at;
  for (size_t end = at + 1; end < text.size(); ++end) {
    if (text[end] == '\\')
      ++end;
    else if (text[end] == text[at] || text[end] == '\n')
      return end + 1;
  }
  return text.size();
}

size_t skip_blanks(std::string_view text, size_t at) {
  while (at < text.size()) {
    const size_t next = blank(text[at]) ? at + 1 : text[at] == '/' ? skip_quoted(text, at) : at;
    if (next == at) break;
    at = next;
  }
  return at;
}

// Behind the parenthesis that closes the one here; npos: none does.
size_t skip_parentheses(std::string_view text, size_t at) {
  for (int depth = 0; at < text.size();) {
    if (const size_t next = skip_quoted(text, at); next != at) {
      at = next;
      continue;
    }
    depth += (text[at] == '(') - (text[at] == ')');
    ++at;
    if (depth == 0) return at;
  }
  return text.npos;
}

bool begins_line(std::string_view text, size_t at) {
  while (at > 0 && (text[at - 1] == ' ' || text[at - 1] == '\t')) --at;
  return at == 0 || text[at - 1] == '\n';
}

// What the first `#define name` of a macro without parameters says; empty: there is none.
std::string definition(std::string_view source, std::string_view name) {
  const std::string line = "#define " + std::string(name);
  for (size_t at = source.find(line); at != source.npos; at = source.find(line, at + 1)) {
    const size_t begin = at + line.size();
    if (begin < source.size() && (letter(source[begin]) || source[begin] == '(')) continue;
    std::string body(source.substr(begin, line_end(source, begin) - begin));
    for (size_t mark = body.find("\\\n"); mark != body.npos; mark = body.find("\\\n", mark)) body.replace(mark, 2, " ");
    return body;
  }
  return {};
}

KernelParameter parameter_of(std::string text) {
  KernelParameter parameter{Kind::plain, std::move(text), {}, {}};
  const std::string_view all = parameter.text;
  size_t name = all.size();
  while (name > 0 && letter(all[name - 1])) --name;
  parameter.name = all.substr(name);
  const size_t star = all.rfind('*');
  if (star == all.npos) {
    parameter.type = trimmed(all.substr(0, name));
    return parameter;
  }
  for (size_t at = 0; at < star;) {
    const size_t end = word_end(all, at);
    const std::string_view word = all.substr(at, end - at);
    if (word == "global" || word == "__global")
      parameter.kind = Kind::tensor;
    else if (word == "local" || word == "__local")
      parameter.kind = Kind::local;
    else
      parameter.type += end == at ? all.substr(at, 1) : word;
    at = end == at ? at + 1 : end;
  }
  parameter.type = trimmed(parameter.type);
  parameter.restricted = all.find("restrict", star) < name;
  return parameter;
}

class List {
 public:
  explicit List(std::string_view source) : source_(source) {}

  void read(std::string_view text, int depth = 0) {
    std::string item;
    int nested = 0;
    for (size_t at = 0; at < text.size();) {
      const char c = text[at];
      if (c == '#' && begins_line(text, at)) {
        finish(item, depth);
        const size_t end = line_end(text, at);
        parts_.push_back({Kind::directive, std::string(text.substr(at, end - at)), {}, {}});
        at = end;
      } else if (c == ',' && nested == 0) {
        finish(item, depth);
        parts_.push_back({Kind::comma, ",", {}, {}});
        ++at;
      } else if (c == '/' && skip_quoted(text, at) != at) {
        at = skip_quoted(text, at);
        item += ' ';
      } else {
        nested += (c == '(') - (c == ')');
        if (!blank(c))
          item += c;
        else if (!item.empty() && item.back() != ' ')
          item += ' ';
        ++at;
      }
    }
    finish(item, depth);
  }
  std::vector<KernelParameter> take() { return std::move(parts_); }

 private:
  void finish(std::string& item, int depth) {
    const std::string text(trimmed(item));
    item.clear();
    if (text.empty() || text == "void") return;
    constexpr int deepest = 8;
    const std::string body = is_word(text) && depth < deepest ? definition(source_, text) : std::string();
    if (body.empty())
      parts_.push_back(parameter_of(text));
    else
      read(body, depth + 1);
  }

  std::string_view source_;
  std::vector<KernelParameter> parts_;
};

std::string open_tensor(const KernelParameter& p) {
  const std::string type = "__global " + p.type + "*";
  return " " + type + (p.restricted ? " restrict " : " ") + p.name + " = (" + type + ")((__global char*)" + p.name +
         "_buffer + (" + p.name + "_offset & ~(1UL << 63)));";
}

std::string open_local(const KernelParameter& p) {
  return " __local " + p.type + (p.restricted ? "* restrict " : "* ") + p.name + " = CALLABLE_MEMORY(" + p.type + ", " +
         p.name + "_bytes);";
}

bool begins_kernel(std::string_view word) {
  if (word.size() < 6) return false;
  return word.back() == 'L' ? word.ends_with("_KERNEL") : word == "kernel" || word == "__kernel";
}
enum class Mark { none, cpu, task };  // of those that can be functions

class Writer {
 public:
  Writer(std::string_view source, FunctionForm functions) : source_(source), functions_(functions) {}

  EntryPoints write() {
    result_.source.reserve(source_.size() + source_.size() / 4 + 1024);
    for (size_t at = 0; at < source_.size();) {
      const Class kind = class_of(source_[at]);
      if (kind == Class::other)
        ++at;
      else if (kind == Class::letter)
        at = word(at);
      else if (kind == Class::hash && begins_line(source_, at))
        at = line_end(source_, at);
      else
        at = std::max(skip_quoted(source_, at), at + 1);
    }
    result_.source.append(source_.substr(copied_));
    return std::move(result_);
  }

 private:
  // Behind the word here, or behind what has been written in place of what it begins.
  size_t word(size_t at) {
    const size_t end = word_end(source_, at);
    const std::string_view text = source_.substr(at, end - at);
    size_t next = 0;
    if (begins_kernel(text))
      next = kernel(at);
    else if (mark_ != Mark::none && (text == "local" || text == "__local"))
      next = local_array(at, end);
    return next ? next : end;
  }

  // Writes the kernel that begins here. Returns where its body goes on; 0: none begins.
  size_t kernel(size_t begin) {
    Mark mark = Mark::none;
    size_t at = begin, words = 0;
    constexpr size_t most_words = 16;
    for (std::string_view word; word != "void"; ++words) {
      at = skip_blanks(source_, at);
      const size_t end = word_end(source_, at);
      if (end == at || words == most_words) return 0;
      word = source_.substr(at, end - at);
      if (word == "CPU_KERNEL") mark = Mark::cpu;
      if (word == "TASK_KERNEL") mark = Mark::task;
      at = skip_blanks(source_, end);
      if (word != "void" && at < source_.size() && source_[at] == '(') at = skip_parentheses(source_, at);
      if (at >= source_.size()) return 0;
    }
    const size_t name_end = word_end(source_, at), open = skip_blanks(source_, name_end);
    if (name_end == at || open >= source_.size() || source_[open] != '(') return 0;
    const size_t close = skip_parentheses(source_, open);
    if (close == source_.npos) return 0;
    size_t body = skip_blanks(source_, close);
    if (source_.substr(body).starts_with("__attribute__")) {
      body = skip_parentheses(source_, source_.find('(', body));
      body = body == source_.npos ? body : skip_blanks(source_, body);
    }
    if (body >= source_.size() || (source_[body] != '{' && source_[body] != ';')) return 0;

    List list(source_);
    list.read(source_.substr(open + 1, close - open - 2));
    const KernelDeclaration declaration{std::string(source_.substr(at, name_end - at)), list.take()};
    result_.source.append(source_.substr(copied_, begin - copied_));
    mark_ = mark;
    if (mark != Mark::none && calls()) {
      result_.functions = true;
      if (source_[body] == '{') write_function(declaration);
      copied_ = body + 1;
    } else {
      result_.source.append(source_.substr(begin, open + 1 - begin));
      result_.source += declaration.each(true, [](const KernelParameter& p) { return p.declaration(); });
      if (declaration.list.empty()) result_.source += "void";
      result_.source.append(source_.substr(close - 1, body + 1 - close + 1));
      copied_ = body + 1;
      if (source_[body] == '{')
        result_.source += declaration.each(
            false, [](const KernelParameter& p) { return p.kind == Kind::tensor ? open_tensor(p) : std::string(); });
    }
    return copied_;
  }

  // `local T name[n];` of a marked kernel: a function has no such variables, and CPU kernels use whole cache lines.
  // Returns where the text goes on; 0: it is something else.
  size_t local_array(size_t begin, size_t type) {
    const size_t end = source_.find(';', type);
    if (end == source_.npos) return 0;
    const std::string_view all = trimmed(source_.substr(type, end - type));
    const size_t bracket = all.find('[');
    if (bracket == all.npos || all.find(']') != all.size() - 1) return 0;
    size_t name = bracket;
    while (name > 0 && letter(all[name - 1])) --name;
    const std::string element(trimmed(all.substr(0, name)));
    if (element.empty() || name == bracket || element.find_first_of("*,={}") != element.npos) return 0;
    if (!calls() && mark_ == Mark::task) return 0;
    result_.source.append(source_.substr(copied_, begin - copied_));
    copied_ = end;
    if (calls()) {
      const std::string count(all.substr(bracket + 1, all.size() - bracket - 2));
      result_.source.append("__local " + element + "* ").append(all.substr(name, bracket - name));
      result_.source += " = CALLABLE_MEMORY(" + element + ", sizeof(" + element + ") * (" + count + "))";
    } else {
      result_.source.append(source_.substr(begin, end - begin)).append(" __attribute__((aligned(64)))");
    }
    return end;
  }

  void write_function(const KernelDeclaration& declaration) {
    result_.source += function_head(functions_, declaration);
    result_.source += " {";
    result_.source += declaration.each(false, [](const KernelParameter& p) {
      return p.kind == Kind::tensor ? open_tensor(p) : p.kind == Kind::local ? open_local(p) : std::string();
    });
  }

  bool calls() const { return functions_ != FunctionForm::none; }

  std::string_view source_;
  FunctionForm functions_;
  size_t copied_ = 0;       // of the source, to the result
  Mark mark_ = Mark::none;  // of the kernel that was last met
  EntryPoints result_;
};

}  // namespace

std::string KernelParameter::declaration() const {
  if (kind != Kind::tensor) return text;
  return "__global " + type + " *" + name + "_buffer, ulong " + name + "_offset";
}

FunctionForm function_form(HostDriver driver) {
  if (driver == HostDriver::none) return FunctionForm::none;
  return driver == HostDriver::basic ? FunctionForm::instruction : FunctionForm::block;
}

EntryPoints write_entry_points(std::string_view source, FunctionForm functions) {
  return Writer(source, functions).write();
}

EntryPoints write_entry_points(std::string_view source, HostDriver functions) {
  return write_entry_points(source, function_form(functions));
}

}  // namespace ocl
