#include "lib/scan/saved_value.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <map>
#include <string_view>

#include "lib/scan/not_an_archive.h"
#include "lib/scan/pickle_opcodes.h"
#include "lib/scan/refuse.h"
#include "lib/scan/saved_tensor.h"
#include "lib/scan/zip_archive.h"
#include "lib/support/names.h"

namespace chorus {

bool SavedValue::isNumber() const {
  return is(Kind::Bool) || is(Kind::Integer) || is(Kind::Number) ||
         (is(Kind::Tensor) && tensor.numel() == 1 && !tensor.is_complex());
}

double SavedValue::toNumber() const {
  if (is(Kind::Tensor)) return tensor.item<double>();
  return is(Kind::Number) ? number : static_cast<double>(integer);
}

SavedPtr SavedValue::find(const std::string& key) const {
  for (const auto& [name, value] : entries) {
    if (name->is(Kind::Text) && name->text == key) return value;
  }
  return nullptr;
}

namespace {

using Kind = SavedValue::Kind;
using scan::pickleStep;
using scan::Record;
using scan::refused;
using scan::ZipArchive;

/// A value while the pickle is read.
struct Node : SavedValue {
  size_t depth = 1;     ///< of the containers in it, itself included
  bool placed = false;  ///< it is in a container, and changes no more
};

/// On the stack: a value, or what a call is made of.
struct Item {
  std::shared_ptr<Node> value;
  std::string global;  ///< "torch.FloatStorage", "collections.OrderedDict", ...
  at::Tensor storage;  ///< [n]: all elements
};

class Reader {
 public:
  Reader(const std::string& path, const ScanLimits& limits)
      : path_(path), limits_(limits), archive_(path, limits) {
    for (const Record& record : archive_.records()) {
      const std::string name = record.name.substr(record.name.find('/') + 1);
      if (record.name.find('/') != std::string::npos) records_[name] = &record;
    }
    if (!records_.contains("data.pkl")) throw refuse("is none of torch.save: it has no pickle");
    if (const auto order = records_.find("byteorder"); order != records_.end()) {
      if (archive_.read(*order->second) != "little") throw refuse("is not little-endian");
    }
    text_ = archive_.read(*records_.at("data.pkl"));
    bytes_.emplace(text_, [this] { return damaged(); });
  }

  SavedPtr run() {
    if (bytes_->take<uint8_t>() != 0x80 || bytes_->take<uint8_t>() != 2) {
      throw refuse("is not of torch.save's default pickle protocol, which is 2");
    }
    while (pickleStep(*bytes_, *this)) {
    }
    if (stack_.size() != 1 || !marks_.empty() || !bytes_->atEnd()) throw damaged();
    return valueOf(stack_.back());
  }

  // What opcodes stand for (pickleStep).

  void mark() { marks_.push_back(stack_.size()); }
  void none() { pushValue(Kind::None); }
  void boolean(bool value) { pushValue(Kind::Bool)->integer = value; }
  void integer(int64_t value) { pushValue(Kind::Integer)->integer = value; }
  void longInteger(std::string_view digits) {
    if (digits.size() > 8) throw refuse("holds an integer of more than 64 bits");
    uint64_t value = !digits.empty() && (digits.back() & 0x80) ? ~uint64_t{0} : 0;
    std::memcpy(&value, digits.data(), digits.size());
    integer(static_cast<int64_t>(value));
  }
  void number(double value) { pushValue(Kind::Number)->number = value; }
  void text(std::string_view text) { pushValue(Kind::Text)->text = text; }
  void list() { pushValue(Kind::List); }
  void dict() { pushValue(Kind::Dict); }
  void tuple() { pushTuple(popToMark()); }
  void tupleOf(size_t count) { pushTuple(popItems(count)); }
  void append() { appendItems(popItems(1)); }
  void appendAll() { appendItems(popToMark()); }
  void setItem() { insert(popItems(2)); }
  void setItems() { insert(popToMark()); }
  void memoize(uint32_t index) {
    if (index > kMaxValues) throw damaged();
    memo_[index] = top();
  }
  void fetch(uint32_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) throw damaged();
    push(found->second);
  }
  void global(std::string_view module, std::string_view member) {
    const std::string name = std::string(module) + "." + std::string(member);
    const bool known = name == "collections.OrderedDict" || scan::storageDtype(name) ||
                       name == "torch._utils._rebuild_tensor_v2" ||
                       name == "torch._utils._rebuild_parameter";
    if (!known) {
      throw Refused(error("the file holds '" + printable(name) + "', not only plain data",
                          Place{path_, "", "", ""})
                        .helpWith("torch.save(optimizer.state_dict(), \"optimizer.pt\")"));
    }
    push({nullptr, name, {}});
  }

