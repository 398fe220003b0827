// JSON that users write.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace chorus {

/// The value of `text`, discarded (is_discarded) where it is no JSON. JSON lets an object have a
/// key twice and the last one count, which hides a mistake: throws Refused (error) naming `file`,
/// the line and the key.
nlohmann::json parseJsonText(const std::string& file, const std::string& text);

}  // namespace chorus
