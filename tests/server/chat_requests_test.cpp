// What clients of models that generate text write, taken apart, and what they are answered.
#include "server/protocols/openai/chat_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/refusal.h"
#include "server/generation/chat_reader.h"
#include "server/protocols/ollama/answers.h"
#include "server/protocols/ollama/requests.h"
#include "server/protocols/openai/answers.h"
#include "server/protocols/openai/completion_requests.h"
#include "server/protocols/request_error.h"

namespace gpux::server {
namespace {

using test::refusal;
using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::json;

const std::string hello = R"("messages": [{"role": "user", "content": "hello"}])";

TEST(ChatRequests, ReadMessages) {
  const OpenAiChat read = read_chat(R"({"model": "m", "messages": [
    {"role": "developer", "content": "s"},
    {"role": "assistant", "content": null, "reasoning_content": "r",
     "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"z\": 1, \"a\": 2}"}},
                    {"id": "2", "type": "function", "function": {"name": "f", "arguments": "{\"z\": 1, \"a"}}]},
    {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]}]})");
  EXPECT_EQ(read.model, "m");
  const std::vector<ChatMessage>& messages = read.chat.messages;
  ASSERT_EQ(messages.size(), 3U);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[1].reasoning, "r");
  ASSERT_EQ(messages[1].tool_calls.size(), 2U);
  EXPECT_EQ(messages[1].tool_calls[0].arguments, R"({"z": 1, "a": 2})");
  EXPECT_EQ(messages[1].tool_calls[1].arguments, R"({"z": 1, "a)");  // as the answer ended
  EXPECT_EQ(messages[2].content, "x\ny");
  EXPECT_EQ(messages[2].name, "f");  // of the call that it answers
}

TEST(ChatRequests, ReadSettings) {
  const OpenAiChat read = read_chat("{" + hello + R"(, "temperature": 0.5, "max_completion_tokens": 7, "n": 3,
    "logprobs": true, "top_logprobs": 2, "stop": "x", "seed": -1, "top_k": -1, "min_tokens": 2, "stream": true,
    "stream_options": {"include_usage": true}, "ignore_eos": true, "chat_template_kwargs": {"z": 1, "a": true},
    "add_generation_prompt": false, "logit_bias": {"3": -1}, "user": "u", "store": false})");
  EXPECT_EQ(read.chat.settings.temperature, 0.5F);
  EXPECT_EQ(read.chat.settings.max_tokens, 7U);
  EXPECT_EQ(read.chat.settings.min_tokens, 2U);
  EXPECT_EQ(read.chat.settings.top_log_probabilities, 2U);
  EXPECT_EQ(read.chat.settings.seed, UINT64_MAX);
  EXPECT_EQ(read.chat.settings.top_k, 0U);
  EXPECT_TRUE(read.chat.settings.ignores_end);
  EXPECT_THAT(read.chat.settings.stop, ElementsAre("x"));
  EXPECT_THAT(read.chat.settings.logit_bias, ElementsAre(std::pair(3U, -1.0F)));
  EXPECT_EQ(read.answers, 3U);
  EXPECT_TRUE(read.stream.has_usage);
  EXPECT_FALSE(read.chat.options.add_generation_prompt);
  EXPECT_EQ(read.chat.options.template_values, R"({"z": 1, "a": true})");  // in order
  const OpenAiChat plain = read_chat("{" + hello + "}");
  EXPECT_FALSE(plain.chat.settings.temperature);
  EXPECT_EQ(plain.chat.settings.max_tokens, 0U);
  EXPECT_FALSE(generation::offers_tools(plain.chat.options));
}

