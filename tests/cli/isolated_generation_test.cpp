// Models that generate text in worker processes: the texts of a model in the server's process, and what clients get
// when a worker crashes or hangs.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/plain_signals.h"
#include "base/stop_process.h"
#include "cli/chat_model.h"
#include "cli/serving.h"

namespace gpux::test {
namespace {

using http::get;
using http::post;
using testing::HasSubstr;

const bool has_plain_signals = (leave_signals_to_programs(), true);

Json worker_of(const Serving& server) {
  const Json metrics = server.json(get("/metrics", "Accept: application/json\r\n"));
  return metrics.at("models").at(0).at("workers").at(0);
}

bool is_ready(const Serving& server) {
  return worker_of(server).at("state") == "ready";
}

void signal_worker(const Serving& server, int number) {
  const auto process = worker_of(server).at("process_id").get<pid_t>();
  ASSERT_GT(process, 1);
  ::kill(process, number);
}

std::string completion(Json settings) {
  settings.update({{"model", "writer"}});
  return post("/v1/completions", settings.dump());
}

// Different for each number, and long enough to be met by a fault.
std::string numbered(int number, int tokens) {
  return completion({{"prompt", "a text of " + std::to_string(number)},
                     {"max_tokens", tokens},
                     {"ignore_eos", true},
                     {"temperature", 0.8},
                     {"seed", number}});
}

std::string text_of(const Answered& answer) {
  return Json::parse(answer.body).at("choices").at(0).at("text").get<std::string>();
}

// Without what differs from request to request.
Json choices_of(const Answered& answer) {
  EXPECT_EQ(answer.status, 200) << answer.body;
  return Json::parse(answer.body).value("choices", Json());
}

TEST(IsolatedGeneration, GivesTheTextsOfAThread) {
  const Program gpux;
  store_chat_model(gpux, "writer", plain_template);
  const Serving here(gpux, {"writer=writer"});
  const Serving there(gpux, {"writer=writer", "--isolation", "process"});
  EXPECT_THAT(there.ready().at("models").at(0).at("verdict").dump(), HasSubstr("the model runs in a worker process"));
  const std::vector<std::string> requests{
      completion({{"prompt", "one"}, {"max_tokens", 30}, {"logprobs", 3}, {"ignore_eos", true}, {"temperature", 0}}),
      completion({{"prompt", "one"}, {"max_tokens", 30}, {"n", 3}, {"temperature", 1}, {"seed", 5}}),
      completion({{"prompt", "score me"}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 1}}),
      completion(
          {{"prompt", "as JSON"}, {"max_tokens", 60}, {"seed", 3}, {"response_format", {{"type", "json_object"}}}}),
      completion({{"prompt", std::string(300, 'x')}, {"max_tokens", 5}, {"seed", 4}, {"repetition_penalty", 1.3}}),
      post("/v1/chat/completions", Json{{"model", "writer"},
                                        {"messages", Json::array({Json{{"role", "user"}, {"content", "hello"}}})},
                                        {"seed", 5},
                                        {"max_tokens", 20}}
                                       .dump()),
  };
  for (const std::string& request : requests) {
    const Json expected = choices_of(here.ask(request)), answer = choices_of(there.ask(request));
    EXPECT_EQ(answer, expected);
    EXPECT_FALSE(expected.empty());
  }
}

// Those of the server that asks, too: what does not fit is refused before a run.
TEST(IsolatedGeneration, RefusesAsAThreadDoes) {
  const Program gpux;
  store_chat_model(gpux, "writer", plain_template);
  const Serving here(gpux, {"writer=writer"});
  const Serving there(gpux, {"writer=writer", "--isolation", "process"});
  for (const std::string& request : {completion({{"prompt", std::string(5000, 'x')}}),
                                     completion({{"prompt", "a"}, {"logit_bias", {{"100000", 1}}}})}) {
    const Answered expected = here.ask(request), answer = there.ask(request);
    EXPECT_EQ(answer.status, expected.status);
    EXPECT_EQ(answer.body, expected.body);
  }
}

// 24 workers are ended under load: texts go on in the next one, and are those of a server without faults. One may be
// lost where two workers end before it gets a token.
TEST(IsolatedGeneration, GoesOnWithTheTextsOfAWorkerThatEnds) {
  constexpr int faults = 24, clients = 4, texts = 8, tokens = 40;
  const Program gpux;
  store_chat_model(gpux, "writer", plain_template);
  std::map<int, std::string> expected;
  {
    const Serving server(gpux, {"writer=writer"});
    for (int number = 0; number < texts; ++number) {
      expected[number] = text_of(server.ask(numbered(number, tokens)));
    }
  }
  const Serving server(gpux, {"writer=writer", "--isolation", "process", "--max-restart-delay", "0"});
  std::atomic<bool> is_over = false;
  std::mutex mutex;
  std::map<int, int> answers;  // by status
  std::set<std::string> messages;
  std::vector<std::jthread> threads;
  for (int client = 0; client < clients; ++client) {
    threads.emplace_back([&, client] {
      RawClient connection(server.port());
      for (int i = client; !is_over; ++i) {
        const Answered answer = connection.ask(numbered(i % texts, tokens));
        const std::lock_guard lock(mutex);
        ++answers[answer.status];
        if (answer.status == 200) {
          EXPECT_EQ(text_of(answer), expected[i % texts]);
        } else {
          messages.insert(answer.body);
        }
        if (answer.status == 0) return;
      }
    });
  }
  for (int i = 0; i < faults; ++i) {
    ASSERT_TRUE(eventually([&] { return is_ready(server); })) << i;
    signal_worker(server, i % 2 == 0 ? SIGKILL : SIGSEGV);
    ASSERT_TRUE(eventually([&] { return worker_of(server).at("restarts").get<int>() == i + 1; })) << i;
    const Answered answer = server.ask(numbered(0, tokens));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.status == 200 ? text_of(answer) : std::string(), expected[0]);
  }
  is_over = true;
  threads.clear();
  std::printf("%d workers ended: %d texts, %d lost\n", faults, answers[200], answers[500]);
  EXPECT_GT(answers[200], 0);
  EXPECT_LE(answers[500], faults);
  for (const auto& [status, count] : answers) EXPECT_TRUE(status == 200 || status == 500) << status << ": " << count;
  for (const std::string& message : messages) {
    EXPECT_THAT(message, HasSubstr("the worker of 'writer' was ended by signal ")) << message;
  }
  EXPECT_EQ(server.ask(get("/health/ready")).status, 200);
}

