// Files of PyTorch's for Python: torch.save and torch.load of what the core knows, and archives for
// what Python's own pickle has to read and write. See flambeau/io.
#include "python/src/files.h"

#include <memory>

#include "flambeau/base/check.h"
#include "flambeau/io/file.h"
#include "flambeau/io/formats.h"

namespace flambeau::python {
namespace {

// --- Where files come from and go to -------------------------------------------------------------

std::string path_of(PyObject* object) {
  const Object bytes = check(PyUnicode_EncodeFSDefault(object));
  return PyBytes_AS_STRING(bytes.get());
}

std::string name_of(PyObject* file) {
  const Object name(PyObject_GetAttrString(file, "name"));
  PyErr_Clear();
  return name && PyUnicode_Check(name.get()) ? text_of(name.get()) : "of a buffer";
}

// A file object that seeks and reads.
class PythonSource : public io::Source {
 public:
  explicit PythonSource(PyObject* file) : Source(name_of(file)), file_(Object::borrow(file)) {
    const Object end = check(PyObject_CallMethod(file, "seek", "ii", 0, 2));
    size_ = end.get() == Py_None ? tell() : PyLong_AsUnsignedLongLong(end.get());
    if (PyErr_Occurred()) throw PythonError();
  }
  [[nodiscard]] uint64_t size() const override { return size_; }
  using Source::read;
  void read(uint64_t place, void* to, size_t bytes) override {
    check(PyObject_CallMethod(file_.get(), "seek", "K", static_cast<unsigned long long>(place)));
    char* target = static_cast<char*>(to);
    while (bytes) {
      constexpr size_t chunk = size_t{1} << 24;
      const Object data = check(PyObject_CallMethod(
          file_.get(), "read", "n", static_cast<Py_ssize_t>(std::min(bytes, chunk))));
      char* from = nullptr;
      Py_ssize_t count = 0;
      if (PyBytes_AsStringAndSize(data.get(), &from, &count) < 0) throw PythonError();
      CHECK(count > 0 && static_cast<size_t>(count) <= bytes, RuntimeError,
            "{}: the file ends early", name());
      std::copy(from, from + count, target);
      target += count;
      bytes -= static_cast<size_t>(count);
    }
  }

 private:
  uint64_t tell() {
    return PyLong_AsUnsignedLongLong(
        check(PyObject_CallMethod(file_.get(), "tell", nullptr)).get());
  }
  Object file_;
  uint64_t size_ = 0;
};

// A file by its path, which others need not wait for.
class PathSource : public io::Source {
 public:
  explicit PathSource(const std::string& path) : Source(path), file_(io::open_file(path)) {}
  [[nodiscard]] uint64_t size() const override { return file_->size(); }
  using Source::read;
  void read(uint64_t place, void* to, size_t bytes) override {
    constexpr size_t large = size_t{1} << 16;
    const GilRelease release(bytes >= large);
    file_->read(place, to, bytes);
  }

 private:
  std::unique_ptr<io::Source> file_;
};

// The memory of an io.BytesIO, which cannot change meanwhile.
class BufferSource : public io::Source {
 public:
  explicit BufferSource(PyObject* view) : Source("of a buffer") {
    if (PyObject_GetBuffer(view, &buffer_, PyBUF_SIMPLE) < 0) throw PythonError();
    memory_ = io::open_memory(
        {static_cast<const char*>(buffer_.buf), static_cast<size_t>(buffer_.len)}, name());
  }
  ~BufferSource() override { PyBuffer_Release(&buffer_); }
  [[nodiscard]] uint64_t size() const override { return memory_->size(); }
  using Source::read;
  void read(uint64_t place, void* to, size_t bytes) override { memory_->read(place, to, bytes); }

 private:
  Py_buffer buffer_;
  std::unique_ptr<io::Source> memory_;
};

std::unique_ptr<io::Source> source_of(PyObject* file) {
  if (PyUnicode_Check(file)) return std::make_unique<PathSource>(path_of(file));
  if (PyObject_HasAttrString(file, "getbuffer")) {
    const Object view = check(PyObject_CallMethod(file, "getbuffer", nullptr));
    return std::make_unique<BufferSource>(view.get());
  }
  return std::make_unique<PythonSource>(file);
}

class PythonSink : public io::Sink {
 public:
  explicit PythonSink(PyObject* file) : file_(Object::borrow(file)) {}
  using Sink::write;
  void write(const void* data, size_t bytes) override {
    const Object view = check(PyMemoryView_FromMemory(static_cast<char*>(const_cast<void*>(data)),
                                                      static_cast<Py_ssize_t>(bytes), PyBUF_READ));
    check(PyObject_CallMethod(file_.get(), "write", "O", view.get()));
    check(PyObject_CallMethod(view.get(), "release", nullptr));
  }

