// tools/common: the rules that all command lines share, --config, and the frame of the mains.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tools/common/command_line.h"
#include "tools/common/config_file.h"
#include "tools/common/run_tool.h"

namespace chorus {
namespace {

namespace fs = std::filesystem;

// A tool with one option of each kind.
struct Sample {
  CommandLine cli{"chorus-sample", "Does nothing.", "chorus-sample a.pt -o b.pt"};
  std::vector<std::string> members, inputs;
  std::string output, lr, mode = "follow";
  int epochs = 1, verify = 0;
  bool nesterov = false;

  Sample() {
    cli.app.add_option("MEMBER", members, "files")->required();
    cli.app.add_option("-o,--output", output, "file to write")->required();
    cli.app.add_option("--input", inputs, "input");
    cli.app.add_option("--lr", lr, "rate");
    cli.app.add_option("--epochs", epochs, "epochs");
    cli.app.add_option("--mode", mode, "mode")->check(oneOf({"follow", "as-traced"}));
    cli.app.add_flag("--verify{1}", verify, "steps");
    cli.app.add_flag("--nesterov", nesterov, "flag");
  }
};

// Standard output of `body`.
template <class Body>
std::string printed(Body body) {
  ::testing::internal::CaptureStdout();
  body();
  return ::testing::internal::GetCapturedStdout();
}

std::string refusal(const std::vector<std::string>& arguments, int code = 2) {
  Sample sample;
  try {
    sample.cli.parse(arguments);
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.exitCode(), code);
    return refused.what();
  }
  return "nothing was refused";
}

TEST(CommandLine, ReadsEveryKindOfOption) {
  Sample s;
  ASSERT_TRUE(
      s.cli.parse({"a.pt", "--input", "f32[N,3]", "b.pt", "--input", "i64[N]", "--lr", "1e-3,1e-4",
                   "--verify=3", "--nesterov", "-o", "out.pt", "c.pt", "--json"}));
  EXPECT_EQ(s.members, (std::vector<std::string>{"a.pt", "b.pt", "c.pt"}));
  EXPECT_EQ(s.inputs, (std::vector<std::string>{"f32[N,3]", "i64[N]"}));
  EXPECT_EQ(s.lr, "1e-3,1e-4");
  EXPECT_EQ(s.verify, 3);
  EXPECT_TRUE(s.nesterov);
  EXPECT_EQ(s.output, "out.pt");
  EXPECT_TRUE(s.cli.json);
}

TEST(CommandLine, AnOptionalValueNeverTakesTheNextArgument) {
  Sample s;
  ASSERT_TRUE(s.cli.parse({"-o", "out.pt", "--verify", "a.pt"}));
  EXPECT_EQ(s.verify, 1);
  EXPECT_EQ(s.members, std::vector<std::string>{"a.pt"});
}

TEST(CommandLine, NegativeNumbersAndListsAreValues) {
  Sample s;
  ASSERT_TRUE(s.cli.parse({"a.pt", "-o", "b", "--lr", "-1,-2"}));
  EXPECT_EQ(s.lr, "-1,-2");
}

TEST(CommandLine, UnknownOptionGetsTheNearest) {
  EXPECT_EQ(refusal({"--epoch", "3", "a.pt", "-o", "b"}),
            "error: unknown option '--epoch'; did you mean '--epochs'?\n");
  EXPECT_EQ(refusal({"--zzzzzz"}),
            "error: unknown option '--zzzzzz'\n  help: chorus-sample --help lists the options\n");
  EXPECT_EQ(refusal({"--epoch=3"}), "error: unknown option '--epoch'; did you mean '--epochs'?\n");
  EXPECT_EQ(refusal({"a.pt", "-x"}),
            "error: unknown option '-x'\n  help: chorus-sample --help lists the options\n");
}

TEST(CommandLine, GivenTwiceIsAMistake) {
  EXPECT_EQ(refusal({"a", "-o", "b", "--lr", "1", "--lr=2"}),
            "error: option '--lr' is given twice\n");
  EXPECT_EQ(refusal({"a", "-o", "b", "--output=c"}), "error: option '--output' is given twice\n");
  EXPECT_EQ(refusal({"a", "-o", "b", "--nesterov", "--nesterov"}),
            "error: option '--nesterov' is given twice\n");
}

TEST(CommandLine, MissingAndBadValues) {
  EXPECT_EQ(
      refusal({"-o", "b"}),
      "error: missing argument 'MEMBER'\n  help: chorus-sample --help shows how it is called\n");
  EXPECT_EQ(
      refusal({"a"}),
      "error: missing option '--output'\n  help: chorus-sample --help shows how it is called\n");
  EXPECT_EQ(refusal({"a", "-o"}), "error: option '--output' needs a value\n");
  EXPECT_EQ(refusal({"a", "-o", "b", "--epochs", "many"}),
            "error: 'many' is not a valid value of '--epochs'\n");
  EXPECT_EQ(refusal({"a", "-o", "b", "--mode", "folow"}),
            "error: --mode: 'folow' is not one of follow, as-traced; did you mean 'follow'?\n");
}

TEST(CommandLine, HelpAndVersionAnswer) {
  Sample s;
  const std::string help = printed([&] { EXPECT_FALSE(s.cli.parse({"--help"})); });
  EXPECT_NE(help.find("Examples:\n  chorus-sample a.pt -o b.pt\n"), std::string::npos) << help;
  EXPECT_NE(help.find("--log-level"), std::string::npos);
  Sample t;
  EXPECT_EQ(printed([&] { EXPECT_FALSE(t.cli.parse({"--version"})); }),
            "chorus-sample " + versionText() + "\n");
}

class ConfigFile : public ::testing::Test {
 protected:
  ConfigFile() {
    std::string name = (fs::temp_directory_path() / "chorus-config-XXXXXX").string();
    folder = ::mkdtemp(name.data());
    file = (folder / "run.json").string();
  }
  ~ConfigFile() override { fs::remove_all(folder); }
  void write(const std::string& text) { std::ofstream(file) << text; }