TEST(ChatRequests, ReadTools) {
  const std::string tools =
      R"("tools": [{"type": "function", "function": {"name": "f", "description": "d", "strict": true,
    "parameters": {"type": "object", "properties": {"z": {}, "a": {}}}}}, {"type": "function", "function": {"name": "g"}}])";
  const auto choose = [&](const std::string& choice) {
    return read_chat("{" + hello + ", " + tools + choice + "}").chat.options;
  };
  const ChatOptions automatic = choose("");
  EXPECT_EQ(automatic.tool_choice, ToolChoice::automatic);
  EXPECT_TRUE(automatic.allows_several_calls);
  EXPECT_EQ(R"("tools": )" + automatic.tools, tools);
  const std::vector<generation::ToolFunction> functions = generation::tool_functions(automatic.tools);
  ASSERT_EQ(functions.size(), 2U);
  EXPECT_EQ(functions[0].parameters, R"({"type": "object", "properties": {"z": {}, "a": {}}})");
  EXPECT_EQ(functions[1].parameters, "");
  EXPECT_FALSE(generation::offers_tools(choose(R"(, "tool_choice": "none")")));
  const ChatOptions required = choose(R"(, "tool_choice": "required", "parallel_tool_calls": false)");
  EXPECT_EQ(required.tool_choice, ToolChoice::required);
  EXPECT_EQ(required.tool_name, "");
  EXPECT_FALSE(required.allows_several_calls);
  const ChatOptions named = choose(R"(, "tool_choice": {"type": "function", "function": {"name": "g"}})");
  EXPECT_EQ(named.tool_choice, ToolChoice::required);
  EXPECT_EQ(named.tool_name, "g");
  EXPECT_EQ(R"("tools": )" + named.tools, tools);
  EXPECT_EQ(choose(R"(, "tool_choice": {"type": "function", "name": "g"})").tool_name, "g");
  const auto allow = [&](const std::string& members) {
    return choose(R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools": {)" + members + "}}");
  };
  const std::string only_g = R"("tools": [{"type": "function", "function": {"name": "g"}}])";
  const ChatOptions allowed = allow(R"("mode": "auto", )" + only_g);
  EXPECT_EQ(allowed.tool_choice, ToolChoice::automatic);
  EXPECT_EQ(allowed.tools, R"([{"type": "function", "function": {"name": "g"}}])");
  EXPECT_EQ(allow(R"("mode": "required", )" + only_g).tool_choice, ToolChoice::required);
  for (const auto& [members, said] : std::vector<std::pair<std::string, std::string>>{
           {R"("mode": "none", )" + only_g, "tool_choice.allowed_tools.mode is 'none'; accepted: auto, required"},
           {R"("mode": "auto", "tools": [])", "tool_choice.allowed_tools.tools is no list of at least one tool"},
           {R"("mode": "auto", "tools": [{"function": {"name": "h"}}])",
            "tool_choice.allowed_tools.tools[0].function.name is 'h', which is none of the tools"},
       }) {
    EXPECT_THAT(refusal([&] { (void)allow(members); }), HasSubstr(said));
  }
  EXPECT_THAT(refusal([&] { choose(R"(, "tool_choice": {"type": "allowed_tools"})"); }),
              HasSubstr("tool_choice.allowed_tools is missing"));
  EXPECT_THAT(refusal([&] { choose(R"(, "tool_choice": {"type": "function"})"); }),
              HasSubstr("tool_choice.function is missing"));
  for (const auto& [members, said] : std::vector<std::pair<std::string, std::string>>{
           {R"("function", "name": "h")", "tool_choice.name is 'h', which is none of the tools"},
           {R"("function", "name": "f", "function": {"name": "g"})", "tool_choice has both function and name"},
           {R"("allowed_tools", "name": "f", "allowed_tools": {})",
            "tool_choice.name is there, and the type is another"},
       }) {
    EXPECT_THAT(refusal([&] { choose(R"(, "tool_choice": {"type": )" + members + "}"); }), HasSubstr(said));
  }
  EXPECT_THAT(refusal([&] {
                (void)read_chat("{" + hello + R"(, "tools": [{"function": {"name": "f"}},
                                                                        {"function": {"name": "f"}}]})");
              }),
              HasSubstr("tools[1] has the name 'f' of another tool"));
}

