// The opcodes of a pickle of protocol 2, as far as torch.save and Module::save write them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>

#include "chorus/diagnostics.h"

namespace chorus::scan {

/// The bytes of a pickle, read in order. Throws what `truncated` makes where there are too few.
class PickleBytes {
 public:
  PickleBytes(std::string_view bytes, std::function<Refused()> truncated)
      : rest_(bytes), truncated_(std::move(truncated)) {}

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, text(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view text(size_t count) {
    if (rest_.size() < count) throw truncated_();
    const std::string_view text = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return text;
  }
  /// Up to the next line feed, which is left out.
  std::string_view line() {
    const size_t end = rest_.find('\n');
    if (end == std::string_view::npos || end > 4096) throw truncated_();
    const std::string_view line = text(end);
    rest_.remove_prefix(1);
    return line;
  }
  double bigEndianNumber() {
    char bytes[sizeof(double)];
    std::memcpy(bytes, text(sizeof bytes).data(), sizeof bytes);
    std::reverse(std::begin(bytes), std::end(bytes));
    double value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  bool atEnd() const { return rest_.empty(); }

 private:
  std::string_view rest_;
  std::function<Refused()> truncated_;
};

/// Calls the member of `machine` that the next opcode stands for; false at the end. `mark`,
/// `tuple()`, `append*` and `setItem*` work on the machine's stack as Python's pickletools says.
template <class Machine>
bool pickleStep(PickleBytes& bytes, Machine& machine) {
  const auto opcode = bytes.take<uint8_t>();
  switch (opcode) {
    case '.':
      return false;
    case '(':
      machine.mark();
      break;
    case ')':
      machine.tupleOf(0);
      break;
    case ']':
      machine.list();
      break;
    case '}':
      machine.dict();
      break;
    case 'N':
      machine.none();
      break;
    case 0x88:
    case 0x89:
      machine.boolean(opcode == 0x88);
      break;
    case 'G':
      machine.number(bytes.bigEndianNumber());
      break;
    case 'K':
      machine.integer(bytes.take<uint8_t>());
      break;
    case 'M':
      machine.integer(bytes.take<uint16_t>());
      break;
    case 'J':
      machine.integer(bytes.take<int32_t>());
      break;
    case 0x8a:  // little-endian, of any length
      machine.longInteger(bytes.text(bytes.take<uint8_t>()));
      break;
    case 'X':
      machine.text(bytes.text(bytes.take<uint32_t>()));
      break;
    case 't':
      machine.tuple();
      break;
    case 0x85:
    case 0x86:
    case 0x87:
      machine.tupleOf(opcode - size_t{0x84});
      break;
    case 'a':
      machine.append();
      break;
    case 'e':
      machine.appendAll();
      break;
    case 's':
      machine.setItem();
      break;
    case 'u':
      machine.setItems();
      break;
    case 'q':
      machine.memoize(bytes.take<uint8_t>());
      break;
    case 'r':
      machine.memoize(bytes.take<uint32_t>());
      break;
    case 'h':
      machine.fetch(bytes.take<uint8_t>());
      break;
    case 'j':
      machine.fetch(bytes.take<uint32_t>());
      break;
    case 'c': {
      const std::string_view module = bytes.line();
      machine.global(module, bytes.line());
      break;
    }
    case 'R':
      machine.reduce();
      break;
    case 'Q':
      machine.persistentId();
      break;
    case 'b':
      machine.build();
      break;
    case 0x81:
      machine.newObject();
      break;
    default:
      machine.unknown(opcode);
  }
  return true;
}

}  // namespace chorus::scan
