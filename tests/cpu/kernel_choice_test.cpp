#include "kernels/kernel_choice.h"

#include <array>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

namespace gpux_cpu {
namespace {

struct Table {
  std::string_view name;
  bool (*can_run)() noexcept;
};

bool runs() noexcept {
  return true;
}

bool runs_not() noexcept {
  return false;
}

constexpr const char* variable = "GPUX_CHOICE_OF_THE_TEST";
constexpr Table newest{"newest", runs_not}, newer{"newer", runs}, plain{"plain", runs};
constexpr std::array<const Table*, 3> tables{&newest, &newer, &plain};

struct Choice {
  const char* given;  ///< null: the variable is not set
  std::string chosen;
};

TEST(KernelChoice, IsTheBestThatRunsOrTheOneThatIsNamed) {
  for (const Choice& choice : {Choice{nullptr, "newer"}, {"", "newer"}, {"newer", "newer"}, {"plain", "plain"}}) {
    ::unsetenv(variable);
    if (choice.given != nullptr) ::setenv(variable, choice.given, 1);
    EXPECT_EQ(choose_kernels(variable, tables).name, choice.chosen);
  }
}

TEST(KernelChoice, RefusesWhatThisProcessorDoesNotRun) {
  for (const std::string given : {"newest", "no such"}) {
    ::setenv(variable, given.c_str(), 1);
    try {
      (void)choose_kernels(variable, tables);
      ADD_FAILURE() << given;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(error.what(), "GPUX_CHOICE_OF_THE_TEST is '" + given + "'; this processor runs newer, plain");
    }
  }
}

}  // namespace
}  // namespace gpux_cpu