TEST(ChatRequests, ReadTheFormOfAnAnswer) {
  const auto read = [](const std::string& member) {
    return read_chat("{" + hello + ", " + member + "}").chat.settings.constraint;
  };
  const OutputConstraint schema =
      read(R"("response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"z": 1, "a": 2}}})");
  EXPECT_EQ(schema.kind, OutputConstraint::Kind::json_schema);
  EXPECT_EQ(schema.text, R"({"z":1,"a":2})");
  EXPECT_EQ(read(R"("guided_regex": "a+")").kind, OutputConstraint::Kind::regex);
  EXPECT_EQ(read(R"("response_format": {"type": "text"})").kind, OutputConstraint::Kind::none);
  EXPECT_THAT(refusal([&] { read(R"("guided_regex": "a", "guided_choice": ["b"])"); }),
              HasSubstr("guided_regex and guided_choice are both there"));
  EXPECT_EQ(read_completion(R"({"prompt": "a", "guided_choice": ["b", "c."]})").continuation.settings.constraint.text,
            R"(b|c\.)");
}

// Objects whose order is kept look for each name among those before it.
TEST(ChatRequests, BoundTheMembersOfAnObject) {
  std::string values = "{";
  for (int i = 0; i < 4097; ++i) values += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
  EXPECT_THAT(refusal([&] { (void)read_chat("{" + hello + ", \"chat_template_kwargs\": " + values + "}}"); }),
              HasSubstr("the body has an object of more than 4096 members"));
}

TEST(OllamaRequests, ReadChats) {
  const OllamaChat read = read_ollama_chat(R"({"model": "m:latest", "messages": [
    {"role": "user", "content": "a", "images": []},
    {"role": "assistant", "content": "", "thinking": "t",
     "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {"z": 1, "a": [2]}}},
                    {"id": "2", "function": {"name": "f", "arguments": "{\"z\""}}]},
    {"role": "tool", "content": "x", "tool_call_id": "1"}],
    "options": {"num_predict": -1, "num_ctx": 9, "repeat_penalty": 1.5, "repeat_last_n": -1, "stop": ["s"]},
    "format": {"z": 1, "a": 2}, "think": "low", "keep_alive": "5m", "tools": [{"function": {"name": "f"}}]})");
  EXPECT_TRUE(read.general.is_streamed);
  EXPECT_EQ(read.general.context_length, 9U);
  EXPECT_EQ(read.chat.settings.max_tokens, 0U);
  EXPECT_EQ(read.chat.settings.repetition_penalty, 1.5F);
  EXPECT_EQ(read.chat.settings.constraint.text, R"({"z":1,"a":2})");
  EXPECT_EQ(read.general.reasoning, ReasoningEffort::low);
  ASSERT_EQ(read.chat.messages.size(), 3U);
  EXPECT_EQ(read.chat.messages[1].tool_calls.at(0).arguments, R"({"z": 1, "a": [2]})");
  EXPECT_EQ(read.chat.messages[1].tool_calls.at(1).arguments, R"("{\"z\"")");
  EXPECT_EQ(read.chat.messages[2].name, "f");
  EXPECT_TRUE(generation::offers_tools(read.chat.options));
}

