// chorus_conformance --list | --run OP | --red OP
//
// --list  one name per op that has samples, and "registry"
// --run   exit 1 with a line for every violation
// --red   the same with a fault injected (CHORUS_FAULT): exit 0 only if there are violations
#include <ATen/Parallel.h>

#include <iostream>

#include "chorus/batching_rule.h"
#include "lib/support/marker_ops.h"
#include "test/conformance/oracle.h"

namespace chorus::conformance {
namespace {

/// "aten::add" -> "add", "prim::dtype" -> "prim.dtype"
std::string caseName(const std::string& op) {
  const size_t colons = op.find("::");
  const std::string name = op.substr(colons + 2);
  return op.starts_with("aten::") ? name : op.substr(0, colons) + "." + name;
}

struct Cases {
  std::map<std::string, std::vector<Sample>> by_name;
  std::vector<std::string> unreadable;
};

Cases allCases() {
  Cases cases;
  for (const Samples& lines : sampleTable()) {
    for (const std::string& line : lines) {
      try {
        Sample sample = parseSample(line);
        cases.by_name[caseName(sample.op)].push_back(std::move(sample));
      } catch (const std::exception& bad) {
        cases.unreadable.push_back(bad.what());
      }
    }
  }
  return cases;
}

/// Rules whose arguments a sample cannot draw (factors of a matrix, alignments, lengths of
/// sequences), or that need another op before them: opinfo.py judges them, test_packed.py and
/// test_operators.py.
const std::set<std::string> kJudgedElsewhere = {"aten::linalg_cholesky",
                                                "aten::cholesky",
                                                "aten::lu_unpack",
                                                "aten::linalg_lu_solve",
                                                "aten::linalg_ldl_solve",
                                                "aten::lu_solve",
                                                "aten::ctc_loss",
                                                "aten::chalf",
                                                "aten::as_strided",
                                                "aten::as_strided_copy",
                                                "aten::masked_select",
                                                "aten::_pack_padded_sequence",
                                                "aten::_pad_packed_sequence"};

/// Every sample can be read, every rule has one. Random ops are judged by their masks, in
/// test/unit.
std::vector<std::string> registryProblems(const Cases& cases) {
  std::vector<std::string> problems = cases.unreadable;
  for (const RuleRow& row : allRules()) {
    const bool elsewhere = row.family == "random" || kJudgedElsewhere.contains(row.op);
    if (elsewhere || cases.by_name.contains(caseName(row.op))) continue;
    problems.push_back(row.op + " has a rule but no sample");
  }
  return problems;
}

std::vector<std::string> run(const std::string& name) {
  const Cases cases = allCases();
  if (name == "registry") return registryProblems(cases);
  const auto found = cases.by_name.find(name);
  if (found == cases.by_name.end()) throw std::runtime_error("no samples of '" + name + "'");
  std::vector<std::string> all;
  for (const Sample& sample : found->second) {
    const auto bad = violations(sample);
    all.insert(all.end(), bad.begin(), bad.end());
  }
  return all;
}

int main(const std::vector<std::string>& arguments) {
  registerMarkerOps();
  at::set_num_threads(1);
  if (arguments.size() == 1 && arguments[0] == "--list") {
    std::cout << "registry\n";
    for (const auto& [name, samples] : allCases().by_name) std::cout << name << "\n";
    return 0;
  }
  if (arguments.size() < 2 || (arguments[0] != "--run" && arguments[0] != "--red")) {
    std::cerr << "usage: chorus_conformance --list | --run OP... | --red OP\n";
    return 2;
  }
  size_t count = 0;
  for (size_t i = 1; i < arguments.size(); ++i) {
    for (const std::string& line : run(arguments[i])) {
      std::cout << line << "\n";
      ++count;
    }
  }
  const bool wanted = arguments[0] == "--red";
  return (count > 0) == wanted ? 0 : 1;
}

}  // namespace
}  // namespace chorus::conformance

int main(int count, char** words) {
  try {
    return chorus::conformance::main({words + 1, words + count});
  } catch (const std::exception& raised) {
    std::cerr << raised.what() << "\n";
    return 3;
  }
}
