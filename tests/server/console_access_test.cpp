#include "server/requests/console_access.h"

#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux::server {
namespace {

constexpr ConsoleRequest accepted{
    .is_of_own_page = true, .is_for_this_machine = true, .is_of_allowed_host = true, .peer = "127.0.0.1:40312"};

TEST(ConsoleAccess, IsForKeysAndForThisMachine) {
  EXPECT_EQ(console_refusal(accepted), "");
  ConsoleRequest request = accepted;
  request.peer = "unix";
  request.is_of_allowed_host = false;
  EXPECT_EQ(console_refusal(request), "");
  // A key is enough, from anywhere and by any name.
  EXPECT_EQ(console_refusal({.has_keys = true, .is_of_own_page = true, .peer = "192.168.1.2:1", .is_forwarded = true}),
            "");
  // Other machines where it was asked for.
  request = accepted;
  request.is_for_this_machine = false;
  request.peer = "192.168.1.2:1";
  request.is_forwarded = true;
  EXPECT_EQ(console_refusal(request), "");
}

TEST(ConsoleAccess, IsRefusedToAllOthers) {
  struct Line {
    std::function<void(ConsoleRequest&)> change;
    const char* reason;
  };

  for (const Line& line : std::vector<Line>{
           {[](ConsoleRequest& request) { request.is_of_own_page = false; }, "other origins"},
           {[](ConsoleRequest& request) {
              request.has_keys = true;
              request.is_of_own_page = false;
            },
            "other origins"},
           {[](ConsoleRequest& request) { request.is_forwarded = true; }, "this machine alone"},
           {[](ConsoleRequest& request) {
              request.is_forwarded = true;
              request.peer = "unix";
            },
            "this machine alone"},
           {[](ConsoleRequest& request) { request.peer = "192.168.1.2:1"; }, "this machine alone"},
           {[](ConsoleRequest& request) { request.peer = ""; }, "this machine alone"},
           {[](ConsoleRequest& request) { request.is_of_allowed_host = false; }, "--allowed-host"},
           {[](ConsoleRequest& request) {
              request.is_for_this_machine = false;
              request.is_of_allowed_host = false;
            },
            "--allowed-host"},
       }) {
    ConsoleRequest request = accepted;
    line.change(request);
    EXPECT_THAT(console_refusal(request), testing::HasSubstr(line.reason));
  }
}

}  // namespace
}  // namespace gpux::server
