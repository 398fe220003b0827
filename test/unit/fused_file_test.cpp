// Writing a fused file and reading it again; what leaves it as members.
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/import.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/export/fused_json.h"
#include "test/unit/hand_made.h"

namespace chorus {
namespace {

using namespace test;
using torch::jit::Module;
namespace fs = std::filesystem;

struct FusedFile : testing::Test {
  fs::path folder = fs::temp_directory_path() / ("chorus_fused_" + std::to_string(getpid()));
  FusedFile() { fs::create_directories(folder); }
  ~FusedFile() override { fs::remove_all(folder); }
  std::string file(const std::string& name) const { return (folder / name).string(); }
};

std::string bytesOf(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

FusedModel trained() {
  FusedModel model = linearModel("cross_entropy", "adam", {{"lr", {0.1, 0.01, 0.3}}});
  model.loss->arguments["label_smoothing"] = {"0.1", "0", "0.25"};
  model.loss->tensors["weight"] = at::tensor({1.0F, 2.0F, 0.5F});
  model.info = {{"note", "kept"}};
  Module module = buildModule(model);
  module.get_method("train_step")({batch(0), labels(0)});
  return model;
}

void expectEqualModels(const FusedModel& a, const FusedModel& b) {
  EXPECT_EQ(a.member_names, b.member_names);
  EXPECT_EQ(a.member_seeds, b.member_seeds);
  EXPECT_EQ(a.stacked, b.stacked);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) EXPECT_TRUE(at::equal(a.tensors[i], b.tensors[i]));
  ASSERT_EQ(a.state.size(), b.state.size());
  for (const auto& [name, tensor] : a.state)
    EXPECT_TRUE(at::equal(tensor, b.state.at(name))) << name;
  EXPECT_TRUE(at::equal(a.step, b.step));
  EXPECT_EQ(a.optimizer->values, b.optimizer->values);
  EXPECT_EQ(a.prototype.train.updates, b.prototype.train.updates);
  EXPECT_EQ(a.prototype.inputs[0].sizes, b.prototype.inputs[0].sizes);
  EXPECT_EQ(a.info, b.info);
}

TEST_F(FusedFile, ReadsWhatItWrote) {
  const FusedModel model = trained();
  writeFused(model, file("a.pt"));
  EXPECT_TRUE(isFusedFile(file("a.pt")));
  const FusedModel back = readFused(file("a.pt"));
  expectEqualModels(model, back);
  Module again = buildModule(back), first = buildModule(model);
  const at::Tensor a = first.get_method("train_step")({batch(1), labels(1)}).toTensor();
  const at::Tensor b = again.get_method("train_step")({batch(1), labels(1)}).toTensor();
  EXPECT_TRUE(at::equal(a, b));
  EXPECT_TRUE(at::equal(stateOf(first).at("fc.weight"), stateOf(again).at("fc.weight")));
}

TEST_F(FusedFile, TheSameModelGivesTheSameBytes) {
  const FusedModel model = trained();
  writeFused(model, file("a.pt"));
  writeFused(model, file("b.pt"));
  EXPECT_EQ(bytesOf(file("a.pt")), bytesOf(file("b.pt")));
  writeFused(readFused(file("a.pt")), file("c.pt"));
  EXPECT_EQ(fusedJson(readFused(file("c.pt"))), fusedJson(model));
}

TEST_F(FusedFile, SurvivesASaveThatDropsExtraFiles) {
  const FusedModel model = trained();
  writeFused(model, file("a.pt"));
  Module module = torch::jit::load(file("a.pt"));
  module.attr("chorus").toModule().attr("lr").toTensor()[1].fill_(0.75);
  module.save(file("b.pt"));
  EXPECT_TRUE(isFusedFile(file("b.pt")));
  FusedModel changed = model;
  changed.optimizer->values["lr"][1] = 0.75;
  expectEqualModels(changed, readFused(file("b.pt")));
}

TEST_F(FusedFile, RefusesANewerFormat) {
  nlohmann::json json = fusedJson(trained());
  json["format"] = kFusedFormat + 1;
  const std::string message = messageOf([&] { readFusedJson(json.dump(), "new.pt"); });
  EXPECT_NE(message.find("the fused file has format 2, and this chorus reads up to 1"),
            std::string::npos)
      << message;
  EXPECT_NE(messageOf([&] { readFusedJson("{", "cut.pt"); }).find("damaged"), std::string::npos);
}

TEST_F(FusedFile, RefusesWhatIsNotAFusedFile) {
  std::ofstream(file("text.pt")) << "no archive";
  EXPECT_FALSE(isFusedFile(file("text.pt")));
  EXPECT_FALSE(isFusedFile(file("missing.pt")));
  EXPECT_THROW(readFused(file("text.pt")), Refused);
  memberModule(trained(), 0).save(file("member.pt"));
  EXPECT_FALSE(isFusedFile(file("member.pt")));
  EXPECT_THROW(readFused(file("member.pt")), Refused);
}

TEST_F(FusedFile, RefusesTensorsThatDoNotFitTheNames) {
  writeFused(trained(), file("a.pt"));
  Module module = torch::jit::load(file("a.pt"));
  Module fc = module.attr("fc").toModule();
  fc.setattr("weight", fc.attr("weight").toTensor().detach().slice(0, 0, 2).clone());
  module.save(file("cut.pt"));
  const std::string message = messageOf([&] { readFused(file("cut.pt")); });
  EXPECT_NE(message.find("'fc.weight' is not stacked for 3 members"), std::string::npos) << message;
}

TEST(FusedMembers, SelectAndAppendRestoreTheWhole) {
  const FusedModel model = trained();
  const FusedModel parts = appendMembers(selectMembers(model, {0}), selectMembers(model, {1, 2}));
  expectEqualModels(model, parts);
  EXPECT_EQ(parts.loss->arguments.at("label_smoothing"),
            model.loss->arguments.at("label_smoothing"));
  EXPECT_EQ(selectMembers(model, {2, 1}).optimizer->values.at("lr"),
            (std::vector<double>{0.3, 0.01}));
  EXPECT_THROW(selectMembers(model, {1, 1}), Refused);
  EXPECT_THROW(selectMembers(model, {3}), Refused);
  EXPECT_THROW(appendMembers(model, linearModel("mse", "adam")), Refused);
}

TEST(FusedMembers, AMemberIsAnOrdinaryModule) {
  const FusedModel model = trained();
  for (size_t k = 0; k < 3; ++k) {
    const auto row = static_cast<int64_t>(k);
    Module member = memberModule(model, k);
    const auto state = stateOf(member);
    EXPECT_EQ(state.size(), 3);
    EXPECT_TRUE(at::equal(state.at("fc.weight"), model.tensors[0][row]));
    EXPECT_TRUE(member.attr("fc").toModule().attr("weight").toTensor().requires_grad());
    member.eval();
    const at::Tensor y = member.forward({batch(0)}).toTensor();
    EXPECT_TRUE(at::equal(y, at::linear(batch(0), model.tensors[0][row], model.tensors[1][row])));
    EXPECT_TRUE(at::equal(stateOf(member).at("seen"), model.tensors[2][row]));
    member.train();
    member.forward({batch(0)});
    EXPECT_TRUE(at::allclose(stateOf(member).at("seen"), 0.9 * model.tensors[2][row] + y.mean(0)));
  }
}

TEST(FusedMembers, TiesAndConstants) {
  Member member = linearMember(0);
  member.slots[0].aliases = {"head.weight"};
  member.slots[2].role = Role::Constant;
  member.slots[2].name = "constant.0";
  member.train = canonical(kEvalText, 1, 1, {});
  FusedModel model = stackMembers({member, member});
  Module module = buildModule(model);
  const auto state = stateOf(module);
  EXPECT_TRUE(state.count("head.weight") && state.count("chorus.constant_0"));
  EXPECT_EQ(state.at("chorus.constant_0").sizes(), at::IntArrayRef({3}));
  Module one = memberModule(model, 1);
  EXPECT_EQ(stateOf(one).size(), 3);
  EXPECT_TRUE(one.attr("head").toModule().attr("weight").toTensor().is_same(
      one.attr("fc").toModule().attr("weight").toTensor()));
}

TEST(FusedMembers, TheOutputTreeIsRebuilt) {
  const std::string text = R"(
graph(%x : Float(*, 3), %w : Float(3, 3), %b : Float(3), %seen : Float(3)):
  %y : Float(*, 3) = aten::linear(%x, %w, %b)
  %z : Float(*, 3) = aten::relu(%y)
  return (%y, %z, %x))";
  Member member = linearMember(0);
  member.train = member.eval = canonical(text, 1, 3, {});
  using Kind = OutputTree::Kind;
  const OutputTree leaf;
  member.output = {Kind::Tuple, {leaf, {Kind::Dict, {leaf, leaf}, {"a", "b"}}}, {}};
  const auto result = buildModule(stackMembers({member, member})).forward({batch(0)}).toTuple();
  const auto dict = result->elements()[1].toGenericDict();
  EXPECT_TRUE(at::equal(dict.at("a").toTensor(), result->elements()[0].toTensor().relu()));
  EXPECT_TRUE(at::equal(dict.at("b").toTensor()[1], batch(0)));
}

}  // namespace
}  // namespace chorus
