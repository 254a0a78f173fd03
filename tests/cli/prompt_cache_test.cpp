// --prompt-cache: prompts that were computed before a restart, in threads, worker processes and the sandbox.
#include <csignal>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/eventually.h"
#include "base/plain_signals.h"
#include "cli/chat_model.h"
#include "cli/serving.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;
using http::get;
using http::post;
using testing::HasSubstr;

const bool has_plain_signals = (leave_signals_to_programs(), true);

// A token for each character.
const std::string instructions = [] {
  std::string text;
  for (int i = 0; text.size() < 320; ++i) text += "Rule " + std::to_string(i) + " is this. ";
  return text;
}();

Json answer_of(const Serving& server, const std::string& question, const std::string& headers = {},
               const std::string& salt = {}) {
  Json body{{"prompt", instructions + question},
            {"max_tokens", 12},
            {"temperature", 0},
            {"logprobs", 2},
            {"ignore_eos", true}};
  if (!salt.empty()) body["cache_salt"] = salt;
  const Answered answer = server.ask(post("/v1/completions", body.dump(), headers));
  EXPECT_EQ(answer.status, 200) << answer.body;
  return Json::parse(answer.body);
}

std::size_t cached_tokens(const Json& answer) {
  return answer.at("usage").at("prompt_tokens_details").at("cached_tokens").get<std::size_t>();
}

std::size_t files_in(const fs::path& folder) {
  std::size_t count = 0;
  if (!fs::exists(folder)) return 0;
  for (const auto& entry : fs::directory_iterator(folder)) count += entry.path().extension() == ".prompt" ? 1 : 0;
  return count;
}

class PromptCache : public testing::Test {
 protected:
  void SetUp() override { store_chat_model(gpux_, "writer", plain_template); }

  [[nodiscard]] std::vector<std::string> flags(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"writer", "--no-grpc", "--prompt-cache", folder_.string()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  const Program gpux_;
  const fs::path folder_ = gpux_.folder().path() / "prompts";
};

TEST_F(PromptCache, ServesTheFirstRequestAfterARestart) {
  const Json expected = answer_of(Serving(gpux_, {"writer", "--no-grpc"}), "why?").at("choices");
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{}, {"--isolation", "process"}, {"--sandbox", "on"}}) {
    SCOPED_TRACE(more.empty() ? "thread" : more.back());
    fs::remove_all(folder_);
    {
      Serving server(gpux_, flags(more));
      EXPECT_EQ(cached_tokens(answer_of(server, "what?")), 0U);
      server.signal(SIGTERM);
      EXPECT_EQ(server.wait(), 0);
    }
    EXPECT_EQ(files_in(folder_), 1U);
    const Serving server(gpux_, flags(more));
    const Json answer = answer_of(server, "why?");
    EXPECT_EQ(answer.at("choices"), expected);
    EXPECT_GE(cached_tokens(answer), 320U);
    const std::string page = server.ask(get("/metrics")).body;
    EXPECT_THAT(page, testing::ContainsRegex("\ngpux_prompt_cache_files\\{[^\n]*\\} 1\n"));
    EXPECT_THAT(page, testing::ContainsRegex("\ngpux_prompt_cache_tokens_total\\{[^\n]*\\} 3[0-9][0-9]\n"));
  }
}

// The file is written while the server goes on.
TEST_F(PromptCache, IsThereAfterAKill) {
  {
    Serving server(gpux_, flags());
    (void)answer_of(server, "what?");
    EXPECT_TRUE(eventually([&] { return files_in(folder_) == 1; }));
    server.signal(SIGKILL);
    server.wait();
  }
  EXPECT_GE(cached_tokens(answer_of(Serving(gpux_, flags()), "why?")), 320U);
}

// The worker has lost what was in memory.
TEST_F(PromptCache, IsThereAfterAWorkerEnds) {
  const Serving server(gpux_, flags({"--isolation", "process", "--max-restart-delay", "0"}));
  const Json expected = answer_of(server, "what?").at("choices");
  EXPECT_TRUE(eventually([&] { return files_in(folder_) == 1; }));
  const auto worker = [&] {
    const Json metrics = server.json(get("/metrics", "Accept: application/json\r\n"));
    return metrics.at("models").at(0).at("workers").at(0);
  };
  for (int i = 1; i <= 3; ++i) {
    ::kill(worker().at("process_id").get<pid_t>(), SIGKILL);
    EXPECT_TRUE(eventually([&] { return worker().at("restarts") == i && worker().at("state") == "ready"; }));
    const Json answer = answer_of(server, "what?");
    EXPECT_EQ(answer.at("choices"), expected);
    EXPECT_THAT(server.ask(get("/metrics")).body,
                testing::ContainsRegex("\ngpux_prompt_cache_hits_total\\{[^\n]*\\} " + std::to_string(i) + "\n"));
  }
}

TEST_F(PromptCache, IsOfAKeyAndASalt) {
  const std::string keys = gpux_.folder().write("keys.txt", "first-key-123\nsecond-key-456\n").string();
  const std::string first = "Authorization: Bearer first-key-123\r\n",
                    second = "Authorization: Bearer second-key-456\r\n";
  {
    Serving server(gpux_, flags({"--api-key-file", keys}));
    (void)answer_of(server, "what?", first, "salt");
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait(), 0);
  }
  const Serving server(gpux_, flags({"--api-key-file", keys}));
  EXPECT_EQ(cached_tokens(answer_of(server, "why?", second, "salt")), 0U);
  EXPECT_EQ(cached_tokens(answer_of(server, "why?", first)), 0U);
  EXPECT_GE(cached_tokens(answer_of(server, "why?", first, "salt")), 320U);
}

TEST_F(PromptCache, ServesGenerateAndIsRefusedByName) {
  const std::vector<std::string> command{"generate", "writer", instructions,     "--max-tokens",
                                         "3",        "--json", "--prompt-cache", folder_.string()};
  EXPECT_EQ(Json::parse(gpux_.run(command).out).at("cached_tokens"), 0);
  EXPECT_GE(Json::parse(gpux_.run(command).out).at("cached_tokens").get<int>(), 300);
  const Outcome alone = gpux_.run({"generate", "writer", "a", "--prompt-cache-size", "1GiB"});
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err, HasSubstr("--prompt-cache-size requires --prompt-cache"));
  const Outcome small =
      gpux_.run({"generate", "writer", "a", "--prompt-cache", folder_.string(), "--prompt-cache-size", "1kB"});
  EXPECT_EQ(small.code, 2);
  const Outcome both =
      gpux_.run({"serve", "writer", "--no-prefix-caching", "--port", "0", "--prompt-cache", folder_.string()});
  EXPECT_EQ(both.code, 2) << both.err;
  EXPECT_THAT(both.err, HasSubstr("--prompt-cache is '"));
  fs::create_directory_symlink(folder_, gpux_.folder().path() / "link");
  const Outcome link =
      gpux_.run({"generate", "writer", "a", "--prompt-cache", (gpux_.folder().path() / "link").string()});
  EXPECT_EQ(link.code, 2);
  EXPECT_THAT(link.err, HasSubstr("is a link"));
}

}  // namespace
}  // namespace gpux::test
