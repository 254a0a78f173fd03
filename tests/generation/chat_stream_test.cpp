// Conversations with a decoder whose tokens are characters: expressions say what it answers.
#include "generation/chat_stream.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"
#include "generation/model_files.h"
#include "gpux/error.h"
#include "gpux/generator.h"
#include "importer/import_model.h"
#include "text/token_words.h"

namespace gpux::generation {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* chat_template =
    "{# <think> <tool_call> #}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if tools %}{{ tools | length }} tools\n{% endif %}"
    "{% if add_generation_prompt %}assistant: {% if opens %}<think>{% endif %}{% endif %}";

constexpr const char* tools = R"([{"type": "function", "function": {"name": "add", "parameters": {}}}])";

class ChatStreams : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test::TemporaryFolder;
    const fs::path source = GPUX_SOURCE_DIR "/tests/generation/references/qwen3";
    const fs::path folder = folder_->path() / "source";
    fs::create_directory(folder);
    for (const char* file : {"config.json", "model.safetensors"}) fs::copy_file(source / file, folder / file);
    folder_->write("source/generation_config.json", R"({"eos_token_id": 2})");
    folder_->write("source/tokenizer.json", test::made_tokenizer("metaspace", {"\n"}));
    (void)importer::import_model(folder, folder_->path() / "plain");
    folder_->write("source/chat_template.jinja", chat_template);
    (void)importer::import_model(folder, folder_->path() / "model");
    generator_ = new Generator((folder_->path() / "model").string());
  }

  static void TearDownTestSuite() {
    delete generator_;
    delete folder_;
  }

  static GenerationSettings saying(const std::string& expression) {
    GenerationSettings settings;
    settings.constraint = {OutputConstraint::Kind::regex, expression};
    settings.seed = 1;
    return settings;
  }

  static inline test::TemporaryFolder* folder_ = nullptr;
  static inline Generator* generator_ = nullptr;
  const std::vector<ChatMessage> messages_{{.role = "user", .content = "hi"}};
};

TEST_F(ChatStreams, TakeAnswersApart) {
  const std::string said = "<think>\\s?why</think>\\s?yes, no";
  const ChatCompletion whole = generator_->chat(messages_, saying(said));
  EXPECT_EQ(whole.message.role, "assistant");
  EXPECT_EQ(whole.message.reasoning, "why");
  EXPECT_EQ(whole.message.content, "yes, no");
  EXPECT_THAT(whole.completion.text, HasSubstr("</think>"));
  EXPECT_EQ(whole.completion.reason, FinishReason::stop);
  EXPECT_GT(whole.completion.prompt_tokens, 0U);

  ChatStream stream = generator_->stream_chat(messages_, saying(said));
  EXPECT_THROW((void)stream.completion(), Error);
  ChatMessage joined{.role = "assistant"};
  std::size_t parts = 0;
  for (const ChatDelta& delta : stream) {
    append(joined, delta);
    ++parts;
  }
  EXPECT_GT(parts, 3U);
  EXPECT_EQ(joined.reasoning, "why");
  EXPECT_EQ(joined.content, "yes, no");
  EXPECT_EQ(stream.completion().message.content, "yes, no");
  EXPECT_EQ(stream.completion().completion.tokens, whole.completion.tokens);
}

TEST_F(ChatStreams, BeginInReasoningThatThePromptOpens) {
  const ChatOptions options{.tools = {}, .template_values = R"({"opens": true})"};
  const ChatCompletion answer = generator_->chat(messages_, saying("why</think>yes"), options);
  EXPECT_EQ(answer.message.reasoning, "why");
  EXPECT_EQ(answer.message.content, "yes");
}

TEST_F(ChatStreams, GiveCallsOfTheirFunctions) {
  const std::string call = R"(<tool_call>\{"name": "add", "arguments": \{"a": 1\}\}</tool_call>)";
  const ChatCompletion answer = generator_->chat(messages_, saying(call), {.tools = tools, .template_values = {}});
  ASSERT_EQ(answer.message.tool_calls.size(), 1U);
  EXPECT_EQ(answer.message.tool_calls[0].name, "add");
  EXPECT_EQ(answer.message.tool_calls[0].arguments, R"({"a": 1})");
  EXPECT_EQ(answer.message.tool_calls[0].id.size(), 9U);
  EXPECT_EQ(answer.message.content, "");
  // The answer of the function goes on from it.
  std::vector<ChatMessage> messages = messages_;
  messages.push_back(answer.message);
  messages.push_back({.role = "tool", .content = "2", .tool_call_id = answer.message.tool_calls[0].id});
  EXPECT_EQ(generator_->chat(messages, saying("two")).message.content, "two");
  // Without functions it is content.
  EXPECT_THAT(generator_->chat(messages_, saying(call)).message.content, HasSubstr("<tool_call>"));
}

