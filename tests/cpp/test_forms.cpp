// Every op as function, method, in place and with out=: the forms agree with one another. The calls
// are printed from the registry; an op that is added there is called here without another line.
#include <gtest/gtest.h>

#include <mutex>

#include "tests/cpp/forms.h"

namespace flambeau::forms {

void seed() {
  const GeneratorPtr& generator = default_generator(flambeau::Device());
  const std::lock_guard lock(generator->mutex());
  generator->manual_seed(1);
}

namespace {

void check_tensor(const Tensor& expected, const Tensor& result, bool values) {
  ASSERT_EQ(expected.defined(), result.defined());
  if (!expected.defined()) return;
  EXPECT_EQ(expected.dtype(), result.dtype());
  ASSERT_EQ(expected.sizes(), result.sizes());
  if (!values || expected.layout() != Layout::strided || expected.numel() == 0) return;
  EXPECT_TRUE(isclose(expected, result, 0, 0, true).all().item<bool>());
}

void run_all(const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    SCOPED_TRACE(call.name);
    try {
      call.run();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

}  // namespace

void check_equal(const Results& expected, const Results& result, bool values) {
  ASSERT_EQ(expected.tensors().size(), result.tensors().size());
  for (size_t i = 0; i < expected.tensors().size(); ++i) {
    check_tensor(expected.tensors()[i], result.tensors()[i], values);
  }
  EXPECT_TRUE(expected.number() == result.number());
  EXPECT_EQ(expected.text(), result.text());
}

void check_in_place(const Tensor& before, const Results& expected, const Tensor& self,
                    const Tensor& back, bool values) {
  EXPECT_EQ(&back, &self);
  if (self.version() == 0) check_tensor(before, self, values);  // nothing was written, then
  check_tensor(expected.tensors().at(0).to(self.dtype()), self, values);
}

void check_out(const Results& expected, const std::vector<Tensor>& outs, const Tensor* back,
               bool values) {
  if (back) {
    EXPECT_TRUE(back->is_same(outs.at(0)));
  }
  ASSERT_EQ(expected.tensors().size(), outs.size());
  for (size_t i = 0; i < outs.size(); ++i) {
    check_tensor(expected.tensors()[i], outs[i], values);
    EXPECT_GT(outs[i].version(), 0u);
  }
}

TEST(Forms, OfFunctionsGiveTheSameTwice) { run_all(function_calls); }
TEST(Forms, OfMethodsGiveWhatFunctionsGive) { run_all(method_calls); }
TEST(Forms, InPlaceGiveWhatFunctionsGive) { run_all(in_place_calls); }
TEST(Forms, InPlaceAsMethodsGiveWhatFunctionsGive) { run_all(in_place_method_calls); }
TEST(Forms, IntoOutGiveWhatFunctionsGive) { run_all(out_calls); }

TEST(Forms, AreNearlyAllCalled) {
  const size_t called = function_calls.size() + method_calls.size() + in_place_calls.size() +
                        in_place_method_calls.size() + out_calls.size();
  for (const char* name : not_called) std::printf("not called: %s\n", name);
  std::printf("%zu calls, %zu not called\n", called, not_called.size());
  EXPECT_GE(called, 900u);
  EXPECT_LE(not_called.size(), called / 20);
}

}  // namespace flambeau::forms