// A worker that has no text is replaced without a word.
TEST(IsolatedGeneration, GoesOnAfterTheEndOfAnIdleWorker) {
  const Program gpux;
  store_chat_model(gpux, "writer", plain_template);
  const Serving server(gpux, {"writer=writer", "--isolation", "process"});
  const std::string text = text_of(server.ask(numbered(1, 20)));
  signal_worker(server, SIGKILL);
  ASSERT_TRUE(eventually([&] { return worker_of(server).at("restarts") == 1 && is_ready(server); }));
  // The beginning of the prompt is not taken for one whose keys and values are there.
  EXPECT_EQ(text_of(server.ask(numbered(1, 20))), text);
}

TEST(IsolatedGeneration, ReplacesAWorkerThatHangs) {
  const Program gpux;
  store_chat_model(gpux, "writer", plain_template);
  Serving server(gpux, {"writer=writer", "--isolation", "process", "--timeout", "3s", "--stop-grace", "300ms"});
  const std::string text = text_of(server.ask(numbered(1, 5)));
  ASSERT_TRUE(stop_process(worker_of(server).at("process_id").get<pid_t>()));
  const Answered late = server.ask(numbered(1, 5));
  EXPECT_EQ(late.status, 504) << late.body;
  EXPECT_TRUE(eventually([&] { return worker_of(server).at("restarts") == 1; }));
  EXPECT_EQ(worker_of(server).at("last_end"),
            "the worker of 'writer' was killed: a run did not end within 300 ms after the request to stop");
  EXPECT_TRUE(eventually([&] { return is_ready(server); }));
  EXPECT_EQ(text_of(server.ask(numbered(1, 5))), text);
  EXPECT_EQ(server.ask(get("/health/ready")).status, 200);
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
}

// The model of a stranger is in a sandbox, and the program says so.
TEST(IsolatedGeneration, IsTheDefaultOfPackagesFromElsewhere) {
  const Program gpux;
  store_chat_model(gpux, "writer", plain_template);
  const std::string archive = (gpux.folder().path() / "package.tar").string();
  ASSERT_EQ(gpux.run({"save", "writer", "-o", archive}).code, 0);
  const Outcome own = gpux.run({"generate", "writer", "a text", "--max-tokens", "10", "--seed", "7", "--json"});
  ASSERT_EQ(own.code, 0) << own.err;
  EXPECT_THAT(own.out, testing::Not(HasSubstr("sandbox")));
  ASSERT_EQ(gpux.run({"rm", "writer"}).code, 0);
  ASSERT_EQ(gpux.run({"load", "-i", archive}).code, 0);
  const Serving server(gpux, {"writer=writer"});
  const std::string verdict = server.ready().at("models").at(0).at("verdict").dump();
  EXPECT_THAT(verdict, HasSubstr("the model runs in a worker process: the package was pulled or loaded"));
  EXPECT_THAT(verdict, HasSubstr("sandbox"));
  const Outcome strangers = gpux.run({"generate", "writer", "a text", "--max-tokens", "10", "--seed", "7", "--json"});
  ASSERT_EQ(strangers.code, 0) << strangers.err;
  EXPECT_EQ(Json::parse(strangers.out).at("text"), Json::parse(own.out).at("text"));
  EXPECT_THAT(strangers.out, HasSubstr("the model runs in a worker process"));
  const Outcome thread = gpux.run({"generate", "writer", "a text", "--max-tokens", "1", "--isolation", "thread"});
  EXPECT_EQ(thread.code, 0) << thread.err;
  EXPECT_THAT(thread.err, HasSubstr("a crash would end it"));
}

}  // namespace
}  // namespace gpux::test
