#include "provider/absence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux::provider {
namespace {

using Outcome = ProviderAttempt::Outcome;

struct Tried {
  const char* id;
  Outcome outcome;
};

TEST(Absence, IsOfWhatTheRequestNames) {
  constexpr Outcome active = Outcome::active, missing = Outcome::unavailable, empty = Outcome::no_nodes,
                    failed = Outcome::failed, passed_over = Outcome::not_needed;

  struct Case {
    const char* requested;
    std::vector<Tried> tried;
    const char* line;  ///< empty: nothing is absent
  };

  const Case cases[] = {
      {"auto", {{"cuda", missing}, {"cpu", active}}, ""},
      {"AUTO", {{"cuda", missing}, {"cpu", active}}, ""},
      {"fastest", {{"cuda", missing}, {"cpu", active}}, ""},
      {"cpu", {{"cpu", active}}, ""},
      {"CPUExecutionProvider", {{"cpu", active}}, ""},
      {"cpu,", {{"cpu", active}}, ""},
      {"cuda", {{"cuda", active}, {"cpu", active}}, ""},
      {"cuda", {{"cuda", missing}, {"cpu", active}}, "cuda did not run: no cuda; remedy: get cuda"},
      {"openvino", {{"openvino", empty}, {"cpu", active}}, "openvino did not run: no openvino; remedy: get openvino"},
      {"openvino", {{"openvino", failed}, {"cpu", active}}, "openvino did not run: no openvino; remedy: get openvino"},
      // Its chain is a fallback, too.
      {"tensorrt",
       {{"tensorrt", missing}, {"cuda", active}, {"cpu", active}},
       "tensorrt did not run: no tensorrt; remedy: get tensorrt"},
      {"tensorrt,cuda,cpu", {{"tensorrt", missing}, {"cuda", active}, {"cpu", active}}, ""},
      {"tensorrt,cuda,cpu",
       {{"tensorrt", missing}, {"cuda", empty}, {"cpu", active}},
       "nothing of 'tensorrt,cuda,cpu' ran; tensorrt: no tensorrt; cuda: no cuda; remedy: gpux doctor"},
      // The CPU took what the list left.
      {"cuda,", {{"cuda", empty}, {"cpu", active}}, "cuda did not run: no cuda; remedy: get cuda"},
      {"gpu", {{"cuda", missing}, {"webgpu", active}, {"cpu", active}}, ""},
      {"gpu",
       {{"cuda", missing}, {"webgpu", passed_over}, {"cpu", active}},
       "nothing of 'gpu' ran; remedy: gpux doctor"},
      {"gpu",
       {{"cuda", missing}, {"webgpu", failed}, {"cpu", active}},
       "nothing of 'gpu' ran; webgpu: no webgpu; remedy: gpux doctor"},
      {"npu", {{"qnn", missing}, {"vitisai", missing}, {"cpu", active}}, "nothing of 'npu' ran; remedy: gpux doctor"},
  };
  for (const Case& one : cases) {
    Verdict verdict;
    verdict.requested = one.requested;
    for (const auto& [id, outcome] : one.tried) {
      ProviderAttempt attempt;
      attempt.id = id;
      attempt.outcome = outcome;
      if (outcome != Outcome::active) {
        attempt.reason = std::string("no ") + id;
        attempt.remedy = Message(std::string("get ") + id);
      } else {
        verdict.active.emplace_back(id);
      }
      verdict.tried.push_back(std::move(attempt));
    }
    const std::optional<Absence> absence = absence_of(verdict);
    EXPECT_EQ(absence ? to_string(to_line(*absence)) : "", one.line) << one.requested;
  }
}

TEST(Absence, TellsTheMachineFromTheModel) {
  using Cause = Absence::Cause;
  constexpr Outcome missing = Outcome::unavailable, empty = Outcome::no_nodes, failed = Outcome::failed,
                    passed_over = Outcome::not_needed;

  struct Case {
    const char* requested;
    std::vector<Outcome> tried;
    Cause cause;
  };

  for (const Case& one : std::vector<Case>{{"cuda", {missing}, Cause::unavailable},
                                           {"cuda", {empty}, Cause::no_nodes},
                                           {"cuda", {failed}, Cause::failed},
                                           {"tensorrt", {missing, empty}, Cause::unavailable},
                                           {"a,b,cpu", {missing, missing}, Cause::unavailable},
                                           {"a,b,cpu", {missing, empty}, Cause::no_nodes},
                                           {"a,b,cpu", {empty, failed}, Cause::failed},
                                           {"gpu", {missing, passed_over}, Cause::unavailable}}) {
    Verdict verdict;
    verdict.requested = one.requested;
    for (const Outcome outcome : one.tried) {
      ProviderAttempt attempt;
      attempt.id = "p" + std::to_string(verdict.tried.size());
      attempt.outcome = outcome;
      verdict.tried.push_back(std::move(attempt));
    }
    const std::optional<Absence> absence = absence_of(verdict);
    ASSERT_TRUE(absence) << one.requested;
    EXPECT_EQ(absence->cause, one.cause) << one.requested;
  }
}

}  // namespace
}  // namespace gpux::provider