// As ollama-ai-provider-v2 writes them.
TEST(OllamaRequests, ReadSettingsBesideTheOptions) {
  const std::string beside =
      R"("model": "m", "messages": [{"role": "user", "content": "a"}], "temperature": 0.5, "top_p": 0.25,
    "max_output_tokens": 20, "think": false, "stream": false,
    "tools": [{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "g"}}],
    "tool_choice": {"type": "function", "name": "g"})";
  const OllamaChat read = read_ollama_chat("{" + beside + "}");
  EXPECT_EQ(read.chat.settings.temperature, 0.5F);
  EXPECT_EQ(read.chat.settings.top_p, 0.25F);
  EXPECT_EQ(read.chat.settings.max_tokens, 20U);
  EXPECT_EQ(read.chat.options.tool_choice, ToolChoice::required);
  EXPECT_EQ(read.chat.options.tool_name, "g");
  const OllamaChat both = read_ollama_chat("{" + beside + R"(, "stop": ["x"], "seed": 3,
    "options": {"temperature": 0.75, "num_predict": 30}})");
  EXPECT_EQ(both.chat.settings.temperature, 0.75F);
  EXPECT_EQ(both.chat.settings.top_p, 0.25F);
  EXPECT_EQ(both.chat.settings.max_tokens, 30U);
  EXPECT_EQ(both.chat.settings.seed, 3U);
  EXPECT_THAT(both.chat.settings.stop, ElementsAre("x"));
  EXPECT_EQ(read_ollama_chat("{" + beside + R"(, "options": {"num_predict": -1}})").chat.settings.max_tokens, 0U);
  EXPECT_THAT(refusal([&] { (void)read_ollama_chat("{" + beside + R"(, "seed": "x"})"); }), HasSubstr("seed"));
  const OllamaGenerate prompt = read_ollama_generate(
      R"({"model": "m", "prompt": "a", "max_tokens": 5, "temperature": 0.5, "stop": ["\nuser:"], "stream": false})");
  EXPECT_EQ(prompt.settings.max_tokens, 5U);
  EXPECT_EQ(prompt.settings.temperature, 0.5F);
  EXPECT_THAT(prompt.settings.stop, ElementsAre("\nuser:"));
}

TEST(OllamaRequests, ReadHowManyTokensThePenaltyCounts) {
  const auto read = [](const std::string& options) {
    return read_ollama_chat(R"({"options": {"repeat_penalty": 1.5, )" + options + "}}").chat.settings;
  };
  EXPECT_EQ(read(R"("repeat_last_n": 64)").repetition_window, 64U);
  EXPECT_EQ(read(R"("repeat_last_n": 64)").repetition_penalty, 1.5F);
  EXPECT_EQ(read(R"("repeat_last_n": -1)").repetition_window, 0U);
  EXPECT_EQ(read(R"("repeat_last_n": null)").repetition_window, 0U);
  EXPECT_EQ(read(R"("repeat_last_n": 0)").repetition_penalty, 1.F);
}

// As langchain-ollama writes them, for vectors as for chats.
TEST(OllamaRequests, ReadTheOptionsOfVectors) {
  const auto read = [](const std::string& options) {
    return read_ollama_embed(R"({"model": "m", "input": ["a"], "options": )" + options + "}").context_length;
  };
  EXPECT_EQ(read("{}"), 0U);
  EXPECT_EQ(read("null"), 0U);
  EXPECT_EQ(read(R"({"num_ctx": 128, "num_gpu": 1, "temperature": 0.5, "mirostat": 1, "stop": ["x"], "seed": 1,
    "repeat_last_n": 64, "repeat_penalty": 1.1, "num_predict": -1})"),
            128U);
  EXPECT_THAT(refusal([&] { (void)read(R"({"rope_frequency_base": 2})"); }),
              HasSubstr("options.rope_frequency_base: the model's own is used"));
  EXPECT_EQ(read_ollama_embeddings(R"({"model": "m", "prompt": "a", "options": {"num_ctx": 5}})").context_length, 5U);
}

ToolCallDelta call_of(std::string name, std::string arguments) {
  return {.index = 0, .id = "i", .name = std::move(name), .arguments = std::move(arguments)};
}

