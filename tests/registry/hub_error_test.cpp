#include "registry/hub/hub_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux::registry {
namespace {

TEST(HubError, FollowsTheTable) {
  struct Row {
    int status;
    Headers headers;
    std::string token_source;
    ErrorCode code;
    std::string message;
  };

  for (const Row& row : std::vector<Row>{
           {401,
            {{"x-error-code", "GatedRepo"}},
            "",
            ErrorCode::permission,
            "is gated: accept its conditions at https://hub/org/name, and set HF_TOKEN"},
           {403,
            {{"x-error-code", "GatedRepo"}},
            "HF_TOKEN",
            ErrorCode::permission,
            "the token of HF_TOKEN gives no access"},
           {401,
            {{"x-error-code", "RepoNotFound"}},
            "",
            ErrorCode::not_found,
            "or it is private: HF_TOKEN gives access"},
           {404,
            {{"x-error-code", "RepoNotFound"}},
            "HF_TOKEN",
            ErrorCode::not_found,
            "the token of HF_TOKEN gives no access"},
           {404, {{"x-error-code", "RevisionNotFound"}}, "", ErrorCode::not_found, "has no revision 'v1'"},
           {404, {{"x-error-code", "EntryNotFound"}}, "", ErrorCode::not_found, "has no file 'f.json'"},
           {401,
            {{"x-error-message", "Invalid credentials in Authorization header"}},
            "HF_TOKEN",
            ErrorCode::permission,
            "does not accept the token of HF_TOKEN"},
           {401, {}, "", ErrorCode::not_found, "has no model 'org/name'"},
           {403,
            {{"x-error-message", "Access to this resource is disabled."}},
            "",
            ErrorCode::permission,
            "has disabled access"},
           {403, {{"x-error-message", "Forbidden: x"}}, "", ErrorCode::permission, "Forbidden: x"},
           {404, {}, "", ErrorCode::not_found, "has no file 'f.json'"},
           {429, {{"retry-after", "7"}}, "", ErrorCode::network, "try again in 7 s; HF_TOKEN raises the limit"},
           {429, {}, "HF_TOKEN", ErrorCode::network, "try again later"},
           {503, {}, "", ErrorCode::network, "fails with 503"},
           {418, {}, "", ErrorCode::network, "answers 418"},
       }) {
    const Error error =
        hub_error({.status = row.status, .headers = row.headers, .body = {}, .url = {}, .redirects = {}},
                  {.repository = "org/name",
                   .revision = "v1",
                   .file = "f.json",
                   .endpoint = "https://hub",
                   .token_source = row.token_source});
    EXPECT_EQ(error.code(), row.code) << error.message();
    EXPECT_THAT(error.message(), ::testing::HasSubstr(row.message));
  }
}

}  // namespace
}  // namespace gpux::registry
