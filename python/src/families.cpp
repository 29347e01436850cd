#include "python/src/families.h"

#include <string>
#include <unordered_map>

#include "python/src/older_calls.h"

namespace flambeau::python {
namespace {

// A field a line, as PyTorch writes them.
PyObject* named_tuple_repr(PyObject* self) {
  std::string text = std::string(Py_TYPE(self)->tp_name) + "(";
  const PyMemberDef* fields = Py_TYPE(self)->tp_members;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
    Object item(PyObject_Repr(PyTuple_GET_ITEM(self, i)));
    const char* item_text = item ? PyUnicode_AsUTF8(item.get()) : nullptr;
    if (!item_text) return nullptr;
    text += std::string(i ? ",\n" : "\n") + fields[i].name + "=" + item_text;
  }
  return PyUnicode_FromString((text + ")").c_str());
}

PyTypeObject* named_tuple(const std::string& op, const std::vector<std::string>& names) {
  static std::unordered_map<std::string, PyTypeObject*> made;
  PyTypeObject*& type = made[op];
  if (type) return type;
  auto* fields = new PyStructSequence_Field[names.size() + 1]();
  for (size_t i = 0; i < names.size(); ++i) {
    fields[i].name = (new std::string(names[i]))->c_str();  // types live as long as the process
  }
  PyStructSequence_Desc description{(new std::string("torch.return_types." + op))->c_str(), "",
                                    fields, static_cast<int>(names.size())};
  type = PyStructSequence_NewType(&description);
  if (type) type->tp_repr = named_tuple_repr;
  return type;
}

BoundOverload bind(const Overload& overload) {
  BoundOverload bound{&overload, {}};
  for (const Parameter& p : overload.parameters) {
    bound.names.push_back(PyUnicode_InternFromString(p.name.c_str()));
  }
  if (!overload.results.empty()) {
    bound.result_type = named_tuple(std::string(op_name_of(*overload.op)), overload.results);
  }
  return bound;
}

}  // namespace

std::vector<std::unique_ptr<BoundFamily>> bind_families() {
  std::vector<std::unique_ptr<BoundFamily>> families;
  for (const auto& family : all_families()) {
    auto bound = std::make_unique<BoundFamily>();
    bound->family = family.get();
    for (const Overload& overload : family->overloads) bound->overloads.push_back(bind(overload));
    for (const Overload& overload : family->out_forms) bound->out_forms.push_back(bind(overload));
    bound->older = older_order_of(*family);
    families.push_back(std::move(bound));
  }
  return families;
}

}  // namespace flambeau::python