  void reduce() {
    const Item arguments = pop(), function = pop();
    if (function.global == "collections.OrderedDict") {
      if (!argumentsOf(arguments).empty()) throw damaged();
      pushValue(Kind::Dict);
    } else if (function.global == "torch._utils._rebuild_tensor_v2") {
      rebuild(argumentsOf(arguments));
    } else if (function.global == "torch._utils._rebuild_parameter") {
      const std::vector<Item> all = argumentsOf(arguments);
      if (all.empty() || !all[0].value || !all[0].value->is(Kind::Tensor)) throw damaged();
      push(all[0]);
    } else {
      throw damaged();
    }
  }

  /// ("storage", torch.FloatStorage, key, device, elements)
  void persistentId() {
    const std::vector<Item> all = argumentsOf(pop());
    const bool good = all.size() == 5 && all[0].value && all[0].value->text == "storage" &&
                      scan::storageDtype(all[1].global) && all[2].value &&
                      all[2].value->is(Kind::Text) && all[4].value &&
                      all[4].value->is(Kind::Integer);
    if (!good) throw damaged();
    const std::string& key = all[2].value->text;
    const at::ScalarType dtype = *scan::storageDtype(all[1].global);
    const auto found = records_.find("data/" + key);
    const int64_t elements = all[4].value->integer;
    if (found == records_.end()) throw damaged();
    const uint64_t size = found->second->size, width = c10::elementSize(dtype);
    if (elements < 0 || size % width != 0 || size / width != static_cast<uint64_t>(elements)) {
      throw damaged();
    }
    auto [known, fresh] = storages_.try_emplace(key);
    if (fresh) {
      known->second = at::empty({elements}, at::TensorOptions(dtype));
      scan::RecordStream stream = archive_.open(*found->second);
      stream.read(known->second.data_ptr(), size);
      stream.finish();
    }
    if (known->second.scalar_type() != dtype) throw damaged();
    push({nullptr, "a storage", known->second});
  }
  /// The attributes of an OrderedDict, e.g. its _metadata.
  void build() {
    pop();
    if (!top().value || !top().value->is(Kind::Dict)) throw damaged();
  }
  [[noreturn]] void newObject() const { unknown(0); }
  [[noreturn]] void unknown(uint8_t) const {
    throw refuse("uses an operation of pickles that plain data does not need");
  }

 private:
  Refused refuse(const std::string& why) const { return refused(path_, "the file " + why); }
  Refused damaged() const { return refuse("is damaged: its pickle does not add up"); }

