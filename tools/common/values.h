// "One value or K": comma-separated values of an option, in the order of the members.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace chorus {

/// `text` as one value or K of them, always returned as K. `option` is for messages, e.g. "--lr".
/// Throws Refused: another count is an error naming both counts (exit 1); text that is not a finite
/// number, or not an integer, is an error that quotes it (exit 1: a bad hyperparameter).
std::vector<double> oneOrK(const std::string& option, const std::string& text, size_t k);
std::vector<int64_t> oneOrKIntegers(const std::string& option, const std::string& text, size_t k);
std::vector<uint64_t> oneOrKSeeds(const std::string& option, const std::string& text, size_t k);
/// Pairs: "0.9,0.999", or K of them separated by ';'.
std::vector<std::pair<double, double>> oneOrKPairs(const std::string& option,
                                                   const std::string& text, size_t k);
/// Any text between `separator`s.
std::vector<std::string> oneOrKTexts(const std::string& option, const std::string& text, size_t k,
                                     char separator = ',');

/// "NAME=VALUE" -> {NAME, VALUE}. Throws Refused (usage) without '='.
std::pair<std::string, std::string> splitAssignment(const std::string& option,
                                                    const std::string& text);

/// A finite number, or one of "inf", "-inf"; throws Refused (error) with `what` in front.
double parseNumber(const std::string& what, const std::string& text);

std::vector<std::string> splitText(const std::string& text,
                                   char separator);  ///< "a,,b" -> {"a", "", "b"}
std::string trimmed(const std::string& text);        ///< without blanks at both ends

}  // namespace chorus