TEST_F(ChatStreams, CallTheFunctionThatTheyHaveTo) {
  folder_->write("source/chat_template.jinja",
                 "{# <tool_call> #}{% for m in messages %}{{ m.content }}{% endfor %}"
                 "{% if tools %}{{ tools | length }} tools{% endif %}");
  (void)importer::import_model(folder_->path() / "source", folder_->path() / "calling");
  folder_->write("source/chat_template.jinja", chat_template);
  const Generator generator((folder_->path() / "calling").string());
  const ChatOptions options{.tools = R"([{"name": "add", "parameters": {}}, {"name": "now"}])",
                            .template_values = {},
                            .tool_choice = ToolChoice::required,
                            .tool_name = "now"};
  const ChatCompletion answer = generator.chat(messages_, {}, options);
  EXPECT_THAT(answer.completion.text, testing::StartsWith("<tool_call>\n{\"name\": \"now\", \"arguments\": {"));
  ASSERT_EQ(answer.message.tool_calls.size(), 1U);
  EXPECT_EQ(answer.message.tool_calls[0].name, "now");
  EXPECT_EQ(answer.message.content, "");
  EXPECT_EQ(answer.completion.reason, FinishReason::stop);
  ChatStream stream = generator.stream_chat(messages_, {}, options);
  while (stream.next()) {
  }
  EXPECT_EQ(nlohmann::json::parse(stream.completion().message.tool_calls.at(0).arguments), nlohmann::json::object());
}

TEST_F(ChatStreams, MakeThePromptOnce) {
  EXPECT_EQ(generator_->chat_prompt(messages_), "user: hi\nassistant: ");
  EXPECT_EQ(generator_->chat_prompt(messages_, {.tools = tools, .template_values = {}, .add_generation_prompt = false}),
            "user: hi\n1 tools\n");
  // No special token is added to those of the template.
  const std::size_t tokens = generator_->chat(messages_, saying("a")).completion.prompt_tokens;
  EXPECT_EQ(tokens, generator_->generate("user: hi\nassistant: ", saying("a")).prompt_tokens);
}

TEST_F(ChatStreams, EndWhereTheSinkWantsNoMore) {
  std::string given;
  const ChatCompletion answer = generator_->chat(messages_, saying("[abc]{300}"), {}, [&](const ChatDelta& delta) {
    given += delta.text;
    return given.size() < 20;
  });
  EXPECT_EQ(answer.message.content, given);
  EXPECT_LT(given.size(), 40U);
  EXPECT_EQ(answer.completion.reason, FinishReason::cancelled);

  ChatStream stream = generator_->stream_chat(messages_, saying("[abc]{300}"));
  ASSERT_TRUE(stream.next().has_value());
  stream.cancel();
  while (stream.next()) {
  }
  EXPECT_EQ(stream.completion().completion.reason, FinishReason::cancelled);
}

TEST_F(ChatStreams, ShowSpecialTokensOnlyWhereTheySeparateParts) {
  nlohmann::json tokenizer = nlohmann::json::parse(test::made_tokenizer("metaspace", {}));
  const text::Tokenizer plain = text::Tokenizer::from_json(tokenizer.dump());
  nlohmann::json special = tokenizer["added_tokens"][0];
  special["content"] = "</think>";
  special["id"] = plain.vocabulary_size();
  tokenizer["added_tokens"].push_back(special);
  const ChatPrompt prompt({.usual = chat_template, .tool_use = {}, .special_tokens = {}});
  EXPECT_THAT(plan_chat(prompt, plain, {.messages = messages_}).request.shown_tokens, testing::IsEmpty());
  EXPECT_THAT(
      plan_chat(prompt, text::Tokenizer::from_json(tokenizer.dump()), {.messages = messages_}).request.shown_tokens,
      testing::ElementsAre(plain.vocabulary_size()));
}

