// What code of an archive may say, on snippets: the parts of the scan without a zip around them.
#include <gtest/gtest.h>
#include <torch/csrc/jit/runtime/operator.h>

#include "chorus/diagnostics.h"
#include "chorus/scan.h"
#include "lib/scan/code_scan.h"

namespace chorus::scan {
namespace {

// The message for this text of code/__torch__/net.py, or "".
std::string verdict(const std::vector<std::pair<std::string, std::string>>& texts) {
  try {
    std::vector<CodeFile> files;
    for (const auto& [record, text] : texts) files.push_back(parseCode("m.pt", record, text, {}));
    const Program program = collectProgram("m.pt", files);
    for (const CodeFile& file : files) checkCode("m.pt", file, program);
  } catch (const Refused& refused) {
    return refused.what();
  }
  return "";
}

std::string method(const std::string& statements) {
  return "class Net(Module):\n"
         "  weight : Tensor\n"
         "  seed : Tensor\n"
         "  part : __torch__.net.Part\n"
         "  def forward(self: __torch__.net.Net,\n    x: Tensor) -> Tensor:\n" +
         statements +
         "    return x\n"
         "class Part(Module):\n"
         "  save : Tensor\n"
         "  def wait(self: __torch__.net.Part) -> int:\n    return 1\n";
}

std::string ofMethod(const std::string& statement) {
  return verdict({{"code/__torch__/net.py", method("    " + statement + "\n")}});
}

TEST(ScanCode, WholeMessageNamesFileRecordAndLine) {
  EXPECT_EQ(ofMethod("_0 = torch.save(x, \"f\")"),
            "m.pt: code/__torch__/net.py:7: error: the archive's code uses the operator "
            "'aten::save', which writes files\n"
            "    7 |      _0 = torch.save(x, \"f\")\n");
}

TEST(ScanCode, OrdinaryCodePasses) {
  for (const char* statement :
       {"x0 = torch.relu(x)", "_0 = annotate(List[Tensor], [])", "_0 = unchecked_cast(Tensor, x)",
        "_0 = uninitialized(Tensor)", "x[0] = 1.5", "_0 = ops.prim.dtype(x)", "_0 = CONSTANTS.c12",
        "_0 = getattr(self, \"0\")", "_0 = (self.part).wait()", "a, b, = torch.max(x, 1)",
        "_0 = [inf, nan, 1.j, -1]",
        "ops.prim.RaiseException(torch.format(\"{}\", 1), \"builtins.ValueError\")",
        "_0 = isinstance(x, Tensor)", "for i in range(3):\n      pass", "assert True", "del x",
        "_0 = {\"a\": x}", "_0 = x if True else x", "_0 = torch.to(x, dtype=6)"}) {
    EXPECT_EQ(ofMethod(statement), "") << statement;
  }
}

// A class of the archive may use the names of operators for its own members, and only for those.
TEST(ScanCode, MembersNamedLikeOperators) {
  EXPECT_EQ(ofMethod("_0 = self.seed"), "");
  EXPECT_EQ(ofMethod("_0 = self.part.save"), "");
  EXPECT_EQ(ofMethod("part = self.part\n    _0 = (part).wait()"), "");
  EXPECT_NE(ofMethod("_0 = self.weight.save"), "");
  EXPECT_NE(ofMethod("_0 = (self.part.save).save(\"f\")"), "");
  EXPECT_NE(ofMethod("_0 = (x).wait()"), "");
}

// A variable with two bindings has no known class: the check must not trust the first.
TEST(ScanCode, ReboundVariablesAreNotTrusted) {
  EXPECT_EQ(ofMethod("p = self.part\n    _0 = p.save"), "");
  EXPECT_NE(ofMethod("p = self.part\n    p = x\n    _0 = p.save"), "");
  EXPECT_NE(ofMethod("p = x\n    _0 = p.save\n    p = self.part"), "");
}

TEST(ScanCode, GradModeSwitchesOnlyTheGradMode) {
  const std::string record = "code/__torch__/torch/autograd/grad_mode.py";
  const std::string start = "class no_grad:\n  prev : bool\n  def __enter__(self) -> NoneType:\n";
  EXPECT_EQ(
      verdict(
          {{record,
            start +
                "    self.prev = torch.is_grad_enabled()\n    torch.set_grad_enabled(False)\n"}}),
      "");
  EXPECT_NE(verdict({{record, start + "    torch.grad([], [])\n"}}).find("'aten::grad'"),
            std::string::npos);
  EXPECT_NE(verdict({{record, start + "    torch.relu(self.prev)\n"}})
                .find("no place in a class that switches"),
            std::string::npos);
  EXPECT_NE(
      verdict({{"code/__torch__/net.py", start + "    return None\n"}}).find("is neither a module"),
      std::string::npos);
}

TEST(ScanCode, AutocastOfScriptsIsAnObjectThatTorchWrites) {
  const std::string code = "class autocast:\n  device : str\n";
  EXPECT_EQ(verdict({{"code/__torch__/torch/amp/autocast_mode.py", code}}), "");
  EXPECT_NE(verdict({{"code/__torch__/net.py", code}}).find("neither a module"), std::string::npos);
}

TEST(ScanCode, OnlyFusedFilesDifferentiate) {
  const std::string step =
      method("    torch.set_grad_enabled(True)\n    _0 = torch.grad([x], [x])\n");
  const std::string mode =
      "class GradMode:\n  before : bool\n  def __init__(self) -> NoneType:\n    return None\n";
  EXPECT_EQ(verdict({{"code/__torch__/net.py", step}, {"code/__torch__/chorus.py", mode}}), "");
  EXPECT_NE(verdict({{"code/__torch__/net.py", step}}).find("'aten::set_grad_enabled'"),
            std::string::npos);
}

TEST(ScanCode, NamedTuplesAndEnumsHoldDataOnly) {
  EXPECT_EQ(verdict({{"code/__torch__/net.py",
                      "class P(NamedTuple):\n  a : Tensor\n  b : int\nclass C(Enum):\n  R = 1\n"}}),
            "");
  EXPECT_NE(verdict({{"code/__torch__/net.py",
                      "class C(Enum):\n  R = 1\n  def f(self) -> int:\n    return 1\n"}}),
            "");
}

// Every name of the list is an operator of this LibTorch, or one that its code generator and type
// checker resolve.
TEST(ScanCode, AllowedOperatorsExist) {
  for (const char* name : {"aten::conv2d", "aten::add_", "aten::__getitem__", "aten::format",
                           "prim::RaiseException"}) {
    EXPECT_TRUE(isAllowedOperator(name)) << name;
  }
  size_t allowed = 0;
  for (const auto& operation : torch::jit::getAllOperators()) {
    allowed += isAllowedOperator(operation->schema().name());
  }
  EXPECT_GT(allowed, 1500);
}

TEST(ScanCode, DangerousOperatorsAreNotAllowed) {
  for (const char* name : {"aten::save",
                           "aten::from_file",
                           "aten::wait",
                           "aten::seed",
                           "aten::manual_seed",
                           "aten::set_",
                           "aten::set_data",
                           "aten::backward",
                           "aten::_backward",
                           "aten::grad",
                           "aten::set_grad_enabled",
                           "aten::Generator",
                           "aten::resize_",
                           "aten::to_here",
                           "aten::_print",
                           "aten::record_stream",
                           "aten::_cufft_set_plan_cache_max_size",
                           "prim::Print",
                           "prim::PythonOp",
                           "prim::fork",
                           "prim::rpc_async",
                           "prim::awaitable",
                           "prim::profile",
                           "prim::TimePoint",
                           "aten::",
                           "",
                           "torchvision::nms",
                           "quantized::linear",
                           "cuda::synchronize",
                           "c10d::barrier",
                           "aten::conv2d.out"}) {
    EXPECT_FALSE(isAllowedOperator(name)) << name;
  }
}

TEST(ScanCode, TypeTags) {
  const Program program;
  EXPECT_NO_THROW(checkTypeText("m.pt", "Dict[str, List[Optional[Tensor]]]", program));
  EXPECT_THROW(checkTypeText("m.pt", "__torch__.torch.classes.dist.Store", program), Refused);
  EXPECT_THROW(checkTypeText("m.pt", "List[" + std::string(5000, '['), program), Refused);
  EXPECT_THROW(checkTypeText("m.pt", "torch.save(1)", program), Refused);
}

}  // namespace
}  // namespace chorus::scan
