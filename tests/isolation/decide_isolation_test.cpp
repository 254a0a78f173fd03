// Whether a model runs in a worker process: by request, or by what its load brings.
#include "isolation/decide_isolation.h"

#include <ostream>
#include <string>

#include <gtest/gtest.h>

namespace gpux::isolation {
namespace {

constexpr Isolation thread = Isolation::thread;
constexpr Isolation process = Isolation::process;

struct Case {
  const char* name;
  IsolationRequest request;
  IsolationFacts facts;
  Isolation isolation;
  const char* reason;
};

void PrintTo(const Case& one, std::ostream* stream) {
  *stream << one.name;
}

class DecideIsolation : public testing::TestWithParam<Case> {};

TEST_P(DecideIsolation, GivesItsReason) {
  const IsolationDecision decision = decide_isolation(GetParam().request, GetParam().facts);
  EXPECT_EQ(decision.isolation, GetParam().isolation);
  EXPECT_EQ(decision.reason, GetParam().reason);
}

IsolationFacts facts(std::string plugin, std::string operators = {}, bool is_pulled = false,
                     std::string obstacle = {}) {
  return {std::move(plugin), std::move(operators), is_pulled, std::move(obstacle)};
}

INSTANTIATE_TEST_SUITE_P(
    Table, DecideIsolation,
    testing::Values(
        Case{"nothing", {}, {}, thread, ""},
        Case{"nothing_with_an_obstacle", {}, facts("", "", false, "it generates text"), thread, ""},
        Case{"process", {process, "--isolation"}, {}, process, "the model runs in a worker process (--isolation)"},
        Case{"thread", {thread, "--isolation"}, {}, thread, ""},
        Case{"process_with_an_obstacle",
             {process, "gpux.yml:3:5"},
             facts("", "", false, "it generates text"),
             process,
             "the model runs in a worker process (gpux.yml:3:5)"},
        Case{"plugin",
             {},
             facts("npu1"),
             process,
             "the model runs in a worker process: the library of provider 'npu1' is given by its path"},
        Case{"plugin_in_a_thread",
             {thread, "--isolation"},
             facts("npu1"),
             thread,
             "the model runs in this process (--isolation), and a crash would end it: the library of provider 'npu1' "
             "is given by its path"},
        Case{"plugin_with_an_obstacle",
             {},
             facts("npu1", "", false, "it generates text"),
             thread,
             "the model runs in this process, as it generates text, and a crash would end it: the library of provider "
             "'npu1' is given by its path"},
        Case{"operators",
             {},
             facts("", "ops.so"),
             process,
             "the model runs in a worker process: 'ops.so' has custom operators"},
        Case{"pulled",
             {},
             facts("", "", true),
             process,
             "the model runs in a worker process: the package was pulled or loaded"},
        Case{"pulled_in_a_thread",
             {thread, "--isolation"},
             facts("", "", true),
             thread,
             "the model runs in this process (--isolation), and a crash would end it: the package was pulled or "
             "loaded"},
        Case{"pulled_that_asks_for_a_thread",
             {thread, "gpux.yml:3:5", true},
             facts("", "", true),
             process,
             "the model runs in a worker process: the package was pulled or loaded"},
        Case{"pulled_that_asks_for_a_process",
             {process, "gpux.yml:3:5", true},
             facts("", "", true),
             process,
             "the model runs in a worker process (gpux.yml:3:5)"},
        Case{"own_package_in_a_thread", {thread, "gpux.yml:3:5", true}, {}, thread, ""}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gpux::isolation
