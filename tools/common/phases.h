// How long the phases of a run took.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace chorus {

/// Phases in the order in which they first ran; one that runs again adds to its time.
class Phases {
 public:
  /// What `work` returns; its time counts for `name`.
  template <typename Work>
  auto time(const std::string& name, const Work& work) {
    const Stopwatch watch{*this, name};
    return work();
  }

  void add(const std::string& name, double seconds) {
    for (auto& [known, value] : seconds_) {
      if (known == name) {
        value += seconds;
        return;
      }
    }
    seconds_.emplace_back(name, seconds);
  }
  void add(const Phases& others) {
    for (const auto& [name, seconds] : others.seconds_) add(name, seconds);
  }

  /// {"name": seconds, ...}
  nlohmann::ordered_json json() const {
    nlohmann::ordered_json seconds = nlohmann::ordered_json::object();
    for (const auto& [name, value] : seconds_) seconds[name] = value;
    return seconds;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Stopwatch {
    Phases& phases;
    std::string name;
    Clock::time_point begin = Clock::now();
    ~Stopwatch() { phases.add(name, std::chrono::duration<double>(Clock::now() - begin).count()); }
  };

  std::vector<std::pair<std::string, double>> seconds_;
};

}  // namespace chorus