  void push(Item item) {
    if (++values_ > kMaxValues) throw refuse("holds too many values");
    stack_.push_back(std::move(item));
  }
  std::shared_ptr<Node> pushValue(Kind kind) {
    auto value = std::make_shared<Node>();
    value->kind = kind;
    push({value, "", {}});
    return value;
  }
  Item pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) throw damaged();
    Item item = std::move(stack_.back());
    stack_.pop_back();
    return item;
  }
  Item& top() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) throw damaged();
    return stack_.back();
  }
  /// What lies above the last mark, in order.
  std::vector<Item> popToMark() {
    if (marks_.empty()) throw damaged();
    std::vector<Item> items(
        std::make_move_iterator(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back())),
        std::make_move_iterator(stack_.end()));
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  SavedPtr valueOf(const Item& item) const {
    if (!item.value) throw refuse("uses '" + item.global + "' as a value");
    return item.value;
  }
  /// `item` as a part of `container`. What is in a container can no longer change, so no value
  /// holds itself, and depths are those of the finished values: readers and destructors recurse.
  SavedPtr placed(const Item& item, Node& container) const {
    const SavedPtr value = valueOf(item);
    item.value->placed = true;
    if (container.placed) throw refuse("holds a container that holds itself");
    container.depth = std::max(container.depth, item.value->depth + 1);
    if (container.depth > limits_.max_nesting) {
      throw refuse("nests containers deeper than " + std::to_string(limits_.max_nesting));
    }
    return value;
  }
  void pushTuple(const std::vector<Item>& items) {
    // Arguments of a call stay on the stack as they are: they may be storages.
    auto value = pushValue(Kind::Tuple);
    bool plain = true;
    for (const Item& item : items) {
      plain = plain && item.value;
      value->items.push_back(item.value ? placed(item, *value) : std::make_shared<Node>());
    }
    parts_.erase(value.get());  // of an earlier tuple at this address
    if (!plain) parts_[value.get()] = items;
  }
  std::vector<Item> argumentsOf(const Item& tuple) const {
    if (!tuple.value || !tuple.value->is(Kind::Tuple)) throw damaged();
    if (const auto found = parts_.find(tuple.value.get()); found != parts_.end()) {
      return found->second;
    }
    std::vector<Item> items;
    for (const SavedPtr& item : tuple.value->items) {
      items.push_back(
          {std::static_pointer_cast<Node>(std::const_pointer_cast<SavedValue>(item)), "", {}});
    }
    return items;
  }

  void appendItems(const std::vector<Item>& items) {
    Item& list = top();
    if (!list.value || !list.value->is(Kind::List)) throw damaged();
    for (const Item& item : items) list.value->items.push_back(placed(item, *list.value));
  }
  void insert(const std::vector<Item>& items) {
    Item& dict = top();
    if (!dict.value || !dict.value->is(Kind::Dict) || items.size() % 2 != 0) throw damaged();
    for (size_t i = 0; i < items.size(); i += 2) {
      const SavedPtr key = placed(items[i], *dict.value);
      if (!key->is(Kind::Text) && !key->is(Kind::Integer) && !key->is(Kind::Number)) {
        throw refuse("has a dict whose keys are neither texts nor numbers");
      }
      dict.value->entries.emplace_back(key, placed(items[i + 1], *dict.value));
    }
  }

  std::vector<int64_t> integersOf(const Item& tuple) const {
    if (!tuple.value || !tuple.value->is(Kind::Tuple)) throw damaged();
    std::vector<int64_t> numbers;
    for (const SavedPtr& item : tuple.value->items) {
      if (!item || !item->is(Kind::Integer)) throw damaged();
      numbers.push_back(item->integer);
    }
    return numbers;
  }

  /// (storage, offset, sizes, strides, requires_grad, hooks[, metadata])
  void rebuild(const std::vector<Item>& all) {
    if (all.size() < 4 || !all[0].storage.defined() || !all[1].value ||
        !all[1].value->is(Kind::Integer)) {
      throw damaged();
    }
    auto value = pushValue(Kind::Tensor);
    value->tensor = scan::savedTensor(all[0].storage, all[1].value->integer, integersOf(all[2]),
                                      integersOf(all[3]));
    if (!value->tensor.defined()) throw damaged();
  }

  std::vector<Item> popItems(size_t count) {
    std::vector<Item> items(count);
    for (size_t i = count; i > 0; --i) items[i - 1] = pop();
    return items;
  }

  static constexpr size_t kMaxValues = 20'000'000;
  std::string path_, text_;
  ScanLimits limits_;
  ZipArchive archive_;
  std::map<std::string, const Record*> records_;
  std::optional<scan::PickleBytes> bytes_;  ///< of `text_`
  std::vector<Item> stack_;
  std::vector<size_t> marks_;
  std::map<uint32_t, Item> memo_;
  std::map<const SavedValue*, std::vector<Item>> parts_;
  std::map<std::string, at::Tensor> storages_;
  size_t values_ = 0;
};

}  // namespace

SavedPtr readSaved(const std::string& path, const ScanLimits& limits) {
  const std::string head = scan::headOfFile(path);
  if (!head.starts_with("PK\x03\x04")) {
    throw Refused(error("the file is not one of torch.save", Place{path, "", "", ""})
                      .helpWith("torch.save(optimizer.state_dict(), \"optimizer.pt\")"));
  }
  return Reader(path, limits).run();
}

}  // namespace chorus
