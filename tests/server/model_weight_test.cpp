#include "server/models/model_weight.h"

#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace gpux::server {
namespace {

int own_nice() {
  return ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
}

TEST(ModelWeight, BecomesANiceValue) {
  struct Case {
    std::uint32_t weight, largest;
    int nice;
  };

  const std::vector<Case> cases{{100, 100, 0},   {400, 100, 0},  {100, 200, 3}, {100, 400, 6},
                                {100, 1000, 10}, {1, 10000, 19}, {99, 100, 0},  {0, 100, 0}};
  for (const Case& one : cases) EXPECT_EQ(nice_of(one.weight, one.largest), one.nice) << one.weight << one.largest;
}

TEST(ModelWeight, IsThatOfTheThreadsOfItsLoad) {
  const int before = own_nice();
  int during = 0, of_a_thread = 0;
  with_nice(5, [&] {
    during = own_nice();
    std::thread([&] { of_a_thread = own_nice(); }).join();
  });
  EXPECT_EQ(during, 5);
  EXPECT_EQ(of_a_thread, 5);
  EXPECT_EQ(own_nice(), before);
  EXPECT_THROW(with_nice(5, [] { throw std::runtime_error("why"); }), std::runtime_error);
}

}  // namespace
}  // namespace gpux::server
