#include "generation/chat_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::generation {
namespace {

TEST(ChatMessages, AreTheSameAfterTheirJson) {
  ChatMessage assistant{.role = "assistant", .content = "ä\n\"", .reasoning = "because"};
  assistant.tool_calls.push_back({.id = "1", .name = "add", .arguments = R"({"a": 1.0})"});
  const std::vector<ChatMessage> messages{
      {.role = "system", .content = "s"},
      {.role = "user", .content = ""},
      assistant,
      {.role = "tool", .content = "2", .tool_call_id = "1", .name = "add"},
  };
  const std::vector<ChatMessage> read = read_messages(to_json(messages));
  EXPECT_EQ(to_json(read), to_json(messages));
  ASSERT_EQ(read.size(), messages.size());
  EXPECT_EQ(read[2].reasoning, "because");
  ASSERT_EQ(read[2].tool_calls.size(), 1U);
  EXPECT_EQ(read[2].tool_calls[0].arguments, R"({"a": 1.0})");
  EXPECT_EQ(read[3].tool_call_id, "1");
  EXPECT_EQ(read_messages("[]").size(), 0U);
  EXPECT_EQ(read_messages(R"([{"role": "assistant", "content": null, "tool_calls": null}])")[0].content, "");
}

TEST(ChatMessages, AreRefusedByMemberWhereTheyAreNone) {
  struct Row {
    const char *json, *message;
  };

  const std::string deep(100'000, '[');
  for (const Row& row : std::vector<Row>{
           {"{", "the conversation is not JSON"},
           {"{}", "the conversation is not a list of messages"},
           {deep.c_str(), "the conversation is not a list of messages"},
           {"[1]", "messages[0] is not a message"},
           {R"([{"role": "user", "content": "a"}, {"content": "a"}])", "messages[1] has no role"},
           {R"([{"role": "user", "content": ["a"]}])", "messages[0].content is not a text"},
           {R"([{"role": "user", "contents": "a"}])", "messages[0].contents is unknown; accepted: role, content"},
           {R"([{"role": "assistant", "tool_calls": {}}])", "messages[0].tool_calls is not a list of calls"},
           {R"([{"role": "assistant", "tool_calls": [{"id": "1"}]}])", "messages[0].tool_calls[0] is not a call"},
           {R"([{"role": "assistant", "tool_calls": [{"function": {"name": 1}}]}])",
            "messages[0].tool_calls[0].function.name is not a text"},
       }) {
    try {
      (void)read_messages(row.json);
      ADD_FAILURE() << row.message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      EXPECT_THAT(error.message(), testing::HasSubstr(row.message));
    }
  }
}

}  // namespace
}  // namespace gpux::generation