 private:
  Object file_;
};

// A path, under which all appears at once, or an object with write().
struct Target {
  explicit Target(PyObject* file) {
    if (PyUnicode_Check(file)) {
      auto replaced = std::make_unique<io::ReplacedFile>(path_of(file));
      path = replaced.get();
      sink = std::move(replaced);
    } else {
      sink = std::make_unique<PythonSink>(file);
    }
  }
  void commit() const {
    if (path) path->commit();
  }
  std::unique_ptr<io::Sink> sink;
  io::ReplacedFile* path = nullptr;
};

// --- Archives ------------------------------------------------------------------------------------

struct Writer {
  Target target;
  io::ArchiveWriter archive;
  Writer(PyObject* file, const char* name) : target(file), archive(*target.sink, name) {}
};

struct Reader {
  std::unique_ptr<io::Source> source;
  io::ArchiveReader archive;
  std::unique_ptr<io::Mapping> mapping;
  Reader(PyObject* file, uint64_t start, int map)
      : source(source_of(file)), archive(*source, start) {
    if (map) mapping = std::make_unique<io::Mapping>(path_of(file), map == 2);
  }
};

template <class T>
struct Holder {
  PyObject_HEAD T* held;
};
template <class T>
T& held(PyObject* self) {
  T* object = reinterpret_cast<Holder<T>*>(self)->held;
  CHECK(object, RuntimeError, "the file is closed");
  return *object;
}
template <class T>
void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<Holder<T>*>(self)->held;
  type->tp_free(self);
  Py_DECREF(type);
}
template <class T, class... Args>
PyObject* make(PyTypeObject* type, const Args&... args) {
  auto made = std::make_unique<T>(args...);
  const auto self = reinterpret_cast<Holder<T>*>(check(type->tp_alloc(type, 0)).release());
  self->held = made.release();
  return reinterpret_cast<PyObject*>(self);
}

PyObject* writer_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject* file = nullptr;
    const char* name = nullptr;
    if (!PyArg_ParseTuple(args, "Os:_ArchiveWriter", &file, &name)) return nullptr;
    return make<Writer>(type, file, name);
  });
}
PyObject* writer_write(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    const char* record = nullptr;
    Py_buffer data;
    if (!PyArg_ParseTuple(args, "sy*:write", &record, &data)) return nullptr;
    const std::unique_ptr<Py_buffer, void (*)(Py_buffer*)> release(&data, PyBuffer_Release);
    held<Writer>(self).archive.write(record, data.buf, static_cast<size_t>(data.len));
    Py_RETURN_NONE;
  });
}
PyObject* writer_close(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    auto& writer = held<Writer>(self);
    writer.archive.close();
    writer.target.commit();
    Py_RETURN_NONE;
  });
}

PyObject* replaced_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject* path = nullptr;
    if (!PyArg_ParseTuple(args, "U:_ReplacedFile", &path)) return nullptr;
    return make<io::ReplacedFile>(type, path_of(path));
  });
}
PyObject* replaced_write(PyObject* self, PyObject* data) {
  return guarded([&]() -> PyObject* {
    Py_buffer buffer;
    if (PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE) < 0) return nullptr;
    const std::unique_ptr<Py_buffer, void (*)(Py_buffer*)> release(&buffer, PyBuffer_Release);
    held<io::ReplacedFile>(self).write(buffer.buf, static_cast<size_t>(buffer.len));
    return PyLong_FromSsize_t(buffer.len);
  });
}
PyObject* replaced_flush(PyObject*, PyObject*) { Py_RETURN_NONE; }
PyObject* replaced_commit(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    held<io::ReplacedFile>(self).commit();
    Py_RETURN_NONE;
  });
}

PyObject* reader_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject* file = nullptr;
    unsigned long long start = 0;
    int map = 0;
    if (!PyArg_ParseTuple(args, "O|Ki:_ArchiveReader", &file, &start, &map)) return nullptr;
    return make<Reader>(type, file, uint64_t{start}, map);
  });
}
PyObject* reader_has(PyObject* self, PyObject* name) {
  return guarded([&] { return PyBool_FromLong(held<Reader>(self).archive.has(text_of(name))); });
}
PyObject* reader_records(PyObject* self, PyObject* prefix) {
  return guarded([&]() -> PyObject* {
    const std::string start = text_of(prefix);
    Object found = check(PyList_New(0));
    for (const io::Record& record : held<Reader>(self).archive.records()) {
      if (!record.name.starts_with(start)) continue;
      const Object name = check(PyUnicode_FromString(record.name.c_str()));
      if (PyList_Append(found.get(), name.get()) < 0) return nullptr;
    }
    if (PyList_Sort(found.get()) < 0) return nullptr;
    return found.release();
  });
}
PyObject* bytes_object(const std::string& text) {
  return PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}