TEST_F(ChatStreams, RefuseByName) {
  const auto refusal = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return std::string(to_string(error.code())) + ": " + error.message();
    }
    return std::string("no error");
  };
  const Generator plain((folder_->path() / "plain").string());
  EXPECT_FALSE(plain.has_chat_template());
  EXPECT_TRUE(generator_->has_chat_template());
  const std::string no_template = refusal([&] { (void)plain.chat(messages_); });
  EXPECT_THAT(no_template, HasSubstr("invalid_model"));
  EXPECT_THAT(no_template, HasSubstr("'gpux generate' and Generator::generate() continue texts"));
  EXPECT_NE(plain.generate("ab").text, "");
  EXPECT_THAT(refusal([&] { (void)generator_->chat({}); }), HasSubstr("invalid_input: a conversation needs a message"));
  for (const char* wrong : {"{}", "[1]", R"([{"function": {}}])"}) {
    EXPECT_THAT(refusal([&] { (void)generator_->chat(messages_, {}, {.tools = wrong, .template_values = {}}); }),
                HasSubstr("invalid_input: tools"))
        << wrong;
  }
  GenerationSettings hot;
  hot.temperature = 1000;
  EXPECT_THAT(refusal([&] { (void)generator_->stream_chat(messages_, hot); }), HasSubstr("usage: temperature is 1000"));
}

// As vLLM and llama.cpp: what generation_config.json does not name, too.
TEST_F(ChatStreams, EndWithTheTokenOfTheTokenizer) {
  const fs::path source = folder_->path() / "source";
  const auto ends_with = [&](const std::string& name, std::uint32_t token) {
    (void)importer::import_model(source, folder_->path() / name);
    GenerationSettings settings;
    settings.logit_bias = {{token, 100}};
    settings.max_tokens = 5;
    const Completion completion = Generator((folder_->path() / name).string()).generate("ab", settings);
    return completion.reason == FinishReason::stop && completion.end_token == token;
  };
  folder_->write("source/generation_config.json", R"({"eos_token_id": 2})");
  EXPECT_FALSE(ends_with("without", 1));
  folder_->write("source/tokenizer_config.json", R"({"eos_token": "<s>"})");
  EXPECT_TRUE(ends_with("with", 1));
  EXPECT_TRUE(ends_with("both", 2));
}

TEST_F(ChatStreams, LoadInPhasesAndInTheMemoryThatWasSaid) {
  std::vector<std::string> phases;
  GeneratorOptions options;
  options.on_load = [&](LoadPhase phase) { phases.emplace_back(to_string(phase)); };
  const std::string model = (folder_->path() / "model").string();
  const Generator generator(model, {}, options);
  EXPECT_THAT(phases, testing::ElementsAre("reading", "session", "first_run", "ready"));

  const GenerationMemory memory = Generator::memory_of(model, 100);
  EXPECT_EQ(memory.tokens * memory.cache_bytes_per_token, generator.memory_needed(100));
  EXPECT_EQ(memory.weight_bytes, fs::file_size(fs::path(model) / "model.onnx"));
  EXPECT_EQ(memory.total_bytes(), memory.weight_bytes + generator.memory_needed(100));
  EXPECT_EQ(Generator::memory_of(model).tokens, 640U);
  EXPECT_THROW((void)Generator::memory_of(model, 641), Error);

  EXPECT_THAT(generator.verdict().notes, testing::Not(testing::Contains(HasSubstr("the context is"))));
  options.on_load = nullptr;
  options.cache_bytes = generator.memory_needed(100);
  const Generator small(model, {}, options);
  EXPECT_EQ(small.context_length(), 100U);
  EXPECT_THAT(small.verdict().notes, testing::Contains(HasSubstr("the context is 100 tokens instead of 640")));
  options.context_length = 90;
  const Generator named(model, {}, options);
  EXPECT_THAT(named.verdict().notes, testing::Not(testing::Contains(HasSubstr("the context is"))));
  options.context_length = 101;
  EXPECT_THROW(Generator(model, {}, options), Error);
  options = {};

  options.on_load = [](LoadPhase phase) {
    if (phase == LoadPhase::session) throw std::runtime_error("no");
  };
  EXPECT_THROW(Generator(model, {}, options), std::runtime_error);
}

}  // namespace
}  // namespace gpux::generation
