#include "lib/scan/pickle_scan.h"

#include <cstring>
#include <deque>
#include <limits>
#include <string_view>
#include <unordered_set>

#include "lib/scan/pickle_names.h"
#include "lib/scan/pickle_opcodes.h"
#include "lib/scan/refuse.h"

namespace chorus::scan {
namespace {

enum class Kind : uint8_t {
  Plain,
  Integer,
  String,
  Function,
  Class,
  Storage,
  Tuple,
  List,
  Dict,
  Object
};

// Tuples keep their elements in an arena; other containers only their depth.
struct Item {
  Kind kind = Kind::Plain;
  bool fetched = false;  // from the memo: must not be mutated
  uint32_t depth = 0;    // of a Tuple or a call's result; that of a container is found by its id
  uint32_t id = 0;       // of a List, Dict or Object
  uint32_t first = 0, count = 0;  // elements of a Tuple, in the arena
  int64_t integer = 0;
  std::string_view text;  // of a String; qualified name of a Function, Class or Storage
};

class Walker {
 public:
  Walker(const std::string& bytes, const PickleContext& context)
      : bytes_(bytes, [this] { return refuse("is truncated"); }), context_(context) {}

  void run() {
    if (bytes_.take<uint8_t>() != 0x80 || bytes_.take<uint8_t>() != 2)
      throw refuse("is not a pickle of protocol 2");
    while (pickleStep(bytes_, *this)) {
    }
    if (stack_.size() != 1 || !marks_.empty()) throw refuse("ends with values left over");
    if (!bytes_.atEnd()) throw refuse("has bytes behind its end");
    if (context_.debug) checkStringTable();
  }

  // What opcodes stand for (pickleStep).

  void mark() { marks_.push_back(stack_.size()); }
  void none() { push(Item{}); }
  void boolean(bool) { push(Item{}); }
  void number(double) { push(Item{}); }
  void integer(int64_t value) {
    Item item{Kind::Integer};
    item.integer = value;
    push(item);
  }
  void longInteger(std::string_view digits) {
    int64_t value = 0;
    if (digits.size() != sizeof value) throw refuse("holds a number of more than 64 bits");
    std::memcpy(&value, digits.data(), sizeof value);
    integer(value);
  }
  void text(std::string_view text) {
    Item item{Kind::String};
    item.text = text;
    push(item);
  }
  void list() { pushContainer(Kind::List); }
  void dict() { pushContainer(Kind::Dict); }
  void tuple() { pushTuple(popMark()); }
  void tupleOf(size_t count) {
    if (count > 0) top(count - 1);
    pushTuple(stack_.size() - count);
  }
  void append() { top(1), extend(Kind::List, stack_.size() - 1); }
  void appendAll() { extend(Kind::List, popMark()); }
  void setItem() { top(2), extend(Kind::Dict, stack_.size() - 2); }
  void setItems() { extend(Kind::Dict, popMark()); }
  void memoize(uint32_t slot) {
    if (slot > memo_.size()) throw refuse("numbers its values out of order");
    Item item = top();
    item.fetched = true;
    if (slot == memo_.size()) {
      memo_.push_back(item);
    } else {
      memo_[slot] = item;
    }
  }
  void fetch(uint32_t slot) {
    if (slot >= memo_.size()) throw refuse("refers to a value that is not there");
    const Item& item = memo_[slot];
    if (item.id != 0 && open_.contains(item.id))
      throw refuse("holds a container that contains itself");
    push(item);
  }

  void global(std::string_view module, std::string_view name) {
    const std::string& full = names_.emplace_back(std::string(module) + "." + std::string(name));
    Item item{Kind::Function};
    item.text = full;
    if (context_.debug && full != "torch.jit._pickle.build_intlist") {
      throw refuse("uses the Python name '" + full + "', which source positions do not need");
    }
    if (isPickleFunction(full)) return push(item);
    item.kind = storageElementBytes(full) ? Kind::Storage : Kind::Class;
    if (item.kind == Kind::Class && !context_.is_class(full)) {
      throw refuse("uses the Python name '" + full + "', which no model file needs");
    }
    push(item);
  }

  void newObject() {
    const Item arguments = pop();
    const Item type = pop();
    if (type.kind != Kind::Class || arguments.kind != Kind::Tuple || arguments.count != 0) {
      throw refuse("makes an object of something other than a class");
    }
    pushContainer(Kind::Object);
  }
  void build() {
    const Item state = pop();
    Item& object = top();
    if (object.kind != Kind::Object || object.fetched || state.kind != Kind::Dict) {
      throw refuse("fills an object with something other than its attributes");
    }
    depths_[object.id] = deeper(depths_[object.id], state);
  }

  void reduce() {
    const Item argument = pop();
    const Item callee = pop();
    if (callee.kind == Kind::Class) {  // a value of an enum
      if (argument.kind != Kind::Integer && argument.kind != Kind::String &&
          argument.kind != Kind::Plain) {
        throw refuse("calls the class '" + std::string(callee.text) + "'");
      }
      return push(Item{});
    }
    if (callee.kind != Kind::Function) throw refuse("calls a value that is not a function");
    if (argument.kind != Kind::Tuple)
      throw refuse("calls '" + std::string(callee.text) + "' in an unknown way");
    if (callee.text == "torch.jit._pickle.restore_type_tag") {
      if (argument.count != 2 || element(argument, 1).kind != Kind::String)
        throw refuse("has a type tag that is no text");
      const std::string type(element(argument, 1).text);
      if (checked_types_.insert(type).second) context_.check_type(type);
    }
    Item result;
    result.depth = argument.depth;
    push(result);
  }

