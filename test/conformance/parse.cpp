#include <stdexcept>

#include "test/conformance/sample.h"

namespace chorus::conformance {
namespace {

using c10::IValue;

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) { sample_.text = text; }

  Sample parse() {
    const std::string name = word();
    sample_.op = name.find("::") == std::string::npos ? "aten::" + name : name;
    expect('(');
    while (!take(')')) {
      sample_.arguments.push_back(argument());
      if (!peek(')')) expect(',');
    }
    if (take(';')) {
      while (at_ < text_.size()) sample_.flags.insert(word());
    }
    if (at_ != text_.size()) fail("nothing more");
    return std::move(sample_);
  }

 private:
  [[noreturn]] void fail(const std::string& wanted) const {
    throw std::runtime_error("sample '" + text_ + "': expected " + wanted + " at '" +
                             text_.substr(at_) + "'");
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool peek(char c) {
    skip();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) {
    const bool found = peek(c);
    if (found) ++at_;
    skip();
    return found;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string(1, c));
  }
  std::string word() {
    skip();
    const size_t start = at_;
    const auto in_word = [](char c) { return std::isalnum(c) || c == '_' || c == ':' || c == '-'; };
    while (at_ < text_.size() && in_word(text_[at_])) ++at_;
    if (at_ == start) fail("a word");
    const std::string found = text_.substr(start, at_ - start);
    skip();
    return found;
  }
  IValue number() {
    const size_t start = at_;
    while (at_ < text_.size() &&
           (std::isalnum(text_[at_]) || text_[at_] == '-' || text_[at_] == '.'))
      ++at_;
    const std::string found = text_.substr(start, at_ - start);
    skip();
    const bool real = found.find_first_of(".en") != std::string::npos;
    return real ? IValue(std::stod(found)) : IValue(static_cast<int64_t>(std::stoll(found)));
  }

  Argument argument() {
    const size_t start = at_;
    if (std::isalpha(text_[at_])) {
      const std::string name = word();
      if (take('=')) {
        Argument named = argument();
        named.name = name;
        return named;
      }
      at_ = start;
    }
    Argument argument;
    if (peek('{')) {
      argument.kind = Argument::Kind::Tensors;
      argument.tensors = tensorList();
    } else if (peek('[')) {
      list(argument);
    } else if (peek('@')) {
      argument.kind = Argument::Kind::Size;
      argument.sizes = {size()};
    } else if (peek('\'')) {
      argument.value = quoted();
    } else if (std::isalpha(text_[at_])) {
      named(argument);
    } else {
      argument.value = number();
    }
    return argument;
  }

  std::string quoted() {
    const size_t end = text_.find('\'', at_ + 1);
    if (end == std::string::npos) fail("a closing '");
    const std::string found = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    skip();
    return found;
  }

  std::vector<int64_t> tensorList() {
    std::vector<int64_t> tensors;
    expect('{');
    while (!take('}')) {
      const size_t start = at_;
      const std::string first = word();
      at_ = start;
      tensors.push_back(first == "none" ? (word(), -1) : tensor());
      if (!peek('}')) expect(',');
    }
    return tensors;
  }

  /// @tensor.dim, or a number.
  Argument::Size size() {
    if (!take('@')) return {false, number().toInt(), 0};
    const size_t dot = text_.find('.', at_);
    const int64_t tensor = std::stoll(text_.substr(at_, dot - at_));
    at_ = dot + 1;
    return {true, number().toInt(), tensor};
  }

  void list(Argument& argument) {
    const size_t end = text_.find(']', at_);
    const std::string inside = text_.substr(at_, end - at_);
    expect('[');
    if (inside.find('.') != std::string::npos && inside.find('@') == std::string::npos) {
      std::vector<double> numbers;
      while (!take(']')) {
        numbers.push_back(number().toScalar().toDouble());
        if (!peek(']')) expect(',');
      }
      argument.value = numbers;
      return;
    }
    argument.kind = Argument::Kind::Ints;
    while (!take(']')) {
      argument.sizes.push_back(size());
      if (!peek(']')) expect(',');
    }
  }

  /// none, true, false, inf, cpu, a dtype, or a tensor.
  void named(Argument& argument) {
    const size_t start = at_;
    const std::string name = word();
    if (name == "none") return;
    if (name == "true" || name == "false") {
      argument.value = name == "true";
    } else if (name == "inf") {
      argument.value = std::numeric_limits<double>::infinity();
    } else if (const auto dtype = dtypeFromName(name); dtype && !peek('[')) {
      argument.value = static_cast<int64_t>(*dtype);
    } else {
      at_ = start;
      argument.kind = Argument::Kind::Tensor;
      argument.tensors = {tensor()};
    }
  }

  int64_t tensor() {
    TensorSpec spec;
    const auto dtype = dtypeFromName(word());
    if (!dtype) fail("a dtype before this");
    spec.dtype = *dtype;
    expect('[');
    while (!take(']')) {
      if (take('N')) {
        spec.sizes.push_back(std::nullopt);
      } else {
        spec.sizes.push_back(number().toInt());
      }
      if (!peek(']')) expect(',');
    }
    if (take('+')) {
      spec.values = TensorSpec::Values::Positive;
    } else if (take('~')) {
      spec.values = TensorSpec::Values::Unit;
    } else if (take('<')) {
      spec.values = TensorSpec::Values::Below;
      spec.bound = number().toInt();
    }
    spec.differentiable = at::isFloatingType(spec.dtype) && !take('=');
    sample_.tensors.push_back(spec);
    return static_cast<int64_t>(sample_.tensors.size()) - 1;
  }

  const std::string& text_;
  size_t at_ = 0;
  Sample sample_;
};

}  // namespace

Sample parseSample(const std::string& text) { return Parser(text).parse(); }

}  // namespace chorus::conformance
