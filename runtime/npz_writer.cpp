#include "runtime/npz_writer.h"

#include <zip.h>

#include "chorus/diagnostics.h"
#include "chorus/member.h"

namespace chorus {
namespace {

std::string descriptor(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return "<f2";
    case at::kFloat:
      return "<f4";
    case at::kDouble:
      return "<f8";
    case at::kChar:
      return "|i1";
    case at::kShort:
      return "<i2";
    case at::kInt:
      return "<i4";
    case at::kLong:
      return "<i8";
    case at::kByte:
      return "|u1";
    case at::kBool:
      return "|b1";
    case at::kComplexFloat:
      return "<c8";
    case at::kComplexDouble:
      return "<c16";
    default:
      throw Refused(unsupported("writing an array of dtype " + dtypeName(dtype)));
  }
}

std::string header(const at::Tensor& array) {
  std::string shape;
  for (int64_t size : array.sizes()) shape += std::to_string(size) + ", ";
  if (array.dim() > 1) shape.resize(shape.size() - 2);
  if (array.dim() == 1) shape.pop_back();
  std::string text = "{'descr': '" + descriptor(array.scalar_type()) +
                     "', 'fortran_order': False, 'shape': (" + shape + "), }";
  // Magic, version and length take 10 bytes; data begin at a multiple of 64, after a newline.
  while ((10 + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  const auto length = static_cast<uint16_t>(text.size());
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(length & 0xff);
  bytes += static_cast<char>(length >> 8);
  return bytes + text;
}

[[noreturn]] void failed(const std::string& path, const std::string& reason) {
  throw Refused(error("cannot write: " + reason, Place{path}));
}

}  // namespace

std::string npyBytes(const at::Tensor& tensor) {
  at::Tensor array = tensor.detach().to(at::kCPU).contiguous();
  if (array.scalar_type() == at::kBFloat16) array = array.to(at::kFloat);
  std::string bytes = header(array);
  bytes.append(static_cast<const char*>(array.const_data_ptr()), array.nbytes());
  return bytes;
}

void writeNpz(const std::string& path,
              const std::vector<std::pair<std::string, at::Tensor>>& arrays) {
  int code = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (!archive) failed(path, "zip error " + std::to_string(code));
  std::vector<std::string> contents;  // zip_close reads them
  for (const auto& [name, tensor] : arrays) contents.push_back(npyBytes(tensor));
  for (size_t i = 0; i < arrays.size(); ++i) {
    zip_source_t* source = zip_source_buffer(archive, contents[i].data(), contents[i].size(), 0);
    const zip_int64_t index =
        source ? zip_file_add(archive, (arrays[i].first + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8)
               : -1;
    if (index < 0) {
      const std::string reason = zip_strerror(archive);
      zip_source_free(source);
      zip_discard(archive);
      failed(path, reason);
    }
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
    // A fixed time: the same command gives the same bytes.
    zip_file_set_mtime(archive, static_cast<zip_uint64_t>(index), 315532800, 0);
  }
  if (zip_close(archive) < 0) {
    const std::string reason = zip_strerror(archive);
    zip_discard(archive);
    failed(path, reason);
  }
}

}  // namespace chorus