TEST(OllamaAnswers, AreLinesOfJson) {
  const auto events = ollama_answer_events({.route = OllamaRoute::chat, .model = "m"});
  std::string out;
  AnswerDelta first;
  first.is_first = true;
  events->append(out, first);
  EXPECT_EQ(out, "");  // nothing is known yet
  AnswerDelta said;
  said.text = "a\n\"b\"";
  said.reasoning = "r";
  events->append(out, said);
  AnswerDelta called;
  called.tool_calls.push_back(call_of("f", "{\n  \"z\": \"\\n\"\r\n}"));
  called.finish_reason = "tool_calls";
  events->append(out, called);
  events->append_end(out, {.prompt_tokens = 3, .generated_tokens = 2, .generation_time = std::chrono::seconds(2)});
  std::vector<Json> lines;
  std::istringstream all(out);
  for (std::string line; std::getline(all, line);) lines.push_back(Json::parse(line));
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0]["message"]["content"], "a\n\"b\"");
  EXPECT_EQ(lines[0]["message"]["thinking"], "r");
  EXPECT_EQ(lines[1]["message"]["tool_calls"][0]["function"]["arguments"], Json({{"z", "\n"}}));
  EXPECT_EQ(lines[2]["done_reason"], "stop");
  EXPECT_EQ(lines[2]["eval_duration"], 2'000'000'000);
  EXPECT_EQ(lines[2]["prompt_eval_count"], 3);
  EXPECT_EQ(ollama_time(std::chrono::system_clock::time_point(std::chrono::nanoseconds(1'500'000'007))),
            "1970-01-01T00:00:01.500000007Z");
}

TEST(ChatReader, SaysThatACallIsBroken) {
  generation::AnswerSettings settings;
  settings.format = {.reasoning_begin = "", .reasoning_end = "", .tool_calls = generation::ToolCallStyle::hermes};
  settings.functions = {"f"};
  for (const auto& [text, calls] :
       {std::pair(R"(<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>)", true),
        std::pair(R"(<tool_call>{"name": "f", "arguments": {"a": tru}}</tool_call>)", false)}) {
    ChatReader reader(std::make_shared<const generation::AnswerSettings>(settings), 1);
    AnswerDelta delta;
    reader.add(text, delta);
    EXPECT_EQ(reader.finish(delta), calls) << text;
    EXPECT_EQ(delta.tool_calls.size(), 1U);
  }
}

// Arguments come in parts, and Ollama's are objects.
TEST(OllamaAnswers, HaveWholeCalls) {
  const auto events = ollama_answer_events({.route = OllamaRoute::chat, .model = "m"});
  std::string out;
  const auto add = [&](std::size_t index, const char* name, const char* arguments, const char* reason = "") {
    AnswerDelta delta;
    delta.tool_calls.push_back({.index = index, .id = "i", .name = name, .arguments = arguments});
    delta.finish_reason = reason;
    events->append(out, delta);
  };
  add(0, "f", "{");
  add(0, "", "\"a\": 1}");
  EXPECT_EQ(out, "");
  add(1, "g", "");
  EXPECT_THAT(out, testing::HasSubstr(R"("name":"f","arguments":{"a": 1})"));
  out.clear();
  add(1, "", "{\"b\": ", "length");
  EXPECT_EQ(out, "");
  AnswerDelta broken;
  broken.tool_calls.push_back({.index = 0, .id = "i", .name = "f", .arguments = "{\"b\": tru"});
  broken.finish_reason = "stop";
  const Json whole = Json::parse(ollama_answer_json({.route = OllamaRoute::chat, .model = "m"}, broken, {}));
  EXPECT_EQ(whole["message"]["content"], "{\"b\": tru");
  EXPECT_FALSE(whole["message"].contains("tool_calls"));
}

TEST(ChatReader, TakesAnswersApart) {
  generation::AnswerSettings settings;
  settings.format = {
      .reasoning_begin = "<think>", .reasoning_end = "</think>", .tool_calls = generation::ToolCallStyle::hermes};
  settings.functions = {"f"};
  const std::string answer =
      "<think>hm</think>so<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>";
  for (const bool allows_several : {true, false}) {
    for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, answer.size()}) {
      settings.allows_several = allows_several;
      ChatReader reader(std::make_shared<const generation::AnswerSettings>(settings), settings.id_seed);
      AnswerDelta all;
      for (std::size_t at = 0; at < answer.size(); at += piece) {
        AnswerDelta delta;
        reader.add(answer.substr(at, piece), delta);
        all.append(std::move(delta));
      }
      AnswerDelta last;
      EXPECT_TRUE(reader.finish(last));
      all.append(std::move(last));
      EXPECT_EQ(all.reasoning, "hm");
      EXPECT_EQ(all.text, "so");
      ASSERT_EQ(all.tool_calls.size(), allows_several ? 2U : 1U);
      EXPECT_EQ(all.tool_calls.front().arguments, "{}");
    }
  }
  ChatReader plain(std::make_shared<const generation::AnswerSettings>(), 0);
  AnswerDelta delta;
  plain.add("<think>a", delta);
  EXPECT_FALSE(plain.finish(delta));
  EXPECT_EQ(delta.text, "<think>a");
}

TEST(RequestErrors, AreAboutTheMemberThatASubjectComesFrom) {
  using Kind = Subject::Kind;

  struct Row {
    Subject subject;
    const char *member, *named;
    MemberProblem problem = MemberProblem::invalid;
  };

  const NamedMembers members{.prompt = "messages", .form = "response_format"};
  for (const Row& row : std::vector<Row>{
           {{Kind::setting, "temperature"}, "temperature", "temperature"},
           {{Kind::setting, "stop_tokens"}, "stop_token_ids", "stop_token_ids"},
           {{Kind::setting, "ignores_end"}, "ignore_eos", "ignore_eos"},
           {{Kind::setting, "top_log_probabilities"}, "top_logprobs", "top_logprobs"},
           {{Kind::setting, "answers"}, "n", "n"},
           {{Kind::setting, "tools"}, "tools", "tools"},
           {{Kind::setting, "template_values"}, "chat_template_kwargs", "chat_template_kwargs"},
           {{Kind::prompt, "length"}, "messages", "the prompt", MemberProblem::too_long},
           {{Kind::prompt, ""}, "messages", "the prompt"},
           {{Kind::constraint, "JSON schema"}, "response_format", "JSON schema"},
           {{Kind::setting, "intra_threads"}, nullptr, nullptr},
           {{Kind::file, "temperature"}, nullptr, nullptr},
           {{Kind::device, ""}, nullptr, nullptr},
       }) {
    SCOPED_TRACE(row.subject.name);
    const Error error(ErrorCode::usage, Message{row.subject, " is 101"});
    const auto named = error_of_member(error, members);
    ASSERT_EQ(named.has_value(), row.member != nullptr);
    // What happens to the server is about no member, whatever it names.
    EXPECT_FALSE(error_of_member(Error(ErrorCode::internal, Message{row.subject}), members));
    if (!named) continue;
    EXPECT_EQ(named->member(), row.member);
    EXPECT_EQ(named->message(), std::string(row.named) + " is 101");
    EXPECT_EQ(named->problem(), row.problem);
  }
}

TEST(RequestErrors, LookAtNoWords) {
  const NamedMembers members{.prompt = "messages", .form = "response_format"};
  for (const char* message : {"temperature is 101; accepted: 0 to 100", "the prompt has 9 tokens", "grammar: wrong"}) {
    EXPECT_FALSE(error_of_member(Error(ErrorCode::invalid_input, message), members)) << message;
  }
}

TEST(RequestErrors, BeginWithTheMember) {
  const auto message = [](const char* member, const char* what) {
    return RequestError(member, what, MemberProblem::invalid).message();
  };
  EXPECT_EQ(message("n", "is 3"), "n is 3");
  EXPECT_EQ(message("echo", ": not here"), "echo: not here");
  EXPECT_EQ(message("n", " is 3"), "n is 3");
  EXPECT_EQ(message("", "is 3"), "is 3");
}

}  // namespace
}  // namespace gpux::server