// read(record): its bytes, and whether they are compressed.
PyObject* reader_read(PyObject* self, PyObject* name) {
  return guarded([&]() -> PyObject* {
    const auto& archive = held<Reader>(self).archive;
    const io::Record& record = archive.record(text_of(name));
    const bool packed = record.method != 0;
    const Object bytes =
        check(bytes_object(packed ? archive.packed(record) : archive.read(record.name)));
    return Py_BuildValue("OOK", bytes.get(), packed ? Py_True : Py_False,
                         static_cast<unsigned long long>(record.bytes));
  });
}
// storage(record, skip): its bytes as a tensor, mapped if the file is.
PyObject* reader_storage(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    const char* record = nullptr;
    int skip = 0;
    if (!PyArg_ParseTuple(args, "sp:storage", &record, &skip)) return nullptr;
    auto& reader = held<Reader>(self);
    io::LoadOptions options;
    options.mapping = reader.mapping.get();
    options.skips_data = skip;
    StoragePtr storage = io::read_storage(reader.archive, record, options);
    const auto bytes = static_cast<int64_t>(storage->bytes());
    return wrap(make_over(std::move(storage), bytes, 1, 0, DType::uint8));
  });
}

PyMethodDef writer_methods[] = {
    {"write", writer_write, METH_VARARGS, "Writes a record."},
    {"close", writer_close, METH_NOARGS, "Writes the directory; the file is there then."},
    {nullptr, nullptr, 0, nullptr}};
PyMethodDef replaced_methods[] = {
    {"write", replaced_write, METH_O, "Writes bytes."},
    {"flush", replaced_flush, METH_NOARGS, "Nothing: all is written when it is committed."},
    {"commit", replaced_commit, METH_NOARGS, "Puts the file in the place of the old one."},
    {nullptr, nullptr, 0, nullptr}};
PyMethodDef reader_methods[] = {
    {"has", reader_has, METH_O, "Whether there is a record."},
    {"records", reader_records, METH_O, "The names of all records that begin so."},
    {"_read", reader_read, METH_O, "The bytes of a record, whether compressed, and how many."},
    {"_storage", reader_storage, METH_VARARGS, "The bytes of a record as a tensor."},
    {nullptr, nullptr, 0, nullptr}};

template <class T>
bool add_type(PyObject* module, const char* name, newfunc make, PyMethodDef* methods) {
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(make)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(dealloc<T>)},
                         {Py_tp_methods, methods},
                         {0, nullptr}};
  PyType_Spec spec{name, sizeof(Holder<T>), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  PyObject* type = PyType_FromSpec(&spec);
  return type && PyModule_AddObject(module, name + sizeof("flambeau._C"), type) == 0;
}

// --- Whole files ---------------------------------------------------------------------------------

// _load_file(file, start, map, place, stays, known, hooks, encoding, skip, big_endian, scripts):
// the object in a file, read by the core. `place` puts a storage, as a tensor of bytes, where it
// belongs; if `stays`, the core need not be told what belongs on the CPU.
PyObject* load(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *file = nullptr, *place = nullptr, *known = nullptr;
    unsigned long long start = 0;
    int map = 0, stays = 0, skip = 0, big_endian = 0, scripts = 0;
    const char* encoding = nullptr;
    FileHooks hooks{};
    if (!PyArg_ParseTuple(args, "OKiOpO(OOOO)sppp:_load_file", &file, &start, &map, &place, &stays,
                          &known, &hooks.find, &hooks.make, &hooks.build, &hooks.storage, &encoding,
                          &skip, &big_endian, &scripts))
      return nullptr;
    io::LoadOptions options;
    options.start = start;
    options.skips_data = skip;
    options.assume_big_endian = big_endian;
    options.scripts = scripts;
    const std::string name = encoding;
    options.encoding = name == "bytes"    ? io::Encoding::bytes
                       : name == "latin1" ? io::Encoding::latin1
                                          : io::Encoding::utf8;
    std::unordered_map<std::string, bool> asked;
    options.known = [&](const std::string& name) {
      const auto [found, fresh] = asked.try_emplace(name, false);
      if (fresh) {
        const Object answer = check(PyObject_CallFunction(known, "s", name.c_str()));
        found->second = PyObject_IsTrue(answer.get()) == 1;
      }
      return found->second;
    };
    options.place = [&](const StoragePtr& storage, const std::string& location) {
      if (stays && location == "cpu") return storage;
      const auto bytes = static_cast<int64_t>(storage->bytes());
      const Object memory(wrap(make_over(storage, bytes, 1, 0, DType::uint8)));
      const Object moved =
          check(PyObject_CallFunction(place, "Os", memory.get(), location.c_str()));
      CHECK(is_tensor(moved.get()), TypeError, "load: a storage was expected");
      return tensor_of(moved.get()).storage();
    };
    const std::unique_ptr<io::Source> source = source_of(file);
    std::unique_ptr<io::Mapping> mapping;
    if (map) mapping = std::make_unique<io::Mapping>(path_of(file), map == 2);
    options.mapping = mapping.get();
    uint64_t end = 0;
    options.end = &end;
    Object result;
    io::load(*source, options, [&](const IValue& value) { result = FromValues(hooks)(value); });
    // The next one of several in a file object begins there.
    if (end && !PyUnicode_Check(file)) {
      check(PyObject_CallMethod(file, "seek", "K", static_cast<unsigned long long>(end)));
    }
    return result.release();
  });
}

