// tools/common: one value or K, CSV, tables of hyperparameters.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "chorus/diagnostics.h"
#include "tools/common/csv.h"
#include "tools/common/hparams.h"
#include "tools/common/values.h"

namespace chorus {
namespace {

namespace fs = std::filesystem;

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

TEST(OneOrK, RepeatsOneAndKeepsK) {
  EXPECT_EQ(oneOrK("--lr", "1e-3", 3), (std::vector<double>{1e-3, 1e-3, 1e-3}));
  EXPECT_EQ(oneOrK("--lr", "1e-3, 0.1,+2,-inf", 4)[3], -HUGE_VAL);
  EXPECT_EQ(oneOrK("--lr", "1,2", 2), (std::vector<double>{1, 2}));
  EXPECT_EQ(oneOrKIntegers("--epochs", "3,-4", 2), (std::vector<int64_t>{3, -4}));
  EXPECT_EQ(oneOrKSeeds("--seeds", "18446744073709551615", 1), std::vector<uint64_t>{UINT64_MAX});
  EXPECT_EQ(oneOrKPairs("--betas", "0.9,0.999", 2),
            (std::vector<std::pair<double, double>>{{0.9, 0.999}, {0.9, 0.999}}));
  EXPECT_EQ(oneOrKPairs("--betas", "0.9,0.999;0.8,0.99", 2)[1],
            (std::pair<double, double>{0.8, 0.99}));
}

TEST(OneOrK, NamesBothCounts) {
  EXPECT_EQ(refusal([] { oneOrK("--lr", "1,2,3", 4); }),
            "error: --lr has 3 values for 4 members\n  note: give one value for all members, or "
            "one for each\n");
  EXPECT_EQ(refusal([] { oneOrKPairs("--betas", "1,2;3,4", 1); }),
            "error: --betas has 2 values for 1 member\n  note: give one value for all members, or "
            "one for each\n");
}

TEST(OneOrK, QuotesWhatIsNotANumber) {
  EXPECT_EQ(refusal([] { oneOrK("--lr", "1,,2", 3); }), "error: --lr: '' is not a number\n");
  EXPECT_EQ(refusal([] { oneOrK("--lr", "1e-3x", 3); }), "error: --lr: '1e-3x' is not a number\n");
  EXPECT_EQ(refusal([] { oneOrK("--lr", "nan", 3); }), "error: --lr: 'nan' is not a number\n");
  EXPECT_EQ(refusal([] { oneOrK("--lr", "1e999", 3); }), "error: --lr: '1e999' is out of range\n");
  EXPECT_EQ(refusal([] { oneOrKIntegers("--epochs", "1.5", 3); }),
            "error: --epochs: '1.5' is not an integer\n");
  EXPECT_EQ(refusal([] { oneOrKSeeds("--seeds", "-1", 1); }),
            "error: --seeds: '-1' is not an integer from 0 to 2^64-1\n");
  EXPECT_EQ(refusal([] { oneOrKPairs("--betas", "0.9", 1); }),
            "error: --betas: '0.9' is not a pair of numbers\n"
            "  note: a pair is written 0.9,0.999; pairs of several members are separated by ';'\n");
}

TEST(OneOrK, Assignments) {
  EXPECT_EQ(splitAssignment("--loss-arg", "weight=a=b.npy"),
            (std::pair<std::string, std::string>{"weight", "a=b.npy"}));
  EXPECT_EQ(refusal([] { splitAssignment("--loss-arg", "weight"); }, 2),
            "error: --loss-arg: 'weight' is not of the form NAME=VALUE\n");
}

TEST(Csv, QuotesBreaksAndLineNumbers) {
  const auto lines = parseCsv("f",
                              "\xEF\xBB\xBF"
                              "a,b\r\n\"x, \"\"y\"\"\nz\",\r\n\r\n1,2");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].cells, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(lines[1].cells, (std::vector<std::string>{"x, \"y\"\nz", ""}));
  EXPECT_EQ(lines[2].cells, (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(lines[2].number, 5u);
}

TEST(Csv, Mistakes) {
  EXPECT_EQ(refusal([] { parseCsv("f.csv", "a\n\"b"); }),
            "f.csv: error: line 2: a quote that does not end\n");
  EXPECT_EQ(refusal([] { parseCsv("f.csv", "\"a\"b"); }),
            "f.csv: error: line 1: text behind a closing quote\n");
}

class Hparams : public ::testing::Test {
 protected:
  Hparams() {
    std::string name = (fs::temp_directory_path() / "chorus-hparams-XXXXXX").string();
    folder = ::mkdtemp(name.data());
    file = (folder / "h").string();
  }
  ~Hparams() override { fs::remove_all(folder); }

  HparamsTable read(const std::string& text) {
    std::ofstream(file) << text;
    return readHparams(file, {"lr", "weight-decay", "betas", "nesterov", "lr-schedule", "epochs"},
                       {"a", "b"});
  }
  std::string refused(const std::string& text) {
    const std::string message = refusal([&] { read(text); });
    const std::string place = file + ": error: ";
    EXPECT_EQ(message.substr(0, place.size()), place);
    return message.substr(std::min(place.size(), message.size()));
  }

  fs::path folder;
  std::string file;
};

TEST_F(Hparams, CsvInOrder) {
  const HparamsTable table = read(
      "lr,weight_decay,betas,nesterov,lr-schedule\n1e-3,0,0.9;0.999,true,step:gamma=0.1\n2,,\"0.8,"
      "0.9\",0,\n");
  EXPECT_EQ(numbers(table, "lr"), (std::vector<double>{1e-3, 2}));
  EXPECT_EQ(numbers(table, "weight-decay", 0.5), (std::vector<double>{0, 0.5}));
  EXPECT_EQ(pairs(table, "betas")[1], (std::pair<double, double>{0.8, 0.9}));
  EXPECT_EQ(flags(table, "nesterov"), (std::vector<bool>{true, false}));
  EXPECT_EQ(texts(table, "lr-schedule"), (std::vector<std::string>{"step:gamma=0.1", ""}));
  EXPECT_FALSE(table.has("epochs"));
}

TEST_F(Hparams, CsvByMember) {
  EXPECT_EQ(numbers(read("member,lr\nb,2\na,1\n"), "lr"), (std::vector<double>{1, 2}));
}

TEST_F(Hparams, JsonRows) {
  const HparamsTable table =
      read(R"([{"lr": 0.1, "betas": [0.9, 0.99], "epochs": 3}, {"lr": 1, "nesterov": true}])");
  EXPECT_EQ(numbers(table, "lr"), (std::vector<double>{0.1, 1}));
  EXPECT_EQ(pairs(table, "betas", {{0.5, 0.6}})[1], (std::pair<double, double>{0.5, 0.6}));
  EXPECT_EQ(flags(table, "nesterov"), (std::vector<bool>{false, true}));
  EXPECT_EQ(integers(table, "epochs", 9), (std::vector<int64_t>{3, 9}));
}

TEST_F(Hparams, Mistakes) {
  EXPECT_EQ(refused("lr,weight_decy\n1,2\n1,2\n"),
            "unknown column 'weight_decy'; did you mean 'weight-decay'?\n");
  EXPECT_EQ(refused("lr,lr\n1,2\n1,2\n"), "column 'lr' is there twice\n");
  EXPECT_EQ(refused("lr\n1\n"), "has 1 row for 2 members\n");
  EXPECT_EQ(refused("lr,epochs\n1,2\n1\n"), "line 3 has 1 cells; the header has 2\n");
  EXPECT_EQ(refused("member,lr\na,1\nc,2\n"), "line 3: there is no member 'c'\n");
  EXPECT_EQ(refused("member,lr\na,1\na,2\n"), "line 3: member 'a' is there twice\n");
  EXPECT_EQ(refused(""), "is empty; a header with column names is needed\n");
  EXPECT_EQ(refused("{}"), "is not a JSON list of objects\n");
  EXPECT_EQ(refused("[1, 2]"), "row 0 is not a JSON object\n");
  EXPECT_EQ(refused(R"([{"lr": {}}, {}])"), "row 0, column 'lr': an object is not a value\n");
  EXPECT_EQ(refused(R"([{"weight_decay": 1, "weight-decay": 1}, {}])"),
            "row 0: column 'weight-decay' is there twice\n");
  EXPECT_EQ(refused(R"([{"member": "a"}, {"lr": 1}])"), "row 1 names no member\n");
  fs::remove(file);
  EXPECT_EQ(refusal([&] { readHparams(file, {}, {"a"}); }),
            file + ": error: cannot read the hyperparameters\n");
}

TEST_F(Hparams, CellsOfAnotherKind) {
  const HparamsTable table = read("lr,nesterov,epochs\n1,true,2.5\nfast,2,\n");
  EXPECT_EQ(refusal([&] { numbers(table, "lr"); }),
            file + ": error: line 3, column 'lr': \"fast\" is not a number\n");
  EXPECT_EQ(refusal([&] { flags(table, "nesterov"); }),
            file + ": error: line 3, column 'nesterov': 2 is not true or false\n");
  EXPECT_EQ(refusal([&] { integers(table, "epochs", 1); }),
            file + ": error: line 2, column 'epochs': 2.5 is not an integer\n");
  EXPECT_EQ(refusal([&] { pairs(table, "lr"); }),
            file + ": error: line 2, column 'lr': 1 is not a pair of numbers\n");
  const HparamsTable holes = read("lr,epochs\n1,2\n,2\n");
  EXPECT_EQ(refusal([&] { numbers(holes, "lr"); }),
            file + ": error: line 3, column 'lr': there is no value\n");
}

}  // namespace
}  // namespace chorus
