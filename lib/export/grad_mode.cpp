#include "lib/export/grad_mode.h"

#include <torch/csrc/jit/serialization/import_source.h>

namespace chorus {

namespace {

const char* const kSource = R"(
class GradMode:
  enabled : bool
  before : bool
  def __init__(self: __torch__.chorus.GradMode,
    enabled: bool) -> NoneType:
    self.enabled = enabled
    self.before = torch.is_grad_enabled()
    return None
  def __enter__(self: __torch__.chorus.GradMode) -> NoneType:
    self.before = torch.is_grad_enabled()
    torch.set_grad_enabled(self.enabled)
    return None
  def __exit__(self: __torch__.chorus.GradMode,
    type: Any,
    value: Any,
    traceback: Any) -> NoneType:
    torch.set_grad_enabled(self.before)
    return None
)";

struct GradModeResolver : torch::jit::NativeResolver {
  explicit GradModeResolver(c10::ClassTypePtr type) : type_(std::move(type)) {}

  std::shared_ptr<torch::jit::SugaredValue> resolveValue(
      const std::string& name, torch::jit::GraphFunction& method,
      const torch::jit::SourceRange& place) override {
    if (name == "GradMode") return std::make_shared<torch::jit::ClassValue>(type_);
    return torch::jit::NativeResolver::resolveValue(name, method, place);
  }

  c10::ClassTypePtr type_;
};

}  // namespace

torch::jit::ResolverPtr gradModeResolver(const torch::jit::Module& module) {
  const auto source = std::make_shared<torch::jit::Source>(kSource, "chorus.py");
  const std::vector<c10::IValue> no_constants;
  torch::jit::SourceImporter importer(
      module._ivalue()->compilation_unit(), &no_constants,
      [&](const std::string& qualifier) {
        return qualifier == "__torch__.chorus" ? source : nullptr;
      },
      /*version=*/3);
  const auto type = importer.loadType("__torch__.chorus.GradMode")->expect<c10::ClassType>();
  return std::make_shared<GradModeResolver>(type);
}

}  // namespace chorus
