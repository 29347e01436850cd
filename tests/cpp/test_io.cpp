// Files: what is written is read again, damaged ones are refused with names, and a crash while
// writing leaves the old file or the new one.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "flambeau/autograd/meta.h"
#include "flambeau/io/file.h"
#include "flambeau/io/formats.h"
#include "flambeau/serialize.h"
#include "tests/cpp/support.h"

namespace flambeau {
namespace {

using torch::Tensor;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;
using Tag = IValue::Tag;

std::string bytes_of(const IValue& value) {
  io::StringSink sink;
  io::save(value, sink);
  return sink.text;
}
IValue read(const std::string& bytes) {
  const auto source = io::open_memory(bytes, "made.pt");
  return io::load(*source);
}
IValue again(const IValue& value) { return read(bytes_of(value)); }

// A folder that goes with the test.
struct Folder {
  Folder() : path(std::filesystem::temp_directory_path() / ("io" + std::to_string(::getpid()))) {
    std::filesystem::create_directory(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::string file(const char* name) const { return path / name; }
  std::filesystem::path path;
};

TEST(Io, ValuesAreReadAsTheyWereWritten) {
  for (const int64_t number :
       {0L, 255L, 256L, 65536L, -1L, 1L << 31, 1L << 40, -(1L << 62), INT64_MIN}) {
    EXPECT_EQ(again(number).toInt(), number);
  }
  EXPECT_EQ(again(2.5).toDouble(), 2.5);
  EXPECT_TRUE(again(IValue()).isNone());
  EXPECT_TRUE(again(true).toBool());
  EXPECT_EQ(again("täxt").toStringRef(), "täxt");
  EXPECT_EQ(again(std::complex<double>(1, -2)).toComplexDouble(), std::complex<double>(1, -2));
  const std::string every = [] {
    std::string text;
    for (int k = 0; k < 256; ++k) text += static_cast<char>(k);
    return text;
  }();
  EXPECT_EQ(again(IValue::of(Tag::Bytes, every)).text(), every);
  EXPECT_EQ(again(IValue::of(Tag::ByteArray, every)).text(), every);
  EXPECT_EQ(again(DType::bfloat16).toScalarType(), DType::bfloat16);
  EXPECT_EQ(again(Layout::sparse_csr).toLayout(), Layout::sparse_csr);
  EXPECT_EQ(again(Device(DeviceType::cuda, 1)).toDevice(), Device(DeviceType::cuda, 1));
  const IValue list = again(std::vector<int64_t>{1, 2, 3});
  EXPECT_EQ(list.toIntVector(), (std::vector<int64_t>{1, 2, 3}));
  const IValue tuple = again(std::tuple(1, "a", 2.5, true));
  EXPECT_EQ(tuple.toTuple()->elements()[1].toStringRef(), "a");
  for (const Tag tag : {Tag::Size, Tag::Set, Tag::FrozenSet}) {
    const IValue made = again(IValue::of(tag, std::vector<IValue>{1, 2, 3, 4}));
    EXPECT_EQ(made.tag(), tag);
    EXPECT_EQ(made.items().size(), 4u);
  }
}

TEST(Io, ValuesArePrintedAsLibtorchPrintsThem) {
  const auto text = [](const IValue& value) {
    std::ostringstream out;
    out << value;
    return out.str();
  };
  EXPECT_EQ(text(IValue()), "None");
  EXPECT_EQ(text(3), "3");
  EXPECT_EQ(text(2.0), "2.");
  EXPECT_EQ(text(0.1), "0.10000000000000001");
  EXPECT_EQ(text(1e20), "1e+20");
  EXPECT_EQ(text(true), "True");
  EXPECT_EQ(text("text"), "text");
  EXPECT_EQ(text(std::complex<double>(1, 2)), "1.+2.j");
  EXPECT_EQ(text(std::vector<int64_t>{1, 2}), "[1, 2]");
  EXPECT_EQ(text(std::make_tuple(1, 2.5)), "(1, 2.5)");
  EXPECT_EQ(text(std::tuple<int64_t>(1)), "(1,)");
  const Dict<std::string, int64_t> numbers;
  numbers.insert("a", 1);
  numbers.insert("b", 2);
  EXPECT_EQ(text(numbers), "{a: 1, b: 2}");
}

TEST(Io, DictsKeepTheirOrderAndWhatStandsBesideThem) {
  IValue dict = IValue::dict(Tag::OrderedDict);
  for (int k = 0; k < 2500; ++k) dict.pairs().set(std::to_string(k), k);
  dict.pairs().attributes = IValue::dict();
  dict.pairs().attributes.pairs().set("_metadata", "note");
  const IValue read = again(dict);
  ASSERT_TRUE(read.is(Tag::OrderedDict));
  int place = 0;
  for (const auto& entry : read.toGenericDict()) EXPECT_EQ(entry.value().toInt(), place++);
  EXPECT_EQ(place, 2500);
  EXPECT_EQ(read.toGenericDict().at("77").toInt(), 77);
  EXPECT_EQ(read.pairs().attributes.pairs().find("_metadata")->toStringRef(), "note");
}

TEST(Io, TensorsShareMemoryAsTheyDid) {
  const Tensor base = count({3, 4});
  const IValue read =
      again(std::vector<IValue>{base, base.t(), base.select(0, 1), base, count({2}).conj()});
  const auto tensors = read.toTensorVector();
  EXPECT_TRUE(tensors[0].equal(base));
  EXPECT_TRUE(tensors[3].is_same(tensors[0]));
  EXPECT_EQ(tensors[1].strides(), (IntSpan{1, 4}));
  tensors[2].fill_(7);
  EXPECT_EQ(tensors[0][1][2].item<float>(), 7);
}

TEST(Io, EveryDtypeAndMarkIsKept) {
  for (int k = 0; k < dtype_count; ++k) {
    const auto dtype = static_cast<DType>(k);
    const Tensor made = torch::zeros({2, 3}, dtype);
    const IValue read = again(made);
    EXPECT_EQ(read.tensor().dtype(), dtype);
    EXPECT_EQ(read.tensor().sizes(), made.sizes());
  }
  const Tensor complex = torch::complex(count({2}), count({2})).conj();
  EXPECT_TRUE(again(complex).tensor()->pending & Pending::conj);
  EXPECT_TRUE(again(complex).toTensor().equal(complex));
  EXPECT_TRUE(again(wanted({2})).tensor().requires_grad());
  EXPECT_TRUE(again(torch::empty({2}, Device(DeviceType::meta))).tensor().device().is_meta());
}

TEST(Io, ArchivesAreFlatAndReadInParts) {
  OutputArchive model, layer, empty;
  layer.write("weight", count({2, 3}));
  layer.write("bias", count({3}), true);
  model.write("fc", layer);
  model.write("relu", empty);
  model.write("note", IValue("text"));
  std::stringstream stream;
  model.save_to(stream);
  InputArchive read, part, nothing;
  read.load_from(stream);
  EXPECT_EQ(read.keys(), (std::vector<std::string>{"fc", "note"}));
  EXPECT_TRUE(read.value().toGenericDict().contains("fc.weight"));
  read.read("fc", part);
  EXPECT_EQ(part.keys(), (std::vector<std::string>{"weight", "bias"}));
  Tensor weight, bias = torch::zeros({3});
  part.read("weight", weight);
  part.read("bias", bias, true);
  EXPECT_TRUE(weight.equal(count({2, 3})));
  EXPECT_TRUE(bias.equal(count({3})));
  read.read("relu", nothing);
  EXPECT_TRUE(nothing.keys().empty());
  EXPECT_FALSE(read.try_read("zz", weight));
  EXPECT_ERROR(read.read("zz", weight), RuntimeError, "No such serialized tensor 'zz'");
  EXPECT_ERROR(read.read("zz", part), RuntimeError, "No such serialized submodule: 'zz'");
}

TEST(Io, TensorsAndListsOfThemAreSaved) {
  const Folder folder;
  torch::save(count({4}), folder.file("one.pt"));
  torch::save(std::vector<Tensor>{count({2}), count({3})}, folder.file("two.pt"));
  Tensor one;
  std::vector<Tensor> two;
  torch::load(one, folder.file("one.pt"));
  torch::load(two, folder.file("two.pt"));
  EXPECT_TRUE(one.equal(count({4})));
  ASSERT_EQ(two.size(), 2u);
  EXPECT_TRUE(two[1].equal(count({3})));
  const IValue value = torch::pickle_load(torch::pickle_save(std::tuple(one, 3)));
  EXPECT_TRUE(value.toTuple()->elements()[0].toTensor().equal(one));
  EXPECT_ERROR(torch::load(one, folder.file("none.pt")), RuntimeError,
               "open file failed because of errno 2 on fopen: No such file or directory");
  EXPECT_ERROR(torch::pickle_load(std::vector<char>(100, 'a')), RuntimeError,
               "PytorchStreamReader failed reading zip archive: failed finding central directory.");
  EXPECT_ERROR(torch::pickle_load({'a', 'b'}), RuntimeError,
               "PytorchStreamReader failed reading zip archive: not a ZIP archive.");
  EXPECT_ERROR(torch::save(one, "/nonexistent/x.pt"), RuntimeError,
               "Parent directory /nonexistent does not exist.");
}

std::string archive_around(const std::string& pickle) {
  io::StringSink sink;
  io::ArchiveWriter writer(sink, "archive");
  writer.write("data.pkl", pickle);
  writer.write("byteorder", "little");
  const std::string content(60, '\0');
  for (const char* key : {"data/0", "data/1"}) writer.write(key, content);
  writer.close();
  return sink.text;
}

// A pickle as libtorch writes modules: objects of classes of TorchScript's.
TEST(Io, ArchivesThatLibtorchWroteAreRead) {
  using namespace std::string_literals;
  const auto text = [](const std::string& word) {
    return "X"s + static_cast<char>(word.size()) + "\0\0\0"s + word;
  };
  const auto tensor = [&](const char* key) {
    return "ctorch._utils\n_rebuild_tensor_v2\n(("s + text("storage") + "ctorch\nFloatStorage\n" +
           text(key) + text("cpu") + "K\x0ftQK\0(K\x0ft(K\x01t\x89"s +
           "ccollections\nOrderedDict\n)RtR";
  };
  const std::string lists = text("sizes") +
                            "ctorch.jit._pickle\nbuild_intlist\n](K\x02K\3"
                            "e\x85R";
  const std::string inner =
      "c__torch__.___torch_mangle_0\nModule\n)\x81}("s + text("weight") + tensor("0") + "ub";
  const std::string pickle =
      "\x80\x02"
      "c__torch__\nModule\n)\x81}("s +
      text("0") + tensor("1") + text("fc") + inner + lists + "ub.";
  const std::string bytes = archive_around(pickle);
  InputArchive archive, below;
  archive.load_from(bytes.data(), bytes.size());
  EXPECT_EQ(archive.keys(), (std::vector<std::string>{"0", "fc", "sizes"}));
  Tensor weight, first;
  archive.read("fc", below);
  below.read("weight", weight);
  EXPECT_EQ(weight.numel(), 15);
  IValue sizes;
  archive.read("sizes", sizes);
  EXPECT_EQ(sizes.toIntVector(), (std::vector<int64_t>{2, 3}));
  archive >> first;  // a tensor that torch::save wrote stands under "0"
  EXPECT_EQ(first.sizes(), (IntSpan{15}));
  EXPECT_ERROR(below.read("bias", first), RuntimeError, "No such serialized tensor 'bias'");
}

TEST(Io, ValuesOfAnotherKindAreRefusedInLibtorchsWords) {
  EXPECT_ERROR(IValue(3).toTensor(), RuntimeError, "Expected Tensor but got Int");
  EXPECT_ERROR(IValue().toTensor(), RuntimeError, "Expected Tensor but got None");
  EXPECT_ERROR(IValue(3).toStringRef(), RuntimeError, "Expected String but got Int");
  EXPECT_ERROR(IValue("a").toScalar(), RuntimeError, "IValue is not a Scalar");
  EXPECT_ERROR(IValue(3).toGenericDict(), RuntimeError, "Expected GenericDict but got Int");
  const Dict<std::string, int64_t> dict;
  EXPECT_ERROR(dict.at("no"), std::out_of_range, "Argument passed to at() was not in the map.");
}

// --- Damaged and hostile files -------------------------------------------------------------------

IValue checkpoint() {
  IValue dict = IValue::dict(Tag::OrderedDict);
  dict.pairs().set("weight", count({5, 3}));
  dict.pairs().set("parameter", wanted({3}));
  dict.pairs().set("names", std::vector<std::string>{"a", "b"});
  dict.pairs().set("epoch", 3);
  dict.pairs().set("rate", 0.5);
  return dict;
}

// An error, if any, names file and record.
void expect_named(const std::string& bytes) {
  try {
    (void)read(bytes);
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("made.pt"), std::string::npos) << text;
    EXPECT_NE(text.find("record"), std::string::npos) << text;
  }
}

std::string mutated(std::string data, std::mt19937& draw) {
  const auto below = [&](size_t n) { return n ? draw() % n : 0; };
  for (size_t times = 1 + below(5); times && !data.empty(); --times) {
    const size_t start = below(data.size()), length = std::min(1 + below(40), data.size() - start);
    switch (below(5)) {
      case 0:
        for (size_t k = 0; k < length; ++k) data[start + k] = static_cast<char>(draw());
        break;
      case 1: data.erase(start, length); break;
      case 2: data.insert(start, data.substr(start, length)); break;
      case 3: data.replace(start, length, std::string(length, '\xff')); break;
      default: data[start] = static_cast<char>(data[start] ^ 1 << below(8));
    }
  }
  return data;
}

TEST(Io, MutatedFilesAreRefusedWithTheirNames) {
  const std::string good = bytes_of(checkpoint());
  std::mt19937 draw(1);
  for (int k = 0; k < 1000; ++k) expect_named(mutated(good, draw));
}

TEST(Io, MutatedPicklesInWholeArchivesAreRefusedWithTheirNames) {
  io::Pickler pickler;
  const std::string good = pickler.dump(checkpoint());
  std::mt19937 draw(2);
  for (int k = 0; k < 3000; ++k) expect_named(archive_around(mutated(good, draw)));
}

TEST(Io, OtherFormatsAreReadAsTheyWereWritten) {
  const Folder folder;
  IValue tensors = IValue::dict();
  tensors.pairs().set("small", count({2, 3}).to(DType::bfloat16));
  tensors.pairs().set("\"large\"\n", count({4}).to(DType::float64));
  io::save_safetensors(tensors, folder.file("a.safetensors"));
  const IValue loaded = io::load_safetensors(*io::open_file(folder.file("a.safetensors")));
  for (const auto& [name, value] : tensors.pairs().pairs) {
    EXPECT_TRUE(loaded.pairs().find(name)->toTensor().equal(value.toTensor()));
  }
  for (const DType dtype : {DType::float32, DType::bool_, DType::complex128, DType::uint16}) {
    for (const Tensor& made : {count({3, 2}), torch::ones({}), torch::zeros({0, 3}), count({5})}) {
      io::save_npy(made.to(dtype), folder.file("a.npy"));
      const torch::Tensor read = io::load_npy(*io::open_file(folder.file("a.npy")));
      EXPECT_TRUE(read.equal(made.to(dtype)));
    }
  }
  EXPECT_ERROR(io::parse_literal("__import__('os')"), ValueError, "no value");
  EXPECT_ERROR(io::parse_literal(std::string(100, '[')), ValueError, "too deep");
  EXPECT_EQ(io::parse_literal("{'a': (1, -2.5, None), \"\\u00e4\": [True]}").pairs().pairs.size(),
            2u);
}

TEST(Io, EveryFlippedBitIsNoticed) {
  const std::string good = bytes_of(checkpoint());
  std::mt19937 draw(3);
  for (int k = 0; k < 1000; ++k) {
    std::string bad = good;
    const size_t place = draw() % bad.size();
    bad[place] = static_cast<char>(bad[place] ^ 1 << draw() % 8);
    EXPECT_THROW((void)read(bad), Error) << place;
  }
}

TEST(Io, HostilePicklesAreRefused) {
  using namespace std::string_literals;
  const std::string storage = "ctorch\nFloatStorage\n"s;
  const std::vector<std::string> hostile = {
      "cos\nsystem\n(S'true'\ntR."s,
      "cbuiltins\neval\n(S'1'\ntR."s,
      "cbuiltins\nbytearray\n(J\xff\xff\xff\x7ftR."s,
      storage + "(J\xff\xff\xff\x7ftR.",
      "K\x01r\xff\xff\xff\xff."s,
      "X\xff\xff\xff\xff."s,
      "\x8b\xff\xff\xff\x7f."s,
      "\xf7."s,
      "K\x01"s,
      "0."s,
      "K\x05Q."s,
      "]q\0h\0a."s,                            // a list in itself
      "(" + std::string(100000, ']') + "l."s,  // many lists, which is fine
      std::string(100000, '(') + ".",
  };
  for (const std::string& pickle : hostile) expect_named(archive_around(pickle));
  EXPECT_ERROR(read(archive_around(hostile[0])), io::UnpicklingError, "GLOBAL os.system");
  EXPECT_ERROR(read(archive_around(hostile[1])), io::UnpicklingError,
               "Unsupported global: GLOBAL builtins.eval was not an allowed global by default");
  EXPECT_ERROR(read(archive_around(hostile[11])), io::UnpicklingError, "holds itself");
  std::string deep = ")";
  for (int k = 0; k < 1000000; ++k) deep += '\x85';
  EXPECT_ERROR(read(archive_around(deep + ".")), io::UnpicklingError, "too deep");
  EXPECT_ERROR(read(archive_around(deep)), io::UnpicklingError, "truncated");
}

TEST(Io, AStorageOfAPlaceThatIsNotThereIsRefused) {
  std::string pickle = io::Pickler().dump(count({15}));
  pickle.replace(pickle.find("cpu"), 3, "xyz");
  EXPECT_ERROR(read(archive_around(pickle)), RuntimeError,
               "made.pt, record data/0: a storage cannot be where the file says (xyz)");
}

TEST(Io, ATensorLargerThanItsStorageIsRefused) {
  std::string pickle = io::Pickler().dump(count({15}));
  const size_t place = pickle.find("K\x0f\x85");
  ASSERT_NE(place, std::string::npos);
  EXPECT_NO_THROW((void)read(archive_around(pickle)));
  pickle[place + 1] = '\x7f';
  EXPECT_ERROR(read(archive_around(pickle)), RuntimeError, "out of bounds for storage");
}

TEST(Io, ACrashLeavesTheOldFileOrTheNewOne) {
  const Folder folder;
  const std::string path = folder.file("checkpoint.pt");
  struct Counted : io::Sink {
    Counted(io::Sink& sink, int point) : sink(sink), left(point) {}
    void write(const void* data, size_t bytes) override {
      if (--left == 0) ::_exit(9);
      sink.write(data, bytes);
    }
    io::Sink& sink;
    int left;
  };
  int status = 9;
  bool old_seen = false;
  for (int point = 1; status == 9; ++point) {
    io::save_file("old", path);
    const pid_t child = ::fork();
    if (child == 0) {
      io::ReplacedFile file(path);
      Counted sink(file, point);
      io::save(std::vector<IValue>{"new", 1}, sink);
      file.commit();
      ::_exit(0);
    }
    int result = 0;
    ::waitpid(child, &result, 0);
    status = WEXITSTATUS(result);
    const IValue found = io::load_file(path);
    EXPECT_EQ(found.isString(), status == 9);
    old_seen = old_seen || found.isString();
  }
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(old_seen);
}

}  // namespace
}  // namespace flambeau
