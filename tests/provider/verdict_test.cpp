#include "gpux/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/format_message.h"
#include "provider/placement.h"
#include "provider/remedy.h"

namespace gpux {
namespace {

using Outcome = ProviderAttempt::Outcome;
using testing::ElementsAre;
using testing::HasSubstr;

ProviderAttempt attempt(const char* id, const char* ort_name, Outcome outcome, const char* reason = "",
                        const char* remedy = "") {
  ProviderAttempt made;
  made.id = id;
  made.ort_name = ort_name;
  made.outcome = outcome;
  made.reason = reason;
  made.remedy = Message(remedy);
  return made;
}

Verdict verdict_of(std::vector<ProviderAttempt> tried) {
  Verdict verdict;
  verdict.requested = "tensorrt";
  verdict.requested_from = "--provider";
  verdict.tried = std::move(tried);
  verdict.runtime_version = "1.31.1";
  verdict.runtime_path = "/lib/libonnxruntime.so";
  return verdict;
}

std::vector<ort::AssignedNode> nodes(std::size_t cuda, std::size_t cpu) {
  std::vector<ort::AssignedNode> assigned(cuda, {"CUDAExecutionProvider", "a", "", "Conv"});
  assigned.insert(assigned.end(), cpu, {"CPUExecutionProvider", "b", "", "Det"});
  return assigned;
}

Verdict three() {
  return verdict_of(
      {attempt("tensorrt", "TensorrtExecutionProvider", Outcome::unavailable, "not installed", "install it"),
       attempt("cuda", "CUDAExecutionProvider", Outcome::active),
       attempt("cpu", "CPUExecutionProvider", Outcome::active)});
}

TEST(Precision, IsNamedWhereItIsKnown) {
  Verdict verdict = three();
  provider::apply_placement(nodes(0, 1), {}, verdict);
  EXPECT_THAT(to_line(verdict), HasSubstr("ran on cpu (1 of 1 nodes); asked for"));
  EXPECT_TRUE(nlohmann::json::parse(to_json(verdict)).at("precision").is_null());
  verdict.precision = "int8";
  EXPECT_THAT(to_line(verdict), HasSubstr("ran on cpu (1 of 1 nodes) in int8; asked for"));
  EXPECT_EQ(nlohmann::json::parse(to_json(verdict)).at("precision"), "int8");
}

TEST(Placement, CountsNodesAndNamesTheActive) {
  Verdict verdict = three();
  provider::apply_placement(nodes(1, 3), {}, verdict);
  EXPECT_THAT(verdict.active, ElementsAre("cpu", "cuda"));  // most nodes first
  EXPECT_EQ(verdict.node_count, 4U);
  EXPECT_TRUE(verdict.placement_known);
  EXPECT_EQ(verdict.tried[0].outcome, Outcome::unavailable);
  EXPECT_EQ(verdict.tried[1].node_count, 1U);
  EXPECT_DOUBLE_EQ(verdict.tried[1].node_share, 0.25);
  EXPECT_DOUBLE_EQ(verdict.tried[2].node_share, 0.75);
}

TEST(Placement, DoesNotCallActiveWhatGotNothing) {
  Verdict verdict = three();
  provider::apply_placement(nodes(0, 2), {}, verdict);
  EXPECT_THAT(verdict.active, ElementsAre("cpu"));
  EXPECT_EQ(verdict.tried[1].outcome, Outcome::no_nodes);
  EXPECT_THAT(verdict.tried[1].reason, HasSubstr("none of the model's nodes"));
}

TEST(Placement, TellsWhoFailedWhenItWasAsked) {
  const std::string complaint = "OrtEp::GetCapability() for CUDAExecutionProvider failed with error: no answer";
  Verdict verdict = three();
  provider::apply_placement(nodes(0, 2), {.error = complaint, .remarks = {}}, verdict);
  EXPECT_EQ(verdict.tried[1].outcome, Outcome::failed);
  EXPECT_THAT(verdict.tried[1].reason, HasSubstr("none of the model's nodes: " + complaint));
  verdict = three();
  provider::apply_placement(nodes(1, 1), {.error = complaint, .remarks = {}},
                            verdict);  // one of the model's graphs was claimed all the same
  EXPECT_EQ(verdict.tried[1].outcome, Outcome::active);
  verdict = three();
  provider::apply_placement(nodes(0, 2),
                            {.error = "OrtEp::GetCapability() for another failed with error: no answer", .remarks = {}},
                            verdict);
  EXPECT_EQ(verdict.tried[1].outcome, Outcome::no_nodes);
}

TEST(Placement, GivesAProvidersOwnReason) {
  Verdict verdict = three();
  provider::apply_placement(nodes(0, 2),
                            {.error = {},
                             .remarks = {{"CUDAExecutionProvider", "a branch of it"},
                                         {"CUDAExecutionProvider", "too small"},
                                         {"OtherExecutionProvider", "another"}}},
                            verdict);
  EXPECT_EQ(verdict.tried[1].reason, "too small");
}

TEST(Placement, LeavesTheCpuOutWhereNothingIsLeftForIt) {
  Verdict verdict = three();
  provider::apply_placement(nodes(5, 0), {}, verdict);
  EXPECT_THAT(verdict.active, ElementsAre("cuda"));
  EXPECT_EQ(verdict.tried[2].outcome, Outcome::not_needed);
}

TEST(Placement, OfAModelWithoutNodesIsTheCpu) {
  Verdict verdict = three();
  provider::apply_placement({}, {}, verdict);
  EXPECT_THAT(verdict.active, ElementsAre("cpu"));
  EXPECT_EQ(verdict.node_count, 0U);
  EXPECT_EQ(verdict.tried[1].outcome, Outcome::no_nodes);
  EXPECT_THAT(verdict.tried[1].reason, HasSubstr("while the model was loaded"));
}

// The nodes of a provider that ONNX Runtime changes to another layout are not in its list.
struct Doubt {
  const char* id;
  const char* source;
  std::vector<std::pair<std::string, std::string>> options;
  bool may_leave_out;
};

TEST(Placement, DoubtsTheListOfProvidersWhoseLayoutIsChanged) {
  const Doubt doubts[] = {{"webgpu", "built in", {}, true},
                          {"webgpu", "built in", {{"preferredLayout", "NHWC"}}, true},
                          {"webgpu", "built in", {{"preferredLayout", "NCHW"}}, false},
                          {"webgpu", "plugin", {}, false},
                          {"xnnpack", "built in", {}, true},
                          {"cuda", "bridge", {}, false},
                          {"cuda", "bridge", {{"prefer_nhwc", "0"}}, false},
                          {"cuda", "bridge", {{"prefer_nhwc", "1"}}, true},
                          {"cuda", "plugin", {{"prefer_nhwc", "1"}}, false},
                          {"tensorrt", "bridge", {}, false}};
  for (const Doubt& doubt : doubts) {
    Verdict verdict = verdict_of({attempt(doubt.id, "CUDAExecutionProvider", Outcome::active),
                                  attempt("cpu", "CPUExecutionProvider", Outcome::active)});
    verdict.tried[0].source = doubt.source;
    verdict.tried[0].options = doubt.options;
    EXPECT_EQ(provider::may_leave_out_nodes(nodes(1, 1), verdict), doubt.may_leave_out) << doubt.id;
    EXPECT_TRUE(provider::may_leave_out_nodes({}, verdict));
    verdict.tried[0].outcome = Outcome::failed;
    EXPECT_FALSE(provider::may_leave_out_nodes({}, verdict)) << "the CPU is alone";
  }
}

TEST(Placement, IsNotKnownWhereTheListLeavesNodesOut) {
  struct Case {
    std::vector<ort::AssignedNode> nodes;
    bool lists, uses_other_device;
    std::vector<std::string> active;
    Outcome cpu;
    bool is_shown;
  };

  const Case cases[] = {
      {nodes(0, 0), false, false, {"cuda"}, Outcome::not_needed, true},
      {nodes(0, 0), true, false, {"cuda"}, Outcome::not_needed, true},  // it lists its nodes elsewhere
      {nodes(2, 0), false, false, {"cuda"}, Outcome::not_needed, true},
      {nodes(2, 1), false, false, {"cuda", "cpu"}, Outcome::active, true},
      {nodes(0, 3), false, true, {"cuda", "cpu"}, Outcome::active, true},
      {nodes(0, 3), false, false, {"cuda", "cpu"}, Outcome::active, false},
  };
  for (const Case& c : cases) {
    Verdict verdict = three();
    if (!c.lists) verdict.tried[1].options = {{"prefer_nhwc", "1"}};
    provider::apply_placement(c.nodes, {}, verdict, {.has_work = true, .uses_other_device = c.uses_other_device});
    EXPECT_FALSE(verdict.placement_known);
    EXPECT_EQ(verdict.node_count, 0U);
    EXPECT_EQ(verdict.active, c.active);
    EXPECT_EQ(verdict.tried[1].outcome, Outcome::active);
    EXPECT_EQ(verdict.tried[1].reason.empty(), c.is_shown) << verdict.tried[1].reason;
    EXPECT_EQ(verdict.tried[2].outcome, c.cpu);
    EXPECT_THAT(verdict.notes, ElementsAre("how many nodes run where is not known: ONNX Runtime 1.31.1 does not list "
                                           "those of cuda"));
    EXPECT_THAT(to_line(verdict), testing::StartsWith("ran on cuda"));
  }
  // Another provider that lists its nodes has none.
  Verdict two = verdict_of({attempt("xnnpack", "XnnpackExecutionProvider", Outcome::active),
                            attempt("cuda", "CUDAExecutionProvider", Outcome::active),
                            attempt("cpu", "CPUExecutionProvider", Outcome::active)});
  provider::apply_placement(nodes(0, 0), {}, two, {.has_work = true});
  EXPECT_THAT(two.active, ElementsAre("xnnpack"));
  EXPECT_EQ(two.tried[1].outcome, Outcome::no_nodes);
  // A list that cannot leave anything out is as it was.
  Verdict known = three();
  provider::apply_placement(nodes(1, 1), {}, known, {.has_work = true});
  EXPECT_TRUE(known.placement_known);
}

TEST(VerdictLine, NamesTheDeviceWhereThereAreSeveral) {
  Verdict verdict = three();
  provider::apply_placement(nodes(4, 0), {}, verdict);
  ProviderAttempt& cuda = verdict.tried[1];
  cuda.devices = {{.kind = "gpu", .name = "H100", .vendor = "NVIDIA"},
                  {.kind = "gpu",
                   .name = "T4",
                   .vendor = "NVIDIA",
                   .index = 1,
                   .memory_bytes = 1024,
                   .driver = "570.86",
                   .architecture = "sm_75",
                   .address = "0000:41:00.0"}};
  cuda.device = cuda.devices[1];
  EXPECT_THAT(to_line(verdict), testing::StartsWith("ran on cuda (4 of 4 nodes, device 1: T4); "));
  const nlohmann::json json = nlohmann::json::parse(to_json(verdict))["tried"][1];
  EXPECT_EQ(json["device"], 1);
  EXPECT_EQ(json["devices"][1], nlohmann::json({{"index", 1},
                                                {"kind", "gpu"},
                                                {"name", "T4"},
                                                {"vendor", "NVIDIA"},
                                                {"memory_bytes", 1024},
                                                {"driver", "570.86"},
                                                {"architecture", "sm_75"},
                                                {"address", "0000:41:00.0"}}));
  cuda.devices.pop_back();
  EXPECT_THAT(to_line(verdict), testing::StartsWith("ran on cuda (4 of 4 nodes); "));
}

TEST(VerdictLine, SaysWhatRanAndWhyNotTheRest) {
  Verdict verdict = three();
  provider::apply_placement(nodes(3, 1), {}, verdict);
  verdict.notes = {Message("a note")};
  EXPECT_EQ(
      to_line(verdict),
      "ran on cuda (3 of 4 nodes), cpu (1 of 4 nodes); asked for tensorrt (--provider); not tensorrt: not installed "
      "(remedy: install it); a note");
}

TEST(VerdictLine, NamesSettingsAsItsReadersDo) {
  Verdict verdict = three();
  provider::apply_placement(nodes(3, 1), {}, verdict);
  verdict.tried.front().remedy = provider::ask_first("tensorrt");
  verdict.notes = {format_message("{} tensorrt.shapes=… names them", setting_named("provider_option"))};
  const auto as_flag = [](const Subject& subject) { return "--" + subject.name; };
  EXPECT_THAT(to_line(verdict), testing::EndsWith("(remedy: ask for it first: provider tensorrt); provider_option "
                                                  "tensorrt.shapes=… names them"));
  EXPECT_THAT(to_line(verdict, as_flag), testing::EndsWith("(remedy: ask for it first: --provider tensorrt); "
                                                           "--provider_option tensorrt.shapes=… names them"));
  const auto json = nlohmann::json::parse(to_json(verdict, as_flag));
  EXPECT_EQ(json["tried"][0]["remedy"], "ask for it first: --provider tensorrt");
  EXPECT_EQ(json["notes"][0], "--provider_option tensorrt.shapes=… names them");
}

TEST(VerdictLine, LeavesOutWhatNobodyAskedForByName) {
  Verdict verdict = three();
  verdict.requested = "auto";
  provider::apply_placement(nodes(4, 0), {}, verdict);
  EXPECT_EQ(to_line(verdict), "ran on cuda (4 of 4 nodes); asked for auto (--provider)");
  verdict.tried[1].outcome = Outcome::failed;
  verdict.tried[1].reason = "no driver";
  verdict.active.clear();
  EXPECT_EQ(to_line(verdict), "ran nowhere; asked for auto (--provider); not cuda: no driver");
}

TEST(VerdictLine, SaysWhyNoGpuRanWhenOneWasRequested) {
  Verdict verdict;
  verdict.requested = "gpu";
  verdict.requested_from = "--provider";
  const auto attempt = [&](const char* id, Outcome outcome, const char* reason, const char* remedy = "") {
    ProviderAttempt one;
    one.id = id;
    one.outcome = outcome;
    one.reason = reason;
    one.remedy = Message(remedy);
    verdict.tried.push_back(one);
  };
  attempt("tensorrt", Outcome::unavailable, "no NVIDIA GPU on this machine");
  attempt("cuda", Outcome::unavailable, "no NVIDIA GPU on this machine");
  attempt("migraphx", Outcome::unavailable, "no AMD GPU on this machine");
  attempt("coreml", Outcome::unavailable, "runs on macos only");
  attempt("directml", Outcome::unavailable, "its library cannot be opened");
  attempt("openvino", Outcome::not_needed, "only on a processor", "ask for it by name: --provider openvino");
  attempt("webgpu", Outcome::unavailable, "not installed", "install it");
  attempt("cpu", Outcome::active, "");
  verdict.active = {"cpu"};
  EXPECT_EQ(to_line(verdict),
            "ran on cpu; asked for gpu (--provider); not tensorrt, cuda: no NVIDIA GPU on this machine; not migraphx: "
            "no AMD GPU on this machine; not directml: its library cannot be opened; not openvino: only on a processor "
            "(remedy: ask for it by name: --provider openvino); not webgpu: not installed (remedy: install it)");

  // By its name it is reported.
  verdict.requested = "coreml";
  EXPECT_THAT(to_line(verdict), testing::HasSubstr("not coreml: runs on macos only"));
  verdict.requested = "gpu";

  // One that runs makes the reasons of the others uninteresting.
  verdict.tried[6].outcome = Outcome::active;
  verdict.active = {"webgpu", "cpu"};
  EXPECT_EQ(to_line(verdict), "ran on webgpu, cpu; asked for gpu (--provider)");
}

TEST(VerdictJson, HasEveryMemberOfAVerdict) {
  Verdict verdict = three();
  verdict.tried[1].devices = {{.kind = "gpu", .name = "A \"card\"", .vendor = "NVIDIA", .index = 1}};
  verdict.tried[1].options = {{"device_id", "1"}};
  verdict.fell_back = true;
  verdict.notes = {Message("bad \xff byte")};
  provider::apply_placement(nodes(3, 1), {}, verdict);
  const auto json = nlohmann::json::parse(to_json(verdict));
  EXPECT_EQ(json["requested"], "tensorrt");
  EXPECT_EQ(json["requested_from"], "--provider");
  EXPECT_EQ(json["active"], (std::vector<std::string>{"cuda", "cpu"}));
  EXPECT_EQ(json["fell_back"], true);
  EXPECT_EQ(json["node_count"], 4);
  EXPECT_EQ(json["placement_known"], true);
  EXPECT_EQ(json["onnxruntime"]["version"], "1.31.1");
  EXPECT_EQ(json["onnxruntime"]["path"], "/lib/libonnxruntime.so");
  ASSERT_EQ(json["tried"].size(), 3U);
  EXPECT_EQ(json["tried"][0]["outcome"], "unavailable");
  EXPECT_EQ(json["tried"][0]["reason"], "not installed");
  EXPECT_EQ(json["tried"][0]["remedy"], "install it");
  EXPECT_EQ(json["tried"][1]["provider"], "cuda");
  EXPECT_EQ(json["tried"][1]["ort_name"], "CUDAExecutionProvider");
  EXPECT_EQ(json["tried"][1]["nodes"], 3);
  EXPECT_EQ(json["tried"][1]["share"], 0.75);
  EXPECT_EQ(json["tried"][1]["options"]["device_id"], "1");
  EXPECT_EQ(json["tried"][1]["devices"][0]["name"], "A \"card\"");
  EXPECT_EQ(json["tried"][1]["devices"][0]["index"], 1);
  EXPECT_FALSE(json["tried"][1].contains("reason"));
}

TEST(VerdictJson, NamesEveryOutcome) {
  EXPECT_STREQ(to_string(Outcome::active), "active");
  EXPECT_STREQ(to_string(Outcome::no_nodes), "no_nodes");
  EXPECT_STREQ(to_string(Outcome::unavailable), "unavailable");
  EXPECT_STREQ(to_string(Outcome::failed), "failed");
  EXPECT_STREQ(to_string(Outcome::not_needed), "not_needed");
}

}  // namespace
}  // namespace gpux