// _save_file(object, file, name): whether the object is one that the core writes, and then it has.
PyObject* save(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *object = nullptr, *file = nullptr;
    const char* name = nullptr;
    if (!PyArg_ParseTuple(args, "OOs:_save", &object, &file, &name)) return nullptr;
    bool plain = false;
    with_plain_value(object, [&](const IValue* value) {
      plain = value;
      if (!plain) return;
      const Target target(file);
      const GilRelease release(target.path);
      io::save(*value, *target.sink, name);
      target.commit();
    });
    return PyBool_FromLong(plain);
  });
}

// _pickle_globals(data): the names that a pickle asks for and the core does not know.
PyObject* pickle_globals(PyObject*, PyObject* data) {
  return guarded([&]() -> PyObject* {
    char* bytes = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(data, &bytes, &size) < 0) return nullptr;
    Object found = check(PyList_New(0));
    for (const std::string& name :
         io::globals_of({bytes, static_cast<size_t>(size)}, "File, record data.pkl")) {
      const Object text = check(PyUnicode_FromString(name.c_str()));
      if (PyList_Append(found.get(), text.get()) < 0) return nullptr;
    }
    return found.release();
  });
}

// --- Other libraries' files ----------------------------------------------------------------------

// _save_safetensors(tensors, metadata, file)
PyObject* save_safetensors(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *tensors = nullptr, *metadata = nullptr, *file = nullptr;
    if (!PyArg_ParseTuple(args, "OOO:_save_safetensors", &tensors, &metadata, &file))
      return nullptr;
    const Object both = check(PyTuple_Pack(2, tensors, metadata));
    with_plain_value(both.get(), [&](const IValue* value) {
      CHECK(value, ValueError, "save_file: tensors and strings by name were expected");
      const Target target(file);
      io::save_safetensors(value->items()[0], value->items()[1], *target.sink);
      target.commit();
    });
    Py_RETURN_NONE;
  });
}
// _load_safetensors(file): the tensors, and the strings that stand with them.
PyObject* load_safetensors(PyObject*, PyObject* file) {
  return guarded([&]() -> PyObject* {
    IValue metadata;
    const IValue tensors = io::load_safetensors(*source_of(file), &metadata);
    FromValues object{FileHooks{}};
    return PyTuple_Pack(2, object(tensors).get(), object(metadata).get());
  });
}
PyObject* safetensors_metadata(PyObject*, PyObject* file) {
  return guarded([&] {
    return FromValues(FileHooks{})(io::safetensors_metadata(*source_of(file))).release();
  });
}
// _save_npy(tensor, file)
PyObject* save_npy(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *tensor = nullptr, *file = nullptr;
    if (!PyArg_ParseTuple(args, "O!O:_save_npy", tensor_type, &tensor, &file)) return nullptr;
    const Target target(file);
    io::save_npy(tensor_of(tensor), *target.sink);
    target.commit();
    Py_RETURN_NONE;
  });
}
// _load_npy(file, start)
PyObject* load_npy(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* file = nullptr;
    unsigned long long start = 0;
    if (!PyArg_ParseTuple(args, "OK:_load_npy", &file, &start)) return nullptr;
    return wrap(io::load_npy(*source_of(file), start));
  });
}

PyMethodDef functions[] = {{"_save_safetensors", save_safetensors, METH_VARARGS, nullptr},
                           {"_load_safetensors", load_safetensors, METH_O, nullptr},
                           {"_safetensors_metadata", safetensors_metadata, METH_O, nullptr},
                           {"_save_npy", save_npy, METH_VARARGS, nullptr},
                           {"_load_npy", load_npy, METH_VARARGS, nullptr},
                           {"_load_file", load, METH_VARARGS, nullptr},
                           {"_save_file", save, METH_VARARGS, nullptr},
                           {"_pickle_globals", pickle_globals, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_files(PyObject* module) {
  return add_type<io::ReplacedFile>(module, "flambeau._C._ReplacedFile", replaced_new,
                                    replaced_methods) &&
         add_type<Writer>(module, "flambeau._C._ArchiveWriter", writer_new, writer_methods) &&
         add_type<Reader>(module, "flambeau._C._ArchiveReader", reader_new, reader_methods) &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace flambeau::python
