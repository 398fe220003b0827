// The code of an archive, judged on the very syntax tree that LibTorch's parser makes of it:
// nothing is compiled or run.
#pragma once

#include <torch/csrc/jit/frontend/tree_views.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "chorus/scan.h"

namespace chorus::scan {

struct ClassInfo {
  enum class Kind { Module, NamedTuple, Enum, GradMode, Autocast };
  std::string name;  ///< qualified, e.g. "__torch__.net.Block"
  Kind kind = Kind::Module;
  std::map<std::string, std::string>
      attributes;  ///< name -> qualified class, or "" for other types
  std::set<std::string> methods;
};

/// Everything that the code of one archive defines.
struct Program {
  std::map<std::string, ClassInfo> classes;
  std::set<std::string> functions;
  bool fused = false;  ///< it has the grad-mode class of a fused file: may differentiate

  const ClassInfo* find(const std::string& name) const;
};

/// One file of code, parsed.
struct CodeFile {
  std::string record;     ///< "code/__torch__/net.py"
  std::string qualifier;  ///< "__torch__.net"
  std::vector<torch::jit::TreeRef> definitions;
};

/// Refuses code nested so deeply, or with such long chains of operators, that LibTorch's recursive
/// parser would overflow its stack. `path` is the archive's.
void checkCodeDepth(const std::string& path, const std::string& record, const std::string& text,
                    const ScanLimits& limits);

/// Parses; throws Refused where the text is not TorchScript.
CodeFile parseCode(const std::string& path, const std::string& record, const std::string& text,
                   const ScanLimits& limits);

/// Refuses classes other than Module, NamedTuple, Enum and grad-mode classes, and
/// `__setstate__`/`__getstate__`.
Program collectProgram(const std::string& path, const std::vector<CodeFile>& files);

/// Refuses every operator, function and name outside the lists, and whatever could hide one.
void checkCode(const std::string& path, const CodeFile& file, const Program& program);

/// A type as written in code or as tag in a pickle.
void checkTypeText(const std::string& path, const std::string& type, const Program& program);

}  // namespace chorus::scan
