// One extra record of a TorchScript archive, read without loading the archive.
#pragma once

#include <optional>
#include <string>

namespace chorus {

/// The bytes of "extra/NAME"; nullopt where there is no such record or the file is no archive.
std::optional<std::string> extraRecord(const std::string& path, const std::string& name);

}  // namespace chorus
