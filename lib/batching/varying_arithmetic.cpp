#include "lib/batching/varying_emit.h"

namespace chorus {
namespace {

using Values = std::vector<Value*>;

std::optional<at::ScalarType> dtypeOf(const Value* value) {
  return value->type()->expectRef<c10::TensorType>().scalarType();
}

bool isTensor(const Value* value) { return value->type()->kind() == c10::TypeKind::TensorType; }

/// The op on (x, second operand), the latter times alpha where there is one.
Values addition(VaryingEmitter& e) {
  const std::string op = e.node()->kind().toQualString();
  Value* x = e.wide(0);
  Value* other = isTensor(e.input("other")) ? e.wide(1) : e.numberTensor("other", x);
  if (op == "aten::rsub") std::swap(x, other);  // other - alpha x
  if (!e.has("alpha")) return {e.narrow(e.emit(op, {x, other}, e.result(), dtypeOf(x)))};
  Value* scaled = e.emit("aten::mul", {other, e.number("alpha", other)}, other);
  return {
      e.narrow(e.emit(op == "aten::add" ? op : "aten::sub", {x, scaled}, e.result(), dtypeOf(x)))};
}

/// op(x, number), with what follows as it is.
Values withNumber(VaryingEmitter& e) {
  Value* x = e.wide(0);
  std::vector<torch::jit::NamedValue> keywords;
  if (e.has("rounding_mode")) keywords.emplace_back("rounding_mode", e.input("rounding_mode"));
  return {e.narrow(e.emit(e.node()->kind().toQualString(), {x, e.number("other", x)}, e.result(),
                          dtypeOf(x), keywords))};
}

/// A comparison: a fractional number with an integer tensor is compared in f32, a whole one with
/// a bool in i64; beside a half it is rounded to a half.
Values comparison(VaryingEmitter& e) {
  Value* x = e.input(0);
  Value* number = e.raw("other");
  const bool fractional = dtypeOf(number) == at::kDouble;
  const auto dtype = dtypeOf(x);
  if (!dtype) e.refuse("the dtype of an operand is not known");
  if (fractional && !at::isFloatingType(*dtype)) {
    x = e.emit("aten::to", {x, static_cast<int64_t>(at::kFloat)}, x, at::kFloat);
  } else if (dtype == at::kBool) {
    x = e.emit("aten::to", {x, static_cast<int64_t>(at::kLong)}, x, at::kLong);
  }
  return {e.emit(e.node()->kind().toQualString(), {x, e.number("other", x)}, e.result())};
}

Values power(VaryingEmitter& e) {
  if (e.varies("exponent")) {
    Value* x = e.wide(0);
    return {e.narrow(e.emit("aten::pow", {x, e.number("exponent", x)}, e.result(), dtypeOf(x)))};
  }
  Value* exponent = e.wide(1);
  Value* base = e.number("self", exponent);
  return {e.narrow(e.emit("aten::pow", {base, exponent}, e.result(), dtypeOf(exponent)))};
}

Values lerp(VaryingEmitter& e) {
  Value* x = e.wide(0);
  return {e.narrow(
      e.emit("aten::lerp", {x, e.wide(1), e.number("weight", x)}, e.result(), dtypeOf(x)))};
}

/// self + value t1 t2, or self + value t1 / t2
Values accumulate(VaryingEmitter& e, const std::string& op) {
  Value* self = e.wide(0);
  Value* product = e.emit(op, {e.wide(1), e.wide(2)}, e.result(), dtypeOf(self));
  product = e.emit("aten::mul", {product, e.number("value", self)}, product);
  return {e.narrow(e.emit("aten::add", {self, product}, e.result(), dtypeOf(self)))};
}
Values addcmul(VaryingEmitter& e) { return accumulate(e, "aten::mul"); }
Values addcdiv(VaryingEmitter& e) { return accumulate(e, "aten::div"); }

/// beta self + alpha (m1 m2); beta = 0 leaves out self, even where it is not a number.
Values matrixSum(VaryingEmitter& e, const std::string& product_op) {
  Value* self = e.input(0);
  Value* product = e.emit(product_op, {e.input(1), e.input(2)}, e.result());
  product = e.emit("aten::mul", {product, e.number("alpha", product)}, product);
  Value* beta = e.numberTensor("beta", self);
  Value* counts = e.emit("aten::ne", {beta, 0}, beta, at::kBool);
  Value* kept =
      e.emit("aten::where", {counts, self, e.emit("aten::zeros_like", {self}, self)}, self);
  kept = e.emit("aten::mul", {kept, beta}, kept);
  return {e.emit("aten::add", {kept, product}, e.result())};
}
Values addmm(VaryingEmitter& e) { return matrixSum(e, "aten::mm"); }
Values baddbmm(VaryingEmitter& e) { return matrixSum(e, "aten::bmm"); }

Values maskedFill(VaryingEmitter& e) {
  Value* x = e.input(0);
  return {e.emit("aten::where", {e.input(1), e.number("value", x), x}, e.result())};
}

/// A number in the dtype of the node's result, 0-d.
Value* asResult(VaryingEmitter& e, const std::string& argument) {
  if (!e.varies(argument)) return e.input(argument);
  const auto dtype = dtypeOf(e.result());
  if (!dtype) e.refuse("the dtype of its result is not known");
  Value* number = e.raw(argument);
  return e.emit("aten::to", {number, static_cast<int64_t>(*dtype)}, number, dtype);
}

Values where(VaryingEmitter& e) {
  return {
      e.emit("aten::where", {e.input(0), asResult(e, "self"), asResult(e, "other")}, e.result())};
}

// What does not vary is replaced by the op itself.
Values nanToNum(VaryingEmitter& e) {
  Value* x = e.input(0);
  std::vector<Value*> inputs = e.inputs();
  for (const char* name : {"nan", "posinf", "neginf"}) {
    if (e.varies(name)) inputs[e.indexOf(name)] = e.literal(0.0);
  }
  Value* y = e.again(inputs)->output();
  for (const auto& [name, test] : {std::pair{"nan", "isnan"}, std::pair{"posinf", "isposinf"},
                                   std::pair{"neginf", "isneginf"}}) {
    if (!e.varies(name)) continue;
    Value* here = e.emit(std::string("aten::") + test, {x}, x, at::kBool);
    y = e.emit("aten::where", {here, e.number(name, x), y}, e.result());
  }
  return {y};
}

// where(pad(1, 0) > 0, pad(x, 0), value)
Values pad(VaryingEmitter& e) {
  Value* x = e.input(0);
  Value* sizes = e.input("pad");
  if (e.has("mode") && !e.isText("mode", "constant")) e.refuse("its mode is not 'constant'");
  Value* inside =
      e.emit("aten::constant_pad_nd", {e.emit("aten::ones_like", {x}, x), sizes, 0}, e.result());
  inside = e.emit("aten::gt", {inside, 0}, e.result(), at::kBool);
  Value* padded = e.emit("aten::constant_pad_nd", {x, sizes, 0}, e.result());
  return {e.emit("aten::where", {inside, padded, e.number("value", x)}, e.result())};
}

// The op with zero of the same kind, and the number for every zero: added to it, -0.0 were 0.0.
Values fill(VaryingEmitter& e) {
  std::vector<Value*> inputs = e.inputs();
  const bool fractional = dtypeOf(e.raw("fill_value")) == at::kDouble;
  inputs[e.indexOf("fill_value")] = fractional ? e.literal(0.0) : e.literal(0);
  Value* zeros = e.again(inputs)->output();
  Value* everywhere = e.emit("aten::eq", {zeros, 0}, zeros, at::kBool);
  return {e.emit("aten::where", {everywhere, e.number("fill_value", zeros), zeros}, e.result())};
}

}  // namespace

VaryingForms varyingArithmetic() {
  VaryingForms forms = {{"aten::add", addition},
                        {"aten::sub", addition},
                        {"aten::rsub", addition},
                        {"aten::mul", withNumber},
                        {"aten::div", withNumber},
                        {"aten::floor_divide", withNumber},
                        {"aten::remainder", withNumber},
                        {"aten::fmod", withNumber},
                        {"aten::pow", power},
                        {"aten::lerp", lerp},
                        {"aten::addcmul", addcmul},
                        {"aten::addcdiv", addcdiv},
                        {"aten::addmm", addmm},
                        {"aten::baddbmm", baddbmm},
                        {"aten::masked_fill", maskedFill},
                        {"aten::constant_pad_nd", pad},
                        {"aten::pad", pad},
                        {"aten::where", where},
                        {"aten::nan_to_num", nanToNum},
                        {"aten::full", fill},
                        {"aten::new_full", fill},
                        {"aten::full_like", fill}};
  for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    forms[std::string("aten::") + op] = comparison;
  }
  return forms;
}

}  // namespace chorus