  // ('storage', torch.FloatStorage, key, device, number of elements)
  void persistentId() {
    const Item id = pop();
    const bool shaped = id.kind == Kind::Tuple && id.count == 5 &&
                        element(id, 0).text == "storage" && element(id, 1).kind == Kind::Storage &&
                        element(id, 2).kind == Kind::String &&
                        element(id, 3).kind == Kind::String && element(id, 4).kind == Kind::Integer;
    if (!shaped || context_.debug) throw refuse("refers to a storage in an unknown way");
    const std::string key(element(id, 2).text);
    const int64_t count = element(id, 4).integer;
    const auto size = *storageElementBytes(element(id, 1).text);
    const std::optional<uint64_t> bytes = context_.storage_bytes(key);
    const bool dropped = context_.values_dropped && bytes && *bytes == 0;
    if (count < 0 || (count > 0 && !bytes) ||
        (count > 0 && !dropped && *bytes / size < static_cast<uint64_t>(count))) {
      throw refuse("claims a tensor of " + std::to_string(count) + " elements of " +
                   std::to_string(size) + " bytes, but its record '" + key + "' " +
                   (bytes ? "has " + std::to_string(*bytes) + " bytes" : "is missing"));
    }
    push(Item{});
  }
  [[noreturn]] void unknown(uint8_t opcode) const {
    throw refuse("uses the opcode " + std::to_string(opcode) + ", which no model file needs");
  }

 private:
  Refused refuse(const std::string& why) const {
    return refused(context_.path, "the pickle '" + context_.record + "' " + why);
  }

  Item& top(size_t below = 0) {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - floor <= below) throw refuse("takes a value from an empty stack");
    return stack_[stack_.size() - 1 - below];
  }
  Item pop() {
    Item item = top();
    stack_.pop_back();
    if (item.id != 0 && !item.fetched) open_.erase(item.id);
    return item;
  }
  size_t popMark() {
    if (marks_.empty()) throw refuse("closes a container that it never opened");
    const size_t start = marks_.back();
    marks_.pop_back();
    return start;
  }
  void push(Item item) { stack_.push_back(item); }
  void pushContainer(Kind kind) {
    Item item{kind};
    item.id = static_cast<uint32_t>(depths_.size());
    depths_.push_back(1);
    open_.insert(item.id);
    push(item);
  }
  uint32_t deeper(uint32_t depth, const Item& child) const {
    depth = std::max(depth, (child.id != 0 ? depths_[child.id] : child.depth) + 1);
    if (depth > context_.limits.max_nesting) {
      throw refuse("nests containers deeper than " + std::to_string(context_.limits.max_nesting));
    }
    return depth;
  }

  // Closes everything above `start` into a tuple.
  void pushTuple(size_t start) {
    Item tuple{Kind::Tuple};
    tuple.depth = 1;
    tuple.first = static_cast<uint32_t>(arena_.size());
    tuple.count = static_cast<uint32_t>(stack_.size() - start);
    for (size_t i = start; i < stack_.size(); ++i) {
      tuple.depth = deeper(tuple.depth, stack_[i]);
      arena_.push_back(stack_[i]);
    }
    while (stack_.size() > start) pop();
    push(tuple);
  }
  const Item& element(const Item& tuple, size_t i) const { return arena_[tuple.first + i]; }

  // Moves everything above `start` into the container below it.
  void extend(Kind kind, size_t start) {
    if (start == 0 || start > stack_.size()) throw refuse("fills a container that is not there");
    Item& into = stack_[start - 1];
    if (into.kind != kind || into.fetched)
      throw refuse("fills something other than the container it has just made");
    if (kind == Kind::Dict && (stack_.size() - start) % 2 != 0)
      throw refuse("gives a dictionary a key without value");
    for (size_t i = start; i < stack_.size(); ++i) {
      const Item& item = stack_[i];
      depths_[into.id] = deeper(depths_[into.id], item);
      if (kind == Kind::List && item.kind == Kind::Integer) {
        lowest_ = std::min(lowest_, item.integer);
        highest_ = std::max(highest_, item.integer);
      }
    }
    while (stack_.size() > start) pop();
  }

  // (format, strings, positions): positions name strings by index, unchecked by LibTorch.
  void checkStringTable() {
    const Item& root = stack_[0];
    if (lowest_ > highest_) return;
    const bool table =
        root.kind == Kind::Tuple && root.count == 3 && element(root, 1).kind == Kind::Tuple;
    if (!table || lowest_ < 0 || highest_ >= element(root, 1).count) {
      throw refuse("refers to a source text that is not there");
    }
  }

  PickleBytes bytes_;
  const PickleContext& context_;
  std::vector<Item> stack_, memo_, arena_;
  std::vector<size_t> marks_;
  std::vector<uint32_t> depths_{0};  // by id
  std::unordered_set<uint32_t> open_;
  std::unordered_set<std::string> checked_types_;
  std::deque<std::string> names_;  // Item::text points into it
  int64_t lowest_ = std::numeric_limits<int64_t>::max(),
          highest_ = std::numeric_limits<int64_t>::min();
};

}  // namespace

void scanPickle(const std::string& bytes, const PickleContext& context) {
  Walker(bytes, context).run();
}

}  // namespace chorus::scan