  fs::path folder;
  std::string file;
};

TEST_F(ConfigFile, GivesEveryKindOfOption) {
  write(
      R"({"member": ["a.pt", "b.pt"], "output": "out.pt", "lr": [0.001, 1e-4], "input": ["f32[N,3]", "i64[N]"],
            "nesterov": true, "verify": 2, "epochs": 7, "mode": null})");
  Sample s;
  ASSERT_TRUE(s.cli.parse({"--config", file}));
  EXPECT_EQ(s.members, (std::vector<std::string>{"a.pt", "b.pt"}));
  EXPECT_EQ(s.output, "out.pt");
  EXPECT_EQ(s.lr, "0.001,0.0001");
  EXPECT_EQ(s.inputs, (std::vector<std::string>{"f32[N,3]", "i64[N]"}));
  EXPECT_TRUE(s.nesterov);
  EXPECT_EQ(s.verify, 2);
  EXPECT_EQ(s.epochs, 7);
  EXPECT_EQ(s.mode, "follow");
}

TEST_F(ConfigFile, TheCommandLineWins) {
  write(R"({"member": ["a.pt"], "output": "out.pt", "epochs": 7})");
  Sample s;
  ASSERT_TRUE(s.cli.parse({"--config", file, "--epochs", "3", "c.pt"}));
  EXPECT_EQ(s.epochs, 3);
  EXPECT_EQ(s.members, std::vector<std::string>{"c.pt"});
}

TEST_F(ConfigFile, PrintedConfigReadsBack) {
  Sample s;
  const std::string text = printed([&] {
    EXPECT_FALSE(
        s.cli.parse({"a.pt", "b.pt", "-o", "out.pt", "--lr", "1e-3,1e-4", "--nesterov",
                     "--verify=2", "--epochs", "3", "--input", "f32[N,3]", "--print-config"}));
  });
  EXPECT_EQ(nlohmann::json::parse(text),
            nlohmann::json::parse(R"({"member": ["a.pt", "b.pt"], "output": "out.pt",
      "lr": "1e-3,1e-4", "nesterov": true, "verify": 2, "epochs": 3, "input": ["f32[N,3]"]})"));
  write(text);
  Sample t;
  ASSERT_TRUE(t.cli.parse({"--config", file}));
  EXPECT_EQ(givenOptions(t.cli.app), givenOptions(s.cli.app));
}

TEST_F(ConfigFile, Mistakes) {
  write(R"({"epoch": 3})");
  EXPECT_EQ(
      refusal({"--config", file}),
      "error: --config: '" + file + "' names an unknown option 'epoch'; did you mean 'epochs'?\n");
  write("[1]");
  EXPECT_EQ(refusal({"--config", file}),
            "error: --config: '" + file + "' does not hold a JSON object\n");
  write(R"({"lr": {"a": 1}})");
  EXPECT_EQ(refusal({"--config", file}),
            "error: --config: '" + file + "': 'lr' is an object; a value or a list is needed\n");
  EXPECT_EQ(refusal({"--config", file + ".none"}),
            "error: --config: cannot read '" + file + ".none'\n");
}

class RunTool : public ConfigFile {
 protected:
  RunTool() : before_(fs::current_path()) { fs::current_path(folder); }
  ~RunTool() override { fs::current_path(before_); }

  // Runs a tool with the argument "it's"; returns the exit code and keeps standard error.
  int run(const std::function<int(const std::vector<std::string>&)>& body) {
    std::string program = "sample", argument = "it's";
    char* argv[] = {program.data(), argument.data(), nullptr};
    ::testing::internal::CaptureStderr();
    const int code = runTool("chorus-sample", 2, argv, body);
    stderr_ = ::testing::internal::GetCapturedStderr();
    return code;
  }

  fs::path before_;
  std::string stderr_;
};

TEST_F(RunTool, PassesArgumentsAndTheCode) {
  EXPECT_EQ(run([](const std::vector<std::string>& arguments) {
              return arguments == std::vector<std::string>{"it's"} ? 7 : 8;
            }),
            7);
  EXPECT_EQ(stderr_, "");
}

TEST_F(RunTool, PrintsRefusals) {
  EXPECT_EQ(run([](const auto&) -> int {
              throw Refused({unsupported("first"), error("second")});
            }),
            3);
  EXPECT_EQ(stderr_, "unsupported: first\nerror: second\n");
  EXPECT_FALSE(fs::exists("chorus-reproducer-chorus-sample.txt"));
}

TEST_F(RunTool, AnyOtherExceptionIsABugWithAReproducer) {
  EXPECT_EQ(run([](const auto&) -> int { TORCH_CHECK(false, "stray"); }), 70);
  EXPECT_EQ(stderr_,
            "internal error: stray\n  note: this is a bug of chorus, not of your input\n"
            "  help: please report it with the file chorus-reproducer-chorus-sample.txt, which "
            "says how to repeat it\n");
  std::ifstream in("chorus-reproducer-chorus-sample.txt");
  std::ostringstream text;
  text << in.rdbuf();
  EXPECT_NE(text.str().find("\nchorus-sample 'it'\\''s'\n"), std::string::npos) << text.str();
}

TEST_F(RunTool, NoMemoryIsNotABug) {
  EXPECT_EQ(run([](const auto&) -> int { throw std::bad_alloc(); }), 1);
  EXPECT_EQ(stderr_, "error: not enough memory\n  help: fewer members at a time need less\n");
}

}  // namespace
}  // namespace chorus
