#include <torch/csrc/jit/frontend/lexer.h>
#include <torch/csrc/jit/frontend/parser.h>

#include "lib/scan/code_scan.h"
#include "lib/scan/refuse.h"

namespace chorus::scan {
namespace {

using namespace torch::jit;

// LibTorch's lexer recurses over blank lines and comments, its parser over brackets, chains and
// branches.
constexpr size_t kMaxBlankLines = 1000;

void checkBlankLines(const std::string& path, const std::string& record, const std::string& text) {
  if (text.find('\0') != std::string::npos)
    throw refused(path, "the code in '" + record + "' holds a zero byte");
  if (text.find("\\\n") != std::string::npos)
    throw refused(path, "the code in '" + record + "' has continued lines");
  size_t blank = 0;
  for (size_t at = 0; at < text.size(); ++blank) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const size_t first = text.find_first_not_of(" \t\r\f\v", at);
    if (first != std::string::npos && first < end && text[first] != '#') blank = 0;
    if (blank > kMaxBlankLines)
      throw refused(path, "the code in '" + record + "' has too many blank lines");
    at = end + 1;
  }
}

// How deep the parser may recurse: open brackets, and operators since the last comma within each.
class Depth {
 public:
  void open() {
    ++total_;
    ++chains_.back();
    chains_.push_back(0);
  }
  void close() {
    if (chains_.size() == 1) return;
    total_ -= chains_.back();
    chains_.pop_back();
  }
  void chain() {
    ++total_;
    ++chains_.back();
  }
  void separate() {
    total_ -= chains_.back();
    chains_.back() = 0;
  }
  void line() {
    if (chains_.size() == 1) separate();
  }
  size_t brackets() const { return chains_.size() - 1; }
  size_t total() const { return total_; }

 private:
  std::vector<size_t> chains_{0};
  size_t total_ = 0;
};

bool isOperand(int kind) {
  return kind == TK_IDENT || kind == TK_NUMBER || kind == TK_STRINGLITERAL || kind == TK_TRUE ||
         kind == TK_FALSE || kind == TK_NONE;
}

std::string firstLine(const std::string& text) {
  const size_t start = text.find_first_not_of(" \n");
  if (start == std::string::npos) return "";
  return text.substr(start, std::min(text.find('\n', start), text.size()) - start);
}

}  // namespace

void checkCodeDepth(const std::string& path, const std::string& record, const std::string& text,
                    const ScanLimits& limits) {
  checkBlankLines(path, record, text);
  Lexer lexer(std::make_shared<Source>(text));
  Depth depth;
  size_t indentation = 0, branches = 0;
  for (int kind = lexer.cur().kind; kind != TK_EOF; kind = lexer.cur().kind) {
    if (kind == TK_TYPE_COMMENT)
      throw refused(path, "the code in '" + record + "' has type comments");
    if (kind == '(' || kind == '[' || kind == '{')
      depth.open();
    else if (kind == ')' || kind == ']' || kind == '}')
      depth.close();
    else if (kind == ',')
      depth.separate();
    else if (kind == TK_NEWLINE)
      depth.line();
    else if (kind == TK_INDENT)
      depth.line(), ++indentation;
    else if (kind == TK_DEDENT)
      indentation -= indentation > 0;
    else if (kind == TK_ELIF)
      ++branches;
    else if (kind == TK_DEF)
      branches = 0;
    else if (!isOperand(kind))
      depth.chain();
    const bool deep = depth.brackets() > limits.max_nesting ||
                      depth.total() > 4 * limits.max_nesting ||
                      indentation + branches > limits.max_nesting;
    if (deep) {
      throw refused(path, "the code in '" + record + "' nests deeper than " +
                              std::to_string(limits.max_nesting));
    }
    lexer.next();
  }
}

CodeFile parseCode(const std::string& path, const std::string& record, const std::string& text,
                   const ScanLimits& limits) {
  CodeFile file{record, record.substr(5, record.size() - 8), {}};  // code/QUALIFIER.py
  std::replace(file.qualifier.begin(), file.qualifier.end(), '/', '.');
  try {
    checkCodeDepth(path, record, text, limits);
    Parser parser(std::make_shared<Source>(text, record, 1));
    for (int kind = parser.lexer().cur().kind; kind != TK_EOF; kind = parser.lexer().cur().kind) {
      if (kind != TK_CLASS_DEF && kind != TK_DEF) {
        throw refused(path, "the code in '" + record + "' has '" + kindToString(kind) +
                                "' where only classes and functions are expected");
      }
      file.definitions.push_back(kind == TK_DEF ? parser.parseFunction(false)
                                                : parser.parseClass());
    }
  } catch (const Refused&) {
    throw;
  } catch (const std::exception& problem) {
    if (text.find('^') != std::string::npos && text.find("^") + 1 < text.size()) {
      const size_t at = text.find('^');
      if (at > 0 && (text[at - 1] == ' ' || text[at - 1] == '(') && std::isalpha(text[at + 1])) {
        throw refused(path, "the code in '" + record +
                                "' uses the operator 'prim::PythonOp', which runs Python code "
                                "that is not in the file");
      }
    }
    throw refused(path,
                  "the code in '" + record + "' is not TorchScript: " + firstLine(problem.what()));
  }
  return file;
}

}  // namespace chorus::scan
