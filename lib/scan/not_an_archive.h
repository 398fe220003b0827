// Telling what a file is that is not a TorchScript archive.
#pragma once

#include <string>

#include "lib/scan/zip_archive.h"

namespace chorus::scan {

/// The first 64 KiB of a file. Throws Refused if it is missing, a folder, not a regular file,
/// unreadable or empty.
std::string headOfFile(const std::string& path);

/// Returns if the file begins like a zip; else throws Refused saying what it is: missing, a folder,
/// empty, a pickle, a data file, text, ...
void refuseOtherFiles(const std::string& path);

/// Returns if the zip holds TorchScript code; else throws Refused saying what it is: a state dict,
/// a pickled module, .npz, ...
void refuseOtherArchives(const std::string& path, const ZipArchive& archive);

}  // namespace chorus::scan
