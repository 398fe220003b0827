#include "chorus/diagnostics.h"
#include "runtime/data/npy.h"

namespace chorus {
namespace {

constexpr size_t kMaxRank = 32;

Refused bad(const NpySource& source, const std::string& why) {
  return Refused(error("array '" + source.name + "' " + why, Place{source.path, "", "", ""}));
}

// The few forms of Python literals that NumPy writes.
class Literals {
 public:
  Literals(const std::string& text, const NpySource& source) : text_(text), source_(source) {}

  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) throw illFormed();
  }
  std::string string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') throw illFormed();
    const size_t end = text_.find(quote, ++at_);
    if (end == std::string::npos) throw illFormed();
    const std::string value = text_.substr(at_, end - at_);
    at_ = end + 1;
    return value;
  }
  bool boolean() {
    peek();
    for (const bool value : {true, false}) {
      const std::string word = value ? "True" : "False";
      if (text_.compare(at_, word.size(), word) != 0) continue;
      at_ += word.size();
      return value;
    }
    throw illFormed();
  }
  int64_t size() {
    peek();
    const size_t end = std::min(text_.find_first_not_of("0123456789", at_), text_.size());
    if (end == at_ || end - at_ > 18) throw illFormed();
    const int64_t value = std::stoll(text_.substr(at_, end - at_));
    at_ = end;
    return value;
  }
  std::vector<int64_t> shape() {
    std::vector<int64_t> sizes;
    expect('(');
    while (!take(')')) {
      sizes.push_back(size());
      if (sizes.size() > kMaxRank)
        throw bad(source_, "has more than " + std::to_string(kMaxRank) + " dimensions");
      if (!take(',') && peek() != ')') throw illFormed();
    }
    return sizes;
  }
  Refused illFormed() const { return bad(source_, "has an ill-formed header"); }

 private:
  const std::string& text_;
  const NpySource& source_;
  size_t at_ = 0;
};

void setType(NpyHeader& header, const std::string& descr, const NpySource& source) {
  const bool formed = descr.size() >= 2 && std::string("<>|=").find(descr[0]) != std::string::npos;
  if (!formed) throw bad(source, "has an ill-formed header");
  if (descr[1] == 'O') {
    throw bad(source,
              "has dtype object: its elements are a pickle, which could run any code; save it as "
              "numbers");
  }
  header.order = descr[0] == '=' ? '<' : descr[0];
  header.kind = descr[1];
  const std::string width = descr.substr(2);
  const bool number = !width.empty() && width.size() < 4 &&
                      width.find_first_not_of("0123456789") == std::string::npos;
  header.width = number ? std::stoll(width) : 0;
  static const std::vector<std::string> known = {"f2", "f4", "f8", "i1", "i2", "i4", "i8",
                                                 "u1", "u2", "u4", "u8", "b1", "c8", "c16"};
  if (std::find(known.begin(), known.end(), descr.substr(1)) == known.end()) {
    const bool text = header.kind == 'U' || header.kind == 'S';
    throw bad(source,
              "has dtype '" + descr + "'" + (text ? ", which is text" : "") +
                  "; numbers are needed: " + "f2 f4 f8, i1 i2 i4 i8, u1 u2 u4 u8, bool, c8 or c16");
  }
}

}  // namespace

NpyHeader parseNpyHeader(const std::string& text, const NpySource& source) {
  Literals literals(text, source);
  NpyHeader header;
  bool type = false, order = false, shape = false;
  literals.expect('{');
  while (!literals.take('}')) {
    const std::string key = literals.string();
    literals.expect(':');
    if (key == "descr" && !type) {
      if (literals.peek() == '[')
        throw bad(source, "has a structured dtype; save each field as an array of its own");
      setType(header, literals.string(), source);
      type = true;
    } else if (key == "fortran_order" && !order) {
      header.fortran_order = literals.boolean();
      order = true;
    } else if (key == "shape" && !shape) {
      header.shape = literals.shape();
      shape = true;
    } else {
      throw literals.illFormed();
    }
    if (!literals.take(',') && literals.peek() != '}') throw literals.illFormed();
  }
  if (!type || !order || !shape || literals.peek() != '\0') throw literals.illFormed();
  return header;
}

}  // namespace chorus
