#include "server/requests/failed_requests.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gpux::server {
namespace {

TEST(FailedRequests, HaveTheReasonOfEachProtocol) {
  struct Line {
    const char *body, *reason;
  };

  for (const Line& line : std::vector<Line>{
           {R"({"detail": "item 2: no number"})", "item 2: no number"},
           {R"({"error": "no such model"})", "no such model"},
           {R"({"error": {"message": "too long", "type": "t", "param": null, "code": null}})", "too long"},
           {R"({"type": "error", "error": {"type": "api_error", "message": "late"}})", "late"},
           {R"({"error": "busy", "error_type": "Overloaded"})", "busy"},
           {R"({"ready": false})", R"({"ready": false})"},
           {"[1]", "[1]"},
           {"not JSON\n", "not JSON "},
           {"", ""},
       }) {
    EXPECT_EQ(reason_of(line.body), line.reason) << line.body;
  }
  EXPECT_EQ(reason_of(std::string(100'000, 'x')).size(), 1000U);
  EXPECT_EQ(reason_of(R"({"error": ")" + std::string(5000, 'x') + R"("})").size(), 1000U);
}

FailedRequest failed(const std::string& path, const std::string& status = "400") {
  FailedRequest request;
  request.method = "POST";
  request.path = path;
  request.status = status;
  request.reason = "no";
  return request;
}

TEST(FailedRequests, AreTheLastOnes) {
  FailedRequests kept(3);
  for (const char* path : {"/a", "/b", "/c", "/d"}) kept.add(failed(path));
  const std::vector<FailedRequest> all = kept.all();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all.front().path, "/b");
  EXPECT_EQ(all.back().path, "/d");
}

TEST(FailedRequests, CountThoseThatAreAlike) {
  FailedRequests kept(3);
  kept.add(failed("/a"));
  for (int i = 0; i < 1000; ++i) {
    FailedRequest full = failed("/a", "429");
    full.id = std::to_string(i);
    kept.add(full);
  }
  kept.add(failed("/a"));
  const std::vector<FailedRequest> all = kept.all();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].count, 1U);
  EXPECT_EQ(all[1].count, 1000U);
  EXPECT_EQ(all[1].id, "999");
  EXPECT_EQ(all[2].count, 1U);
}

TEST(FailedRequests, AreCutToAFewBytes) {
  FailedRequests kept;
  FailedRequest request = failed("/" + std::string(100'000, 'p'));
  request.reason = std::string(100'000, 'r') + "\n";
  kept.add(request);
  EXPECT_EQ(kept.all().front().path.size(), 300U);
  EXPECT_EQ(kept.all().front().reason.size(), 1000U);
}

}  // namespace
}  // namespace gpux::server
