#include "ort/message.h"

#include <gtest/gtest.h>

namespace gpux::ort {
namespace {

TEST(ReadableMessage, DropsWhereInItsSourceItWasSaid) {
  struct Case {
    const char* text;
    const char* readable;
  };

  const Case cases[] = {
      {"", ""},
      {"plain words", "plain words"},
      {"two\nlines\t\n", "two lines"},
      {"/src/a.cc:71 virtual std::unique_ptr<x::Y> x::F::Create(const A&, const B&) Error creating it: "
       "[ONNXRuntimeError] : 11 : EP_FAIL : /src/b.cc:136 x::C::Init(const x::D&)::<lambda()> a == b was false. No "
       "adapter",
       "Error creating it: a == b was false. No adapter"},
      {"/src/a.cc:5 void f(std::vector<int>&) const [with T = int; U = long int] it failed", "it failed"},
      {"Load model from /models/a.onnx failed:/src/model.cc:1 x::Model::Model(int) Missing field",
       "Load model from /models/a.onnx failed:Missing field"},
      {"/models/a.onnx: no such file", "/models/a.onnx: no such file"},
      {"a/b and c/d stay", "a/b and c/d stay"},
      {"/src/a.cc:71", ""},
      {"/src/a.cc:71 no signature here", "no signature here"},
      {"[ONNXRuntimeError] : broken", "[ONNXRuntimeError] : broken"},
      {"Non-zero status code returned while running ReduceMax node. Name:'' Status Message: ReduceMax is not defined",
       "a ReduceMax node: ReduceMax is not defined"},
      {"Non-zero status code returned while running If node. Name:'i' Status Message: Non-zero status code returned "
       "while running Gather node. Name:'a'b' Status Message: /src/g.cc:9 void f() idx=7",
       "If node 'i': Gather node 'a'b': idx=7"},
      {"Non-zero status code returned while running MyProvider_1149_0 node. Name:'MyProvider_MyProvider_1149_0_0' "
       "Status "
       "Message: no power",
       "a node of MyProvider: no power"},
      {"Non-zero status code returned while running Op_2 node. Name:'o' Status Message: no", "Op_2 node 'o': no"},
      {"Non-zero status code returned while running ", "Non-zero status code returned while running"},
      {"Non-zero status code returned while running X node. Name:'",
       "Non-zero status code returned while running X node. Name:'"},
      {"/src/a.h:1 f(", "f("},
      {"/src/a.h:1 f() [with never ends", ""},
  };
  for (const Case& c : cases) EXPECT_EQ(readable_message(c.text), c.readable) << c.text;
}

TEST(LoggedError, IsTakenOnce) {
  remember_logged_error("/src/a.cc:71 void f() no device");
  EXPECT_EQ(take_logged_error(), "no device");
  EXPECT_EQ(take_logged_error(), "");
}

TEST(Remarks, AreWhatProvidersSayOfThemselves) {
  (void)take_remarks();
  remember_remark("SomeExecutionProvider: no node: its input is a sequence");
  remember_remark("Some nodes were not assigned to the preferred execution providers: see the log");
  remember_remark("SomeExecutionProvider");
  const std::vector<Remark> remarks = take_remarks();
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_EQ(remarks[0].provider, "SomeExecutionProvider");
  EXPECT_EQ(remarks[0].text, "no node: its input is a sequence");
  EXPECT_TRUE(take_remarks().empty());
}

}  // namespace
}  // namespace gpux::ort
