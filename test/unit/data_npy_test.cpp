// NumPy files made by hand: every dtype and order, and headers that lie.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <zip.h>

#include <filesystem>
#include <fstream>

#include "chorus/data.h"
#include "runtime/data/npy.h"

namespace chorus {
namespace {

std::string npy(const std::string& header, const std::string& data, char version = 1) {
  std::string bytes = std::string("\x93NUMPY") + version + '\0';
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  if (version > 1) bytes += std::string(2, '\0');
  return bytes + header + data;
}

std::string header(const std::string& descr, const std::string& shape,
                   const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape +
         ", }     \n";
}

template <class T>
std::string bytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string write(const std::string& name, const std::string& bytes) {
  const std::string path = (std::filesystem::temp_directory_path() / name).string();
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

at::Tensor load(const std::string& bytes) {
  return loadArrays(write("chorus_data.npy", bytes)).at(0).values;
}

std::string problem(const std::string& path) {
  try {
    loadArrays(path);
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.exitCode(), 1);
    return refused.messages().at(0).text;
  }
  return "";
}
std::string problemOf(const std::string& bytes) { return problem(write("chorus_data.npy", bytes)); }

TEST(DataNpy, FortranOrderAndByteOrder) {
  // 2 x 3, counted along the rows; sizes differ, so a wrong order shows.
  const at::Tensor wanted = at::arange(6, at::kInt).view({2, 3});
  const at::Tensor plain = load(npy(header("<i4", "(2, 3)"), bytesOf<int32_t>({0, 1, 2, 3, 4, 5})));
  EXPECT_TRUE(plain.equal(wanted));
  const at::Tensor fortran =
      load(npy(header("<i4", "(2, 3)", "True"), bytesOf<int32_t>({0, 3, 1, 4, 2, 5})));
  EXPECT_TRUE(fortran.equal(wanted));
  EXPECT_TRUE(fortran.is_contiguous());
  const at::Tensor big =
      load(npy(header(">i4", "(2, 3)"),
               std::string("\0\0\0\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\5", 24)));
  EXPECT_TRUE(big.equal(wanted));
}

TEST(DataNpy, Dtypes) {
  EXPECT_EQ(load(npy(header("<f2", "(1,)"), bytesOf<uint16_t>({0x3c00}))).item<double>(), 1.0);
  EXPECT_EQ(load(npy(header("<f8", "()"), bytesOf<double>({2.5}))).item<double>(), 2.5);
  EXPECT_EQ(load(npy(header("|i1", "(1,)"), "\xff")).item<int64_t>(), -1);
  EXPECT_EQ(load(npy(header("|u1", "(1,)"), "\xff")).item<int64_t>(), 255);
  EXPECT_EQ(load(npy(header("|b1", "(2,)"), std::string("\0\1", 2))).scalar_type(), at::kBool);
  const at::Tensor complex =
      load(npy(header(">c8", "(1,)"), std::string("\x3f\x80\0\0\x40\0\0\0", 8)));
  EXPECT_EQ(complex.scalar_type(), at::kComplexFloat);
  EXPECT_EQ(at::real(complex).item<double>(), 1.0);
  EXPECT_EQ(at::imag(complex).item<double>(), 2.0);
}

TEST(DataNpy, UnsignedNumbersAreWidenedWithoutLoss) {
  const at::Tensor u2 = load(npy(header("<u2", "(2,)"), bytesOf<uint16_t>({1, 65535})));
  EXPECT_EQ(u2.scalar_type(), at::kInt);
  EXPECT_EQ(u2[1].item<int64_t>(), 65535);
  const at::Tensor u4 = load(npy(header("<u4", "(2,)"), bytesOf<uint32_t>({1, 4294967295u})));
  EXPECT_EQ(u4[1].item<int64_t>(), 4294967295);
  EXPECT_EQ(load(npy(header("<u8", "(1,)"), bytesOf<uint64_t>({1ull << 62}))).item<int64_t>(),
            1ll << 62);
  EXPECT_EQ(problemOf(npy(header("<u8", "(1,)"), bytesOf<uint64_t>({1ull << 63}))),
            "array 'chorus_data' has dtype u8 and values that do not fit into i64");
}

TEST(DataNpy, RefusedDtypes) {
  EXPECT_EQ(problemOf(npy(header("|O", "(1,)"), "x")),
            "array 'chorus_data' has dtype object: its elements are a pickle, which could run any "
            "code; save it as numbers");
  EXPECT_NE(problemOf(npy(header("<U3", "(1,)"), std::string(12, '\0'))).find("which is text"),
            std::string::npos);
  EXPECT_NE(problemOf(npy(header("<M8[ns]", "(1,)"), std::string(8, '\0'))).find("'<M8[ns]'"),
            std::string::npos);
  EXPECT_NE(problemOf(npy(header("<f16", "(1,)"), std::string(16, '\0'))).find("'<f16'"),
            std::string::npos);
  EXPECT_NE(
      problemOf(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }\n", "xxxx"))
          .find("structured"),
      std::string::npos);
  EXPECT_NE(problemOf(npy(header("|b1", "(1,)"), "\2")).find("bytes other than 0 and 1"),
            std::string::npos);
}

TEST(DataNpy, HeadersThatLie) {
  EXPECT_EQ(problemOf(npy(header("<f4", "(3, 4)"), std::string(40, 'x'))),
            "array 'chorus_data' is truncated: its shape [3,4] takes 48 bytes, the file has 40");
  EXPECT_EQ(
      problemOf(npy(header("<f4", "(2,)"), std::string(12, 'x'))),
      "array 'chorus_data' has bytes left over: its shape [2] takes 8 bytes, the file has 12");
  EXPECT_NE(problemOf(npy(header("<f4", "(100000000000000,)"), "xxxx")).find("is truncated"),
            std::string::npos);
  EXPECT_NE(
      problemOf(npy(header("<f8", "(9999999999, 9999999999)"), "xxxx")).find("no machine can hold"),
      std::string::npos);
  EXPECT_EQ(problemOf(npy(header("<f4", "(0, 3)"), "")),
            "array 'chorus_data' is empty: its shape is [0,3]");
  EXPECT_NE(problemOf(npy(header("<f4", "(-1,)"), "xxxx")).find("ill-formed"), std::string::npos);
  EXPECT_NE(problemOf(npy("{'descr': __import__('os'), 'fortran_order': False, 'shape': (1,), }\n",
                          "xxxx"))
                .find("ill-formed"),
            std::string::npos);
  EXPECT_NE(problemOf(npy("{'descr': '<f4', 'shape': (1,), }\n", "xxxx")).find("ill-formed"),
            std::string::npos);
  EXPECT_NE(problemOf(npy(header("<f4", "(1,)") + "evil", "xxxx")).find("ill-formed"),
            std::string::npos);
  EXPECT_NE(problemOf(npy(header("<f4", "(1,)"), "xxxx", 9)).find("unknown .npy format 9"),
            std::string::npos);
  EXPECT_NE(problemOf(npy(header("<f4", "(1,)"), "xxxx").substr(0, 11)).find("header is missing"),
            std::string::npos);
  EXPECT_NE(problemOf(npy(header("<f4", "(1,)"), "xxxx").substr(0, 40)).find("header is cut"),
            std::string::npos);
}

std::string npz(const std::vector<std::pair<std::string, std::string>>& entries, bool compress) {
  const std::string path = (std::filesystem::temp_directory_path() / "chorus_data.npz").string();
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  for (const auto& [name, bytes] : entries) {
    zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
    const zip_int64_t index = zip_file_add(archive, name.c_str(), source, 0);
    zip_set_file_compression(archive, index, compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
  }
  zip_close(archive);
  return path;
}

TEST(DataNpz, NamesAndFileOrder) {
  const std::string one = npy(header("<f4", "(2,)"), bytesOf<float>({1, 2}));
  const std::string zeros = npy(header("<f8", "(1000000,)"), std::string(8'000'000, '\0'));
  for (const bool compress : {false, true}) {
    const std::vector<NamedArray> arrays =
        loadArrays(npz({{"y.npy", one}, {"x.npy", zeros}}, compress));
    ASSERT_EQ(arrays.size(), 2);
    EXPECT_EQ(arrays[0].name, "y");
    EXPECT_EQ(arrays[1].name, "x");
    EXPECT_EQ(arrays[0].values[1].item<float>(), 2);
    EXPECT_EQ(arrays[1].values.numel(), 1000000);
  }
  EXPECT_EQ(readArrays(npz({{"y.npy", one}}, true)).count("y"), 1);
}

TEST(DataNpz, ErrorsNameTheArray) {
  const std::string good = npy(header("<f4", "(1,)"), bytesOf<float>({1}));
  EXPECT_NE(problem(npz({{"x.npy", good}, {"y.npy", npy(header("|O", "(1,)"), "x")}}, false))
                .find("array 'y' has dtype object"),
            std::string::npos);
  EXPECT_NE(problem(npz({{"x.npy", good.substr(0, good.size() - 1)}}, true))
                .find("array 'x' is truncated"),
            std::string::npos);
  EXPECT_NE(problem(npz({{"x.npy", good}, {"evil.pkl", "x"}}, false))
                .find("'evil.pkl', which is no array"),
            std::string::npos);
  EXPECT_NE(problem(write("chorus_data.bin", std::string("\1\2\0\3", 4))).find("not a data file"),
            std::string::npos);
  EXPECT_EQ(problem("no/such.npz"), "there is no such file");
}

}  // namespace
}  // namespace chorus
