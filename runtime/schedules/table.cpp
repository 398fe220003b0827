#include <cmath>
#include <fstream>

#include "chorus/diagnostics.h"
#include "chorus/schedule.h"

namespace chorus::schedules {
namespace {

std::vector<double> readRates(const ScheduleArguments& a, const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Refused(error("cannot read the file", Place{path}));
  std::vector<double> rates;
  std::string word;
  while (file >> word) {
    char* end = nullptr;
    rates.push_back(std::strtod(word.c_str(), &end));
    if (*end || !std::isfinite(rates.back()) || rates.back() < 0) {
      throw Refused(error("'" + word + "' is not a rate", Place{path}));
    }
  }
  if (rates.empty()) a.refuse("the file has no numbers");
  return rates;
}

}  // namespace

ScheduleDefinition table() {
  return {"table",
          "the numbers of a text file, one per count; then the last one",
          {"file"},
          [](const ScheduleArguments& a) {
            Schedule s;
            s.file = a.text("file");
            const std::vector<double> rates = readRates(a, s.file);
            s.rate = [=](double, int64_t t) {
              return rates[std::min(static_cast<size_t>(t), rates.size() - 1)];
            };
            return s;
          }};
}

}  // namespace chorus::schedules
