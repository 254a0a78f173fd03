// Which of several providers crashes, found by loads in child processes.
#include "runtime/loading/preflight.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"
#include "isolation/load_facts.h"

namespace gpux::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

/// A machine whose loads crash where they use one of some providers.
class Machines {
 public:
  explicit Machines(std::set<std::string> crashing) : crashing_(std::move(crashing)) {}

  TrialEnd load(const LoadOptions& options) {
    requests.push_back(options.provider);
    std::set<std::string> left_out;
    for (const auto& [id, reason] : facts_of(options).crashed_providers) left_out.insert(id);
    for (const std::string& id : crashing_) {
      const bool is_used = options.provider == "auto" || options.provider == id + ",cpu";
      if (is_used && !left_out.contains(id)) return end;
    }
    return {.crash = {}, .has_loaded = true};
  }

  CrashedProviders find(const std::vector<std::string>& ids) {
    std::vector<ProviderFile> files;
    for (const std::string& id : ids) files.push_back({id, id});
    return find_crashing(files, {}, [this](const LoadOptions& options) { return load(options); });
  }

  std::vector<std::string> requests;
  TrialEnd end{.crash = "was ended by signal 11 (SIGSEGV)", .has_loaded = false};

 private:
  std::set<std::string> crashing_;
};

constexpr const char* reason =
    "its library crashed when it was first loaded: the process was ended by signal 11 (SIGSEGV)";

TEST(FindCrashing, TriesOnceWhereNothingCrashes) {
  Machines machine({});
  EXPECT_THAT(machine.find({"a", "b"}), IsEmpty());
  EXPECT_THAT(machine.requests, ElementsAre("auto"));
}

TEST(FindCrashing, BlamesTheOnlyOne) {
  Machines machine({"a"});
  EXPECT_THAT(machine.find({"a"}), ElementsAre(Pair("a", reason)));
  EXPECT_THAT(machine.requests, ElementsAre("auto", "auto"));
}

TEST(FindCrashing, FindsThoseOfSeveral) {
  Machines machine({"b", "c"});
  EXPECT_THAT(machine.find({"a", "b", "c"}), ElementsAre(Pair("b", reason), Pair("c", reason)));
  EXPECT_THAT(machine.requests, ElementsAre("auto", "a,cpu", "b,cpu", "c,cpu", "auto"));
}

TEST(FindCrashing, FindsOneThatHangs) {
  Machines machine({"b"});
  machine.end = {.crash = "did not end within 600 s", .has_loaded = false, .has_hung = true};
  EXPECT_THAT(
      machine.find({"a", "b"}),
      ElementsAre(Pair("b", "its library hung when it was first loaded: the process did not end within 600 s")));
}

TEST(FindCrashing, RefusesTheLoadWhereNoneIsToBlame) {
  for (const std::vector<std::string>& ids : {std::vector<std::string>{"a"}, {"a", "b"}}) {
    Machines machine({"other"});
    try {
      (void)machine.find(ids);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::internal);
      EXPECT_THAT(error.message(), HasSubstr("a child process that tried it was ended by signal 11 (SIGSEGV)"));
    }
  }
}

}  // namespace
}  // namespace gpux::runtime
