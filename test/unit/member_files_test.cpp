// tools/common: lists and names of members, what must not be overwritten, tables for people.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "chorus/diagnostics.h"
#include "tools/common/members.h"
#include "tools/common/terminal.h"

namespace chorus {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

template <class Body>
std::string refusal(Body body, int code = 1) {
  try {
    body();
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.exitCode(), code);
    return refused.what();
  }
  return "nothing was refused";
}

class MemberFiles : public ::testing::Test {
 protected:
  MemberFiles() {
    std::string name = (fs::temp_directory_path() / "chorus-members-XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  ~MemberFiles() override { fs::remove_all(folder); }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  }

  fs::path folder;
};

TEST_F(MemberFiles, ListsAreRelativeToTheirFolder) {
  const std::string list = write("list.txt",
                                 "\xEF\xBB\xBF"
                                 "a.pt\r\n# a comment\r\n\r\n  \nsub/b c.pt\r\n/abs/c.pt");
  EXPECT_EQ(expandLists({"x.pt", "@" + list, "y.pt"}),
            (Strings{"x.pt", (folder / "a.pt").string(), (folder / "sub/b c.pt").string(),
                     "/abs/c.pt", "y.pt"}));
}

TEST_F(MemberFiles, ListsThatCannotBeRead) {
  EXPECT_EQ(refusal([] { expandLists({"@none.txt"}); }),
            "none.txt: error: cannot read the list of members\n");
  EXPECT_EQ(refusal([&] { expandLists({"@" + folder.string()}); }),
            folder.string() + ": error: cannot read the list of members\n");
  const std::string list = write("empty.txt", "# nothing\n");
  EXPECT_EQ(refusal([&] { expandLists({"@" + list}); }),
            list + ": error: the list names no member\n");
}

TEST_F(MemberFiles, EqualNamesAreNumberedInOrder) {
  EXPECT_EQ(memberNames({"a/m.pt", "n.v2.pt", "b/m.pt", "m.onnx"}),
            (Strings{"m.0", "n.v2", "m.1", "m.2"}));
  EXPECT_EQ(memberNames({"m.pt", "m.0.pt", "x/m.pt"}), (Strings{"m.1", "m.0", "m.2"}));
}

TEST_F(MemberFiles, NamesThatAreNoFileNames) {
  EXPECT_EQ(refusal([] { memberNames({"a/-x.pt"}); }),
            "a/-x.pt: error: member name '-x' begins with '-'\n");
}

TEST_F(MemberFiles, AnInputIsNeverOverwritten) {
  const std::string a = write("a.pt", "");
  fs::create_hard_link(a, folder / "b.pt");
  fs::create_symlink("a.pt", folder / "c.pt");
  refuseOverwriting(folder / "new.pt", {a});
  refuseOverwriting(write("other.pt", ""), {a, "none.pt"});
  EXPECT_EQ(refusal(
                [&] {
                  refuseOverwriting(a, {"x", a});
                },
                2),
            "error: the output '" + a + "' is one of the inputs\n");
  for (const char* name : {"b.pt", "c.pt"}) {
    const std::string output = (folder / name).string();
    EXPECT_EQ(refusal([&] { refuseOverwriting(output, {a}); }, 2),
              "error: the output '" + output + "' is one of the inputs (it is the same file as '" +
                  a + "')\n");
  }
}

TEST_F(MemberFiles, WritableIsFoundOutBeforeTheWork) {
  requireWritable(folder / "new.pt");
  EXPECT_FALSE(fs::exists(folder / "new.pt"));
  EXPECT_TRUE(fs::is_empty(folder));
  const std::string output = (folder / "none" / "x.pt").string();
  EXPECT_EQ(refusal([&] { requireWritable(output); }),
            output + ": error: the folder '" + (folder / "none").string() + "' does not exist\n");
}

TEST(Terminal, NumbersStandRight) {
  EXPECT_EQ(format(Table{{"member", "loss", "acc"},
                         {{"a", "0.5", "97.5%"}, {"long\xC3\xA9", "12.25", "-"}}}),
            "member   loss    acc\n"
            "a         0.5  97.5%\n"
            "long\xC3\xA9   12.25      -\n");
}

TEST(Terminal, Numbers) {
  EXPECT_EQ(numberText(0.25), "0.25");
  EXPECT_EQ(numberText(1e-7), "1e-07");
  EXPECT_EQ(numberText(1234567, 3), "1.23e+06");
}

TEST(Terminal, TheBarIsForTerminalsOnly) {
  ::testing::internal::CaptureStderr();
  {
    ProgressBar bar("epoch 1/2", 10);
    bar.update(5);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace chorus
