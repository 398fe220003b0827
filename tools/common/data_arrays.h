// Arrays of one data file, or of several.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

namespace chorus {

/// The arrays of `paths`: one file, or several between commas. Several files of one array each
/// stand for `keys` in order, so that "images.npy,labels.npy" are x and y. `option` is for
/// messages.
std::map<std::string, at::Tensor> readDataFiles(const std::string& option, const std::string& paths,
                                                const std::vector<std::string>& keys);

/// The names that arrays have where --keys says nothing, of a model of one input: x, y; or x,
/// targets and what else the loss takes.
std::vector<std::string> defaultKeys(bool with_target, const std::vector<std::string>& more);

}  // namespace chorus
