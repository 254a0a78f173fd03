#include "provider/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/spelling.h"
#include "gpux/error.h"
#include "provider/probe.h"
#include "provider/table.h"

namespace gpux::provider {
namespace {

using Form = Request::Form;
using testing::ElementsAre;
using testing::HasSubstr;

std::string failure_of(std::string_view text, const std::vector<std::string>& own_names = {}) {
  try {
    (void)parse_request(text, own_names);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    return error.message();
  }
  return "accepted";
}

std::string chain(std::string_view text, System system) {
  return join(order_of(parse_request(text), system), " ");
}

TEST(Request, KnowsEachProviderByEveryNameItHas) {
  for (const ProviderRow& row : table()) {
    std::vector<std::string> names{std::string(row.id), std::string(row.built_in_name)};
    names.insert(names.end(), row.plugin_names.begin(), row.plugin_names.end());
    names.insert(names.end(), row.aliases.begin(), row.aliases.end());
    for (const std::string& name : names) {
      if (name.empty()) continue;
      for (const std::string& spelling : {name, lower(name)}) {
        const Request request = parse_request(spelling);
        EXPECT_EQ(request.form, Form::single) << spelling;
        EXPECT_THAT(request.ids, ElementsAre(row.id)) << spelling;
        EXPECT_EQ(request.text, spelling);
      }
    }
  }
}

TEST(Request, TakesTheSpellingsOfOtherPeoplesDocuments) {
  struct Case {
    const char* name;
    const char* id;
  };

  const Case cases[] = {{"trt", "tensorrt"},
                        {"TensorRTExecutionProvider", "tensorrt"},
                        {"TensorrtExecutionProvider", "tensorrt"},
                        {"CUDAExecutionProvider", "cuda"},
                        {"CudaExecutionProvider", "cuda"},
                        {"CudaPluginExecutionProvider", "cuda"},
                        {"ROCmExecutionProvider", "migraphx"},
                        {"ROCMExecutionProvider", "migraphx"},
                        {"amd", "migraphx"},
                        {"AMDGPUExecutionProvider", "migraphx"},
                        {"DirectMLExecutionProvider", "directml"},
                        {"DmlExecutionProvider", "directml"},
                        {"dml", "directml"},
                        {"CoreMLExecutionProvider", "coreml"},
                        {"apple", "coreml"},
                        {"OpenVINOExecutionProvider", "openvino"},
                        {"intel", "openvino"},
                        {"WebGPUExecutionProvider", "webgpu"},
                        {"vulkan", "webgpu"},
                        {"metal", "webgpu"},
                        {"dx12", "webgpu"},
                        {"QnnExecutionProvider", "qnn"},
                        {"ryzenai", "vitisai"},
                        {"XNNPACKExecutionProvider", "xnnpack"},
                        {"CPUExecutionProvider", "cpu"},
                        {"CPU", "cpu"}};
  for (const Case& c : cases) EXPECT_THAT(parse_request(c.name).ids, ElementsAre(c.id)) << c.name;
}

TEST(Request, ReadsWordsKindsAndLists) {
  struct Case {
    const char* text;
    Form form;
    std::vector<std::string> ids;
  };

  const Case cases[] = {{"auto", Form::automatic, {}},
                        {"AUTO", Form::automatic, {}},
                        {"fastest", Form::fastest, {}},
                        {"gpu", Form::kind, {"gpu"}},
                        {"npu", Form::kind, {"npu"}},
                        {"cuda", Form::single, {"cuda"}},
                        {"cuda,", Form::list, {"cuda"}},
                        {"tensorrt,cuda,cpu", Form::list, {"tensorrt", "cuda", "cpu"}},
                        {" trt , nvidia ,cpu", Form::list, {"tensorrt", "cuda", "cpu"}},
                        {"cuda,nvidia,cuda", Form::list, {"cuda"}}};
  for (const Case& c : cases) {
    const Request request = parse_request(c.text);
    EXPECT_EQ(request.form, c.form) << c.text;
    EXPECT_EQ(request.ids, c.ids) << c.text;
    EXPECT_EQ(request.text, c.text);
    EXPECT_TRUE(request.remarks.empty());
  }
}

TEST(Request, SaysOnceWhatBecameOfRocm) {
  for (const char* text : {"rocm", "ROCmExecutionProvider", "rocm,cpu"}) {
    EXPECT_THAT(parse_request(text).remarks, ElementsAre(HasSubstr("'rocm' means migraphx"))) << text;
  }
  EXPECT_TRUE(parse_request("amd").remarks.empty());
}

TEST(Request, RefusesWhatItDoesNotKnowAndNamesWhatIsNear) {
  EXPECT_THAT(failure_of("cudda"),
              HasSubstr("unknown provider 'cudda'; did you mean 'cuda'?; accepted: auto, fastest"));
  EXPECT_THAT(failure_of("opnvino"), HasSubstr("did you mean 'openvino'?"));
  EXPECT_THAT(failure_of("cuda,tensort"), HasSubstr("did you mean 'tensorrt'?"));
  EXPECT_THAT(failure_of("quantum"), HasSubstr("unknown provider 'quantum'; accepted: "));
  EXPECT_THAT(failure_of("encod", {"encoder"}), HasSubstr("did you mean 'encoder'?"));
  for (const char* text : {"", ",", "cuda,,cpu", "cuda;cpu"})
    EXPECT_THAT(failure_of(text), HasSubstr("unknown provider")) << text;
  for (const char* text : {"auto,cpu", "cuda,gpu", "npu,cpu", "fastest,cpu"}) {
    EXPECT_THAT(failure_of(text), HasSubstr("a list names providers only")) << text;
  }
}

TEST(Request, PrefersTheUsersOwnNames) {
  EXPECT_THAT(parse_request("Example", {"example"}).ids, ElementsAre("example"));
  EXPECT_THAT(parse_request("intel", {"intel"}).ids, ElementsAre("intel"));
}

TEST(OwnNames, AreThoseOfPluginsThatNoRowStandsFor) {
  const std::vector<PluginFile> plugins{{"mine", "/there/libgpux_encoder_provider.so", "given"},
                                        {"encoder", "/here/libgpux_encoder_provider.so", "given"},
                                        {"libgpux_encoder_provider", "/lib/libgpux_encoder_provider.so", "beside gpux"},
                                        {"libexample", "/home/providers/libexample.so", "GPUX_HOME"}};
  EXPECT_THAT(own_names(plugins), ElementsAre("mine", "libexample"));
}

TEST(Order, FollowsTheDocumentedChains) {
  struct Case {
    const char* text;
    const char* order;
  };

  const Case anywhere[] = {{"tensorrt", "tensorrt cuda cpu"},
                           {"tensorrt-rtx", "tensorrt-rtx cuda cpu"},
                           {"cuda", "cuda cpu"},
                           {"rocm", "migraphx cpu"},
                           {"vitisai", "vitisai directml cpu"},
                           {"npu", "vitisai qnn directml cpu"},
                           {"webgpu", "webgpu cpu"},
                           {"cpu", "cpu"},
                           {"cpu,cuda", "cpu cuda"},
                           {"cuda,", "cuda"},
                           {"tensorrt,cuda,cpu", "tensorrt cuda cpu"}};
  for (const Case& c : anywhere) {
    for (const System system : {System::linux_, System::macos, System::windows}) {
      EXPECT_EQ(chain(c.text, system), c.order) << c.text;
    }
  }
}

TEST(Order, OfAutoIsTheSystemsOwn) {
  EXPECT_EQ(chain("auto", System::linux_),
            "tensorrt tensorrt-rtx cuda migraphx coreml directml openvino webgpu mlx cpu");
  EXPECT_EQ(chain("auto", System::macos),
            "coreml tensorrt tensorrt-rtx cuda migraphx directml openvino webgpu mlx cpu");
  EXPECT_EQ(chain("auto", System::windows),
            "tensorrt tensorrt-rtx cuda directml openvino migraphx coreml webgpu mlx cpu");
  EXPECT_EQ(chain("gpu", System::windows), chain("auto", System::windows));
}

// Plugins of no row come after those that something is known of, where a request is for any device.
TEST(Order, HasThePluginsOfNoRowBeforeTheCpu) {
  const std::vector<std::string> own{"ggml", "mine"};
  for (const char* request : {"auto", "gpu", "npu", "fastest"}) {
    const std::vector<std::string> ids = order_of(parse_request(request), System::linux_, own);
    ASSERT_GE(ids.size(), 4U);
    EXPECT_THAT(std::vector<std::string>(ids.end() - 3, ids.end()), ElementsAre("ggml", "mine", "cpu")) << request;
  }
  for (const char* request : {"cuda", "cuda,cpu", "cpu"}) {
    EXPECT_EQ(order_of(parse_request(request), System::linux_, own), order_of(parse_request(request), System::linux_));
  }
}

TEST(Order, OfFastestIsEverything) {
  const std::vector<std::string> ids = order_of(parse_request("fastest"), System::linux_);
  EXPECT_EQ(ids.size(), table().size());
  EXPECT_EQ(ids.back(), "cpu");
}

TEST(Table, HasOneRowForEachName) {
  std::vector<std::string> seen;
  for (const ProviderRow& row : table()) {
    for (const std::string_view alias : row.aliases) seen.emplace_back(alias);
    seen.emplace_back(row.id);
    EXPECT_FALSE(row.description.empty()) << row.id;
    EXPECT_FALSE(row.remedy.empty()) << row.id;
    EXPECT_FALSE(row.built_in_name.empty() && row.plugin_names.empty()) << row.id;
    EXPECT_EQ(row.plugin_names.empty(), row.plugins.empty()) << row.id;
    EXPECT_EQ(row.vendor_ids.empty() || !row.hardware.empty(), true) << row.id;
    for (const std::string_view next : row.chain) EXPECT_NE(find_row(next), nullptr) << row.id;
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
  EXPECT_EQ(table().back().id, "cpu");
  EXPECT_EQ(find_row(""), nullptr);
}

}  // namespace
}  // namespace gpux::provider
