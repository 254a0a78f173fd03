#include "runtime/loading/memory_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::runtime {
namespace {

using Outcome = ProviderAttempt::Outcome;

ProviderAttempt attempt(const char* id, Outcome outcome, const char* device_kind) {
  ProviderAttempt made;
  made.id = id;
  made.outcome = outcome;
  made.devices = {{.kind = device_kind, .name = {}, .vendor = {}, .index = 0}};
  return made;
}

Verdict running(std::vector<ProviderAttempt> tried) {
  Verdict verdict;
  for (const ProviderAttempt& one : tried) {
    if (one.outcome == Outcome::active) verdict.active.push_back(one.id);
  }
  verdict.tried = std::move(tried);
  return verdict;
}

TEST(MemoryLimit, IsMeasuredOrKeptByTheProviderOrToldAsNotEnforced) {
  const ProviderAttempt cpu = attempt("cpu", Outcome::active, "cpu");
  const ProviderAttempt webgpu = attempt("webgpu", Outcome::active, "gpu");
  const ProviderAttempt idle = attempt("webgpu", Outcome::no_nodes, "gpu");
  const ProviderAttempt software = attempt("webgpu", Outcome::active, "cpu");

  struct Case {
    std::vector<ProviderAttempt> tried;
    bool has_limit, limited_by_provider;
    bool measured, not_enforced;
  };

  const Case cases[] = {
      {{cpu}, true, false, true, false},           {{cpu}, false, false, false, false},
      {{webgpu, cpu}, true, false, false, true},   {{webgpu, cpu}, false, false, false, false},
      {{webgpu, cpu}, true, true, false, false},   {{idle, cpu}, true, false, true, false},
      {{software, cpu}, true, false, true, false},
  };
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    const Case& one = cases[i];
    for (const Strictness strict : {Strictness::off, Strictness::provider, Strictness::nodes}) {
      SCOPED_TRACE(testing::Message() << "case " << i << ", strict " << static_cast<int>(strict));
      LoadOptions options;
      if (one.has_limit) options.memory_bytes = 1000;
      options.strict = strict;
      Verdict verdict = running(one.tried);
      int measured = 0;
      std::string refused;
      try {
        keep_memory_limit(options, one.limited_by_provider, verdict, [&] { ++measured; });
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::provider_unavailable);
        refused = error.message();
      }
      const std::string note =
          "memory limit not enforced: webgpu, cpu has none of its own, and its memory cannot be measured";
      EXPECT_EQ(measured, one.measured ? 1 : 0);
      EXPECT_EQ(refused, one.not_enforced && strict != Strictness::off ? "strict: " + note : "");
      const bool is_noted = one.not_enforced && strict == Strictness::off;
      EXPECT_EQ(verdict.notes, is_noted ? std::vector<Message>{Message(note)} : std::vector<Message>{});
    }
  }
}

}  // namespace
}  // namespace gpux::runtime
