// lib/support: messages, safe names, files that appear whole or not at all.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "chorus/diagnostics.h"
#include "lib/support/atomic_file.h"
#include "lib/support/names.h"

namespace chorus {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// The text of what `body` throws.
template <class Body>
std::string refusal(Body body) {
  try {
    body();
  } catch (const Refused& refused) {
    return refused.what();
  }
  return "nothing was refused";
}

class AtomicFile : public ::testing::Test {
 protected:
  AtomicFile() {
    std::string name = (fs::temp_directory_path() / "chorus-atomic-XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  ~AtomicFile() override { fs::remove_all(folder); }

  size_t entries() const {
    return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  }
  void write(const std::string& path, const std::string& text) {
    writeAtomically(path, [&](std::ostream& out) { out << text; });
  }

  fs::path folder;
};

TEST_F(AtomicFile, ReplacesTheTarget) {
  write(folder / "a", "one");
  write(folder / "a", "two");
  EXPECT_EQ(read(folder / "a"), "two");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFile, KeepsTheOldFileAndNoTemporaryWhenWritingThrows) {
  write(folder / "a", "old");
  EXPECT_THROW(writeAtomically(folder / "a",
                               [](std::ostream& out) {
                                 out << "half";
                                 throw std::runtime_error("stop");
                               }),
               std::runtime_error);
  EXPECT_EQ(read(folder / "a"), "old");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFile, KeepsTheModeOfAnExistingFile) {
  write(folder / "a", "old");
  fs::permissions(folder / "a", fs::perms(0640));
  write(folder / "a", "new");
  EXPECT_EQ(fs::status(folder / "a").permissions(), fs::perms(0640));
}

TEST_F(AtomicFile, NewFilesObeyTheMaskOfTheProcess) {
  const mode_t before = ::umask(027);
  write(folder / "a", "new");
  ::umask(before);
  EXPECT_EQ(fs::status(folder / "a").permissions(), fs::perms(0640));
}

TEST_F(AtomicFile, FollowsASymbolicLink) {
  write(folder / "a", "old");
  fs::create_symlink("a", folder / "link");
  write(folder / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read(folder / "a"), "new");
}

TEST_F(AtomicFile, RefusesWhatCannotBeReplaced) {
  const std::string place = folder.string();
  EXPECT_EQ(refusal([&] { write(place + "/none/a", ""); }),
            place + "/none/a: error: the folder '" + place + "/none' does not exist\n");
  EXPECT_EQ(refusal([&] { write(place, ""); }),
            place + ": error: is a folder; a file name is needed\n");
  EXPECT_EQ(refusal([&] { write("/dev/null", ""); }),
            "/dev/null: error: is not a regular file, so it cannot be replaced\n");
  write(folder / "a", "");
  EXPECT_EQ(refusal([&] { write(place + "/a/b", ""); }),
            place + "/a/b: error: '" + place + "/a' is not a folder\n");
}

TEST_F(AtomicFile, AGroupAppearsTogetherOrNotAtAll) {
  {
    PendingFiles files;
    std::ofstream(files.stage(folder / "a")) << "a";
    std::ofstream(files.stage(folder / "b")) << "b";
    EXPECT_FALSE(fs::exists(folder / "a"));
  }
  EXPECT_EQ(entries(), 0u);
  PendingFiles files;
  std::ofstream(files.stage(folder / "a")) << "a";
  std::ofstream(files.stage(folder / "b")) << "b";
  files.commit();
  EXPECT_EQ(read(folder / "a") + read(folder / "b"), "ab");
  EXPECT_EQ(entries(), 2u);
}

TEST_F(AtomicFile, AGroupWhoseLastFileFailsLeavesNothing) {
  PendingFiles files;
  files.stage(folder / "a");
  files.stage(folder / "b");
  fs::create_directories(folder / "b" / "in the way");
  EXPECT_THROW(files.commit(), Refused);
  EXPECT_FALSE(fs::exists(folder / "a"));
}

TEST_F(AtomicFile, ASignalRemovesTheTemporaryFile) {
  const pid_t child = ::fork();
  if (child == 0) {
    removeTemporaryFilesOnSignal();
    PendingFiles files;
    files.stage(folder / "a");
    ::raise(SIGTERM);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_EQ(entries(), 0u);
}

TEST(Names, AcceptsOneSafePathComponent) {
  for (const char* name : {"a", "model_3", "net.v2", "..a", "a b", "\xC3\xA9", "a-b"})
    EXPECT_EQ(nameProblem(name), "");
  EXPECT_EQ(nameProblem(std::string(200, 'x')), "");
}

TEST(Names, SaysWhatIsWrong) {
  EXPECT_EQ(nameProblem(""), "is empty");
  EXPECT_EQ(nameProblem(".."), "is a folder");
  EXPECT_EQ(nameProblem("."), "is a folder");
  EXPECT_EQ(nameProblem("a/b"), "contains '/'");
  EXPECT_EQ(nameProblem("a\nb"), "contains a control character");
  EXPECT_EQ(nameProblem(std::string("a\0b", 3)), "contains a control character");
  EXPECT_EQ(nameProblem("-rf"), "begins with '-'");
  EXPECT_EQ(nameProblem(std::string(201, 'x')), "has 201 bytes; at most 200 are allowed");
}

TEST(Names, QuotesHostileNames) {
  EXPECT_EQ(refusal([] { requireSafeName("member name", "a\n\x1b[2J"); }),
            "error: member name 'a\\x0a\\x1b[2J' contains a control character\n");
}

TEST(Diagnostics, PrintsTheFormOfTheContract) {
  Place place;
  place.file = "model_3.pt";
  place.source = "net.py:41";
  place.source_line = "x = self.conv2(x)";
  Message message = error("member 3 differs from the other 7", place);
  message.condition = "C4";
  message.note("in the others, e.g. member 0: net.py:41").helpWith("--group trains member 3 apart");
  EXPECT_EQ(format(message),
            "model_3.pt: net.py:41: error: member 3 differs from the other 7 [C4]\n"
            "    41 |  x = self.conv2(x)\n"
            "  note: in the others, e.g. member 0: net.py:41\n"
            "  help: --group trains member 3 apart\n");
}

TEST(Diagnostics, ExitCodeIsTheMostSevere) {
  EXPECT_EQ(Refused(error("")).exitCode(), 1);
  EXPECT_EQ(Refused(usage("")).exitCode(), 2);
  EXPECT_EQ(Refused({error(""), unsupported("")}).exitCode(), 3);
  EXPECT_EQ(Refused(internalError("")).exitCode(), 70);
}

TEST(Diagnostics, NearestNameOrNone) {
  EXPECT_EQ(nearest("--epoch", {"--data", "--epochs", "--eps"}), "--epochs");
  EXPECT_EQ(nearest("quux", {"adam", "sgd"}), "");
  EXPECT_EQ(nearest("wd", {"lr", "eps", "weight-decay"}), "weight-decay");
  EXPECT_EQ(nearest("learning_rate", {"eps", "lr", "lr-decay"}), "lr");
  EXPECT_EQ(nearest("Weight_Decay", {"lr-decay", "weight-decay"}), "weight-decay");
  EXPECT_EQ(nearest("xy", {"lr", "eps"}), "");
  EXPECT_EQ(nearest("", {"lr"}), "");
}

}  // namespace
}  // namespace chorus
