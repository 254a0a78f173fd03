#include "server/requests/change_access.h"

#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux::server {
namespace {

constexpr ChangeRequest accepted{.serves_store = true, .listens_on_loopback = true, .peer = "127.0.0.1:40312"};

TEST(ChangeAccess, IsForKeysAndForThisMachine) {
  EXPECT_EQ(change_refusal(accepted), "");
  for (const char* peer : {"[::1]:1", "[::ffff:127.0.0.1]:1", "127.8.9.1:1"}) {
    ChangeRequest request = accepted;
    request.peer = peer;
    EXPECT_EQ(change_refusal(request), "") << peer;
  }
  // A key is enough, from anywhere.
  EXPECT_EQ(change_refusal({.serves_store = true, .has_keys = true, .peer = "192.168.1.2:1", .is_forwarded = true}),
            "");
}

TEST(ChangeAccess, IsRefusedToAllOthers) {
  struct Line {
    std::function<void(ChangeRequest&)> change;
    const char* reason;
  };

  for (const Line& line : std::vector<Line>{
           {[](ChangeRequest& request) { request.serves_store = false; }, "gpux serve without a MODEL"},
           {[](ChangeRequest& request) { request.is_of_strange_origin = true; }, "--cors-origin"},
           {[](ChangeRequest& request) {
              request.has_keys = true;
              request.is_of_strange_origin = true;
            },
            "--cors-origin"},
           {[](ChangeRequest& request) {
              request.has_keys = true;
              request.serves_store = false;
            },
            "gpux serve without a MODEL"},
           {[](ChangeRequest& request) { request.listens_on_loopback = false; }, "reached by other machines"},
           {[](ChangeRequest& request) { request.is_forwarded = true; }, "from this machine alone"},
           {[](ChangeRequest& request) { request.peer = "192.168.1.2:1"; }, "from this machine alone"},
           {[](ChangeRequest& request) { request.peer = "[::2]:1"; }, "from this machine alone"},
           {[](ChangeRequest& request) { request.peer = "unix"; }, "from this machine alone"},
           {[](ChangeRequest& request) { request.peer = ""; }, "from this machine alone"},
       }) {
    ChangeRequest request = accepted;
    line.change(request);
    EXPECT_THAT(change_refusal(request), testing::HasSubstr(line.reason));
  }
}

}  // namespace
}  // namespace gpux::server
