// gpux daemon, as it is run: killed, fed with what is no event, told to read its state file again.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/eventually.h"
#include "base/files.h"
#include "cli/program.h"
#include "embedding/encoder_folder.h"
#include "onnx/graph_writer.h"
#include "server/raw_client.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

/// `gpux daemon` in a process of its own, killed with the object.
class Process {
 public:
  Process(const Program& gpux, std::vector<std::string> arguments,
          const std::vector<std::pair<std::string, std::string>>& environment = {})
      : log_(gpux.folder().path() / "daemon.log") {
    arguments.insert(arguments.begin(), {"daemon", "--json"});
    const auto [child, out] = start(gpux, arguments, log_, true, environment);
    child_ = child;
    out_ = out;
  }

  ~Process() {
    kill();
    ::close(out_);
  }

  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Its line on standard output, once it watches.
  [[nodiscard]] Json ready() const {
    std::string line;
    for (char c = 0; ::read(out_, &c, 1) == 1 && c != '\n';) line += c;
    return Json::parse(line, nullptr, false);
  }

  [[nodiscard]] std::string log() const { return read_file(log_); }

  void signal(int number) const { ::kill(child_, number); }

  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = -1;
  }

  /// Its exit code.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(child_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  fs::path log_;
  pid_t child_ = -1;
  int out_ = -1;
};

/// A client of a unix socket, as many a program writes one.
class LineClient {
 public:
  explicit LineClient(const fs::path& path) : descriptor_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(path.native().begin(), path.native().end(), address.sun_path);
    connected_ =
        descriptor_ >= 0 && ::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }

  ~LineClient() { ::close(descriptor_); }

  LineClient(const LineClient&) = delete;
  LineClient& operator=(const LineClient&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }

  void send(const std::string& text) const { EXPECT_EQ(::send(descriptor_, text.data(), text.size(), 0), text.size()); }

  void send_no_more() const { ::shutdown(descriptor_, SHUT_WR); }

  /// Null where the connection has ended.
  [[nodiscard]] Json answer() const {
    std::string line;
    for (char c = 0; ::recv(descriptor_, &c, 1, 0) == 1;) {
      if (c == '\n') return Json::parse(line, nullptr, false);
      line += c;
    }
    return nullptr;
  }

 private:
  int descriptor_;
  bool connected_ = false;
};

class Daemon : public testing::Test {
 protected:
  void SetUp() override {
    write_encoder_folder(gpux_.folder(), R"({"pooling_mode": "mean"})", true);
    fs::create_directories(path("events"));
  }

  [[nodiscard]] fs::path path(const std::string& name) const { return gpux_.folder().path() / name; }

  // The state file, with the small encoder where `more` names no model.
  [[nodiscard]] std::string state(const std::string& sources, const std::string& more = R"("model": "encoder")") const {
    return gpux_.folder()
        .write("state.json", R"({"output": "out", "rescan": "1s", "sources": {)" + sources + "}" +
                                 (more.empty() ? "" : ", " + more) + "}")
        .string();
  }

  // As it should be put there.
  void add_event(const std::string& name, const std::string& json) const {
    const fs::path part = gpux_.folder().write("events/." + name + ".part", json);
    fs::rename(part, path("events") / name);
  }

  // Each whole, and read by the place that it names.
  [[nodiscard]] std::map<std::string, Json> vectors() const {
    std::map<std::string, Json> found;
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(path("out/vectors"), missing)) {
      if (entry.path().extension() != ".vec") continue;
      const Json vec = Json::parse(content_of(entry.path()), nullptr, false);
      EXPECT_FALSE(vec.is_discarded()) << entry.path() << " is torn";
      EXPECT_EQ(entry.path().stem(), vec.at("hash").get<std::string>());
      const Json& from = vec.at("metadata");
      const std::string place = from.at("source").get<std::string>() + " " + from.at("position").get<std::string>();
      EXPECT_TRUE(found.emplace(place, vec).second) << place << " has two vectors";
    }
    return found;
  }

  [[nodiscard]] std::size_t count(const std::string& folder) const {
    std::error_code missing;
    std::size_t files = 0;
    for (const auto& entry : fs::directory_iterator(path(folder), missing)) {
      files += entry.path().filename().string().starts_with('.') ? 0U : 1U;
    }
    return files;
  }

  [[nodiscard]] bool has_vectors(std::size_t wanted) const {
    return eventually([&] { return count("out/vectors") >= wanted; });
  }

  [[nodiscard]] Json status() const { return Json::parse(content_of(path("out/daemon/status.json")), nullptr, false); }

  template <typename Condition>
  [[nodiscard]] bool status_becomes(Condition condition) const {
    return eventually([&] {
      const Json now = status();
      return !now.is_discarded() && condition(now);
    });
  }

  // Texts of the vectors, whatever order they were made in.
  [[nodiscard]] std::multiset<std::string> texts() const {
    std::multiset<std::string> found;
    for (const auto& [place, vec] : vectors()) found.insert(vec.at("metadata").at("text").get<std::string>());
    return found;
  }

  Program gpux_;
};

TEST_F(Daemon, MakesTheVectorsThatEmbedMakes) {
  add_event("1.json", R"({"plugin": "net", "operation": "update", "data": {"dev": "eth0"}})");
  add_event("2.json", R"({"plugin": "dns", "operation": "query", "data": {"name": "a.b"}, "timestamp": 5})");
  Process daemon(gpux_, {"--state-file", state(R"("events": "events")"), "--metrics-port", "0"});
  const Json ready = daemon.ready();
  ASSERT_TRUE(has_vectors(2)) << daemon.log();
  add_event("3.json", R"({"plugin": "net", "operation": "delete"})");  // while it watches
  ASSERT_TRUE(has_vectors(3)) << daemon.log();
  const auto made = vectors();
  const Json& first = made.at("events 1.json");
  EXPECT_EQ(first.at("metadata").at("text"), "plugin: net\noperation: update\ndev: eth0");
  const Outcome embedded = gpux_.run({"embed", "--model", path("encoder"), first.at("metadata").at("text")});
  EXPECT_EQ(first.at("vector"), embedded.json().at("vector"));
  EXPECT_EQ(first.at("metadata").at("digest"), embedded.json().at("digest"));
  const Json timing =
      Json::parse(content_of(path("out/timing") / (made.at("events 2.json").at("hash").get<std::string>() + ".json")));
  EXPECT_EQ(timing.at("timestamp"), 5);
  EXPECT_EQ(timing.at("provider"), "cpu");
  const Outcome found = gpux_.run({"search", "plugin: net\noperation: delete", "--index", path("out/vectors"),
                                   "--model", path("encoder"), "--top-k", "1", "--json"});
  ASSERT_EQ(found.code, 0) << found.err;
  EXPECT_EQ(found.json().at("results").at(0).at("text"), "plugin: net\noperation: delete");

  const auto ask = [&](const char* target) {
    return http::RawClient(ready.at("metrics_port").get<std::uint16_t>())
        .ask(std::string("GET ") + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .body;
  };
  EXPECT_TRUE(eventually([&] { return Json::parse(ask("/status")).at("written") == 3; }));
  EXPECT_THAT(ask("/metrics"), AllOf(HasSubstr("gpux_daemon_written_total{source=\"events\",kind=\"directory\"} 3\n"),
                                     HasSubstr("gpux_daemon_waiting_events{source=\"events\",kind=\"directory\"} 0\n"),
                                     HasSubstr("gpux_daemon_model_info{model=\"encoder\"")));
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);
  EXPECT_THAT(daemon.log(), AllOf(HasSubstr("model encoder (state.json)"), HasSubstr("asked for cpu (default)"),
                                  HasSubstr("ended: 3 vectors written")));
  EXPECT_EQ(status().at("waiting"), 0);
}

TEST_F(Daemon, MakesEachVectorOnceThoughItIsKilled) {
  constexpr int events = 300, kills = 3;
  const std::string file = state(R"("events": "events", "log": {"file": "log.jsonl"})");
  std::mt19937 random(20260131);
  int written = 0;
  std::ofstream log(path("log.jsonl"), std::ios::app);
  const auto add_some = [&](int until) {
    for (; written < until; ++written) {
      const std::string json = R"({"plugin": "p", "data": {"n": )" + std::to_string(written) + "}}";
      add_event(std::to_string(written) + ".json", json);
      log << json << std::endl;
    }
  };
  for (int kill = 0; kill <= kills; ++kill) {
    Process daemon(gpux_, {"--state-file", file});
    add_some(events * (kill + 1) / (kills + 1));
    const std::size_t before = count("out/vectors");
    if (kill < kills) {
      // In the middle of its work, wherever that is.
      ASSERT_TRUE(eventually([&] { return count("out/vectors") > before; })) << daemon.log();
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 100'000));
    } else {
      ASSERT_TRUE(has_vectors(std::size_t{2} * events)) << daemon.log();
      ASSERT_TRUE(status_becomes([](const Json& now) { return now.at("waiting") == 0; }));
    }
  }
  const auto made = vectors();
  EXPECT_EQ(made.size(), 2U * events);
  EXPECT_EQ(count("out/timing"), 2U * events);
  EXPECT_EQ(count("out/rejected"), 0U);
  for (int i = 0; i < events; ++i) EXPECT_TRUE(made.contains("events " + std::to_string(i) + ".json")) << i;
  const auto all = texts();
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), static_cast<std::size_t>(events));
}

TEST_F(Daemon, AnswersASocketOnceTheEventIsSafe) {
  const std::string file = state(R"("in": {"socket": "in.sock"})");
  std::set<std::string> accepted;
  {
    Process daemon(gpux_, {"--state-file", file});
    ASSERT_FALSE(daemon.ready().is_discarded()) << daemon.log();
    ASSERT_TRUE(eventually([&] { return LineClient(path("in.sock")).connected(); }));
    const LineClient client(path("in.sock"));
    client.send("{\"plugin\": \"p\", \"data\": 1}\nno JSON\r\n\n{\"plugin\": \"p\", ");
    accepted.insert(client.answer().at("hash").get<std::string>());
    EXPECT_THAT(client.answer().at("error").get<std::string>(), HasSubstr("not JSON at byte"));
    client.send("\"data\": 2}\r\n");
    accepted.insert(client.answer().at("hash").get<std::string>());
    const LineClient another(path("in.sock"));
    for (int i = 0; i < 200; ++i) another.send("{\"plugin\": \"q\", \"data\": " + std::to_string(i) + "}\n");
    another.send("{\"plugin\": \"half\"");
    another.send_no_more();
    for (int i = 0; i < 200; ++i) accepted.insert(another.answer().at("hash").get<std::string>());
    EXPECT_THAT(another.answer().at("error").get<std::string>(), HasSubstr("no line feed"));
    EXPECT_EQ(another.answer(), nullptr);

    struct stat socket {};

    ASSERT_EQ(::stat(path("in.sock").c_str(), &socket), 0);
    EXPECT_EQ(socket.st_mode & 0777, 0600U);
  }  // killed
  EXPECT_EQ(accepted.size(), 202U);
  Process daemon(gpux_, {"--state-file", file});
  ASSERT_TRUE(has_vectors(202)) << daemon.log();
  std::set<std::string> made;
  for (const auto& [place, vec] : vectors()) made.insert(vec.at("hash").get<std::string>());
  EXPECT_EQ(made, accepted);
  // The name was left behind by the kill, and is taken over.
  ASSERT_TRUE(eventually([&] { return LineClient(path("in.sock")).connected(); })) << daemon.log();
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);
  EXPECT_FALSE(fs::exists(path("in.sock")));
}

TEST_F(Daemon, TellsAnEventThatCameTwiceByItsId) {
  add_event("1.json", R"({"id": "x", "data": 1})");
  add_event("2.json", R"({"id": "x", "data": 1})");
  add_event("3.json", R"({"id": "y", "data": 1})");
  Process daemon(gpux_, {"--state-file", state(R"("events": "events")")});
  ASSERT_TRUE(status_becomes([](const Json& now) { return now.at("taken") == 3 && now.at("waiting") == 0; }))
      << daemon.log();
  EXPECT_EQ(count("out/vectors"), 2U);
}

TEST_F(Daemon, FollowsAFileThatIsRotatedCutAndAppendedTo) {
  const std::string file = state(R"("log": {"file": "log.jsonl"})");
  const auto line = [](int n) { return "{\"data\": " + std::to_string(n) + "}\n"; };
  const auto append = [&](const std::string& text) { std::ofstream(path("log.jsonl"), std::ios::app) << text; };
  std::size_t wanted = 0;
  {
    Process daemon(gpux_, {"--state-file", file});
    ASSERT_TRUE(status_becomes([](const Json& now) {
      return now.at("sources").at(0).at("state").get<std::string>().find("there is no file") != std::string::npos;
    })) << daemon.log();
    append(line(1) + "\n" + line(2) + "{\"data\"");
    ASSERT_TRUE(has_vectors(wanted = 2)) << daemon.log();
    append(": 3}\n");
    ASSERT_TRUE(has_vectors(wanted = 3)) << daemon.log();
    append(line(4) + "{\"data\": 5}");
    fs::rename(path("log.jsonl"), path("log.jsonl.1"));
    append(line(6));
    ASSERT_TRUE(has_vectors(wanted = 6)) << daemon.log();
    ASSERT_TRUE(status_becomes([](const Json& now) { return now.at("waiting") == 0; }));
  }
  // Twice while it is not there.
  append(line(7));
  fs::rename(path("log.jsonl.1"), path("log.jsonl.3"));
  fs::rename(path("log.jsonl"), path("log.jsonl.2"));
  append(line(8));
  fs::rename(path("log.jsonl"), path("log.jsonl.1"));
  append(line(9));
  Process daemon(gpux_, {"--state-file", file});
  ASSERT_TRUE(has_vectors(wanted = 9)) << daemon.log();
  ASSERT_TRUE(status_becomes([](const Json& now) { return now.at("waiting") == 0; }));
  std::ofstream(path("log.jsonl"), std::ios::trunc) << "\n" << line(1);
  ASSERT_TRUE(has_vectors(wanted = 10)) << daemon.log();
  EXPECT_THAT(daemon.log(), HasSubstr("was cut off and begun anew"));
  const auto all = texts();
  EXPECT_EQ(all.count("data: 1"), 2U) << "the same line of another file is another event";
  for (int n = 2; n <= 9; ++n) EXPECT_EQ(all.count("data: " + std::to_string(n)), 1U) << n;
}

TEST_F(Daemon, SetsAsideWhatIsNoEvent) {
  add_event("good.json", R"({"data": 1})");
  add_event("bad.json", R"({"data": )");
  add_event("deep.json", std::string(9, '[') + std::string(9, ']'));
  add_event("large.json", R"({"data": ")" + std::string(2000, 'x') + "\"}");
  add_event("empty.json", "");
  gpux_.folder().write("log.jsonl", "{\"data\": 2}\nno\n" + std::string(5000, 'y') + "\n{\"data\": 3}\n");
  fs::create_directory(path("events/folder.json"));
  gpux_.folder().write("events/other.txt", "no event");
  const std::string file = state(R"("events": "events", "log": {"file": "log.jsonl"}, "gone": "no/such/folder")",
                                 R"("model": "encoder", "limits": {"event_bytes": 1000, "event_depth": 8})");
  {
    Process daemon(gpux_, {"--state-file", file});
    ASSERT_TRUE(has_vectors(3)) << daemon.log();
    ASSERT_TRUE(eventually([&] { return count("out/rejected") == 6; })) << daemon.log();
    ASSERT_TRUE(status_becomes([](const Json& now) { return now.at("refused") == 6; })) << status();
    EXPECT_THAT(daemon.log(), AllOf(HasSubstr("events bad.json is set aside: not JSON at byte"),
                                    HasSubstr("events deep.json is set aside: nested deeper than 8 levels"),
                                    HasSubstr("events large.json is set aside: it has 2012 bytes, more than the 1000"),
                                    HasSubstr("log 1:12 is set aside: not JSON"),
                                    HasSubstr("log 1:15 is set aside: it has 5001 bytes"),
                                    HasSubstr("gone waits: cannot read the folder")));
  }
  std::map<std::string, std::string> reasons;
  for (const auto& entry : fs::directory_iterator(path("out/rejected"))) {
    const Json one = Json::parse(content_of(entry.path()));
    reasons[one.at("position")] = one.at("reason");
  }
  EXPECT_EQ(reasons.size(), 6U);
  EXPECT_TRUE(reasons.contains("empty.json"));
  // Another start tells nothing again, and what is mended is taken.
  fs::remove(path("daemon.log"));
  add_event("bad.json", R"({"data": 4})");
  Process daemon(gpux_, {"--state-file", file});
  ASSERT_TRUE(has_vectors(4)) << daemon.log();
  EXPECT_THAT(daemon.log(), testing::Not(HasSubstr("is set aside")));
}

TEST_F(Daemon, GoesOnWhereItCanWriteAgain) {
  Process daemon(gpux_, {"--state-file", state(R"("events": "events", "in": {"socket": "in.sock"})")});
  ASSERT_FALSE(daemon.ready().is_discarded());
  fs::rename(path("out/vectors"), path("out/kept"));
  gpux_.folder().write("out/vectors", "in its way");
  for (int i = 0; i < 50; ++i) add_event(std::to_string(i) + ".json", "{\"data\": " + std::to_string(i) + "}");
  ASSERT_TRUE(status_becomes([](const Json& now) {
    return !now.at("problems").at("sink").is_null() && now.at("waiting") == 50;
  })) << status();
  ASSERT_TRUE(eventually([&] { return LineClient(path("in.sock")).connected(); }));
  const LineClient client(path("in.sock"));
  client.send("{\"data\": \"meanwhile\"}\n");
  EXPECT_TRUE(client.answer().at("accepted"));
  fs::remove(path("out/vectors"));
  fs::rename(path("out/kept"), path("out/vectors"));
  ASSERT_TRUE(has_vectors(51)) << daemon.log();
  EXPECT_THAT(daemon.log(), AllOf(HasSubstr("nothing can be written, which is tried again: "),
                                  HasSubstr("vectors are written again")));
}

TEST_F(Daemon, HasAnOutputToItself) {
  const std::string file = state(R"("events": "events")");
  const Process daemon(gpux_, {"--state-file", file});
  ASSERT_FALSE(daemon.ready().is_discarded());
  const Outcome second = gpux_.run({"daemon", "--state-file", file, "-q"});
  EXPECT_EQ(second.code, 13);
  EXPECT_TRUE(is_one_line(second.err)) << second.err;
  EXPECT_THAT(second.err, HasSubstr("another gpux daemon writes to '" + path("out").string() + "'"));
}

TEST_F(Daemon, ReadsItsStateFileAgain) {
  add_event("1.json", R"({"data": 1})");
  gpux_.folder().write("log.jsonl", "{\"data\": 2}\n");
  Process daemon(gpux_, {"--state-file", state(R"("events": "events")")});
  ASSERT_TRUE(has_vectors(1)) << daemon.log();
  (void)state(R"("events": "events", "log": {"file": "log.jsonl"}, "in": {"socket": "in.sock"})");
  ASSERT_TRUE(has_vectors(2)) << daemon.log();
  ASSERT_TRUE(eventually([&] { return LineClient(path("in.sock")).connected(); }));
  const LineClient client(path("in.sock"));
  // What is wrong is told, and nothing else happens.
  gpux_.folder().write("state.json", R"({"output": "out", "sorces": {}})");
  ASSERT_TRUE(status_becomes([](const Json& now) { return !now.at("problems").at("state_file").is_null(); }));
  EXPECT_THAT(daemon.log(), AllOf(HasSubstr("what it said before goes on: "), HasSubstr("did you mean 'sources'?")));
  client.send("{\"data\": 3}\n");
  EXPECT_TRUE(client.answer().at("accepted"));
  // A connection outlives a change of other sources.
  (void)state(R"("log": {"file": "log.jsonl"}, "in": {"socket": "in.sock"})");
  daemon.signal(SIGHUP);
  ASSERT_TRUE(status_becomes([](const Json& now) { return now.at("sources").size() == 2; })) << daemon.log();
  client.send("{\"data\": 4}\n");
  EXPECT_TRUE(client.answer().at("accepted"));
  ASSERT_TRUE(has_vectors(4)) << daemon.log();
  // No level, no vectors; and back.
  (void)state(R"("events": "events")", "");
  ASSERT_TRUE(eventually([&] { return daemon.log().find("level none (default)") != std::string::npos; }));
  EXPECT_EQ(client.answer(), nullptr);
  add_event("5.json", R"({"data": 5})");
  (void)state(R"("events": "events")");
  ASSERT_TRUE(has_vectors(5)) << daemon.log();
}

TEST_F(Daemon, WritesNothingAtTheLevelNone) {
  add_event("1.json", R"({"data": 1})");
  Process daemon(gpux_, {"--state-file", state(R"("events": "events", "in": {"socket": "in.sock"})", "")});
  ASSERT_FALSE(daemon.ready().is_discarded());
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);
  EXPECT_THAT(daemon.log(), HasSubstr("level none (default): nothing is watched, and nothing will be written"));
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(Daemon, TellsAWrongCallInOneLine) {
  struct {
    std::string text;
    int code;
    const char* words;
  } const cases[]{
      {R"({"version": 1, "plugins": {}})", 2, "it is a state file of op-dbus itself"},
      {"{\n  \"output\": \"o\",\n  \"sources\": {\"a\": \"b\"},\n  \"levle\": 1\n}", 3, "state.json:4:3: unknown key"},
      {R"({"output": "out", "model": "no-such-model", "sources": {"a": "b"}})", 7, "no-such-model"},
      {R"({"output": "out", "model": "encoder", "provider": "cudda", "sources": {"a": "b"}})", 2,
       "did you mean 'cuda'"},
  };

  for (const auto& one : cases) {
    const std::string file = gpux_.folder().write("state.json", one.text).string();
    const Outcome outcome = gpux_.run({"daemon", "--state-file", file});
    EXPECT_EQ(outcome.code, one.code) << outcome.err;
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(one.words));
  }
  EXPECT_EQ(gpux_.run({"daemon", "--state-file", path("nowhere.json")}).code, 7);
  EXPECT_EQ(gpux_.run({"daemon"}).code, 2);
}

/// Levels of op-dbus, each a table of made up vectors.
class DaemonLevels : public Daemon {
 protected:
  void keep(const std::string& name, std::int64_t width) const {
    constexpr std::int64_t tokens = 1500;
    std::vector<float> table(static_cast<std::size_t>(tokens * width));
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = std::sin(static_cast<float>(i) * 0.37F);
    onnx::GraphWriter graph("tokens");
    const std::vector<onnx::WrittenSize> ids{"batch", "sequence"};
    graph.input("input_ids", ElementType::int64, ids);
    graph.node("Gather", {graph.floats("table", table, {tokens, width}), "input_ids"}, {}, "last_hidden_state");
    const std::vector<onnx::WrittenSize> hidden{"batch", "sequence", width};
    graph.output("last_hidden_state", ElementType::float32, hidden);
    fs::create_directories(path("models") / name);
    graph.write(path("models") / name / "model.onnx", 17, 8);
    fs::copy_file(GPUX_SOURCE_DIR "/tests/text/data/wordpiece.json", path("models") / name / "tokenizer.json");
  }
};

TEST_F(DaemonLevels, ComeFromFlagsVariablesAndTheFileInThatOrder) {
  keep("paraphrase-MiniLM-L3-v2", 384);
  keep("paraphrase-MiniLM-L6-v2", 384);
  keep("all-mpnet-base-v2", 768);
  const std::string file =
      state(R"("events": "events")", R"("level": "low", "model_dir": "models", "provider": "cpu")");

  struct {
    std::vector<std::string> arguments;
    std::vector<std::pair<std::string, std::string>> environment;
    const char* level;
    const char* provider;
  } const cases[]{
      {{}, {}, "level low (state.json)", "asked for cpu (state.json)"},
      {{}, {{"OP_DBUS_VECTOR_LEVEL", "med"}}, "level medium (OP_DBUS_VECTOR_LEVEL)", "asked for cpu (state.json)"},
      {{},
       {{"OP_DBUS_VECTOR_LEVEL", "low"}, {"GPUX_VECTOR_LEVEL", "high"}, {"OP_DBUS_EXECUTION_PROVIDER", "cpu"}},
       "level high (GPUX_VECTOR_LEVEL)",
       "asked for cpu (OP_DBUS_EXECUTION_PROVIDER)"},
      {{"--level", "medium", "--provider", "cpu"},
       {{"GPUX_VECTOR_LEVEL", "high"}, {"GPUX_PROVIDER", "auto"}},
       "level medium (--level)",
       "asked for cpu (--provider)"},
      {{}, {{"OP_DBUS_VECTOR_LEVEL", "none"}}, "level none (OP_DBUS_VECTOR_LEVEL)", ""},
  };

  for (const auto& one : cases) {
    fs::remove(path("daemon.log"));
    std::vector<std::string> arguments{"--state-file", file};
    arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
    Process daemon(gpux_, arguments, one.environment);
    ASSERT_FALSE(daemon.ready().is_discarded()) << daemon.log();
    EXPECT_THAT(daemon.log(), AllOf(HasSubstr(one.level), HasSubstr(one.provider)));
  }
}

TEST_F(DaemonLevels, NoneHasFeaturesWhereTheyAreAsked) {
  add_event("1.json", R"({"plugin": "net", "operation": "update", "data": {"dev": "eth0"}})");
  const std::string file = state(R"("events": "events")", R"("level": "none", "features": "heuristic")");
  {
    Process daemon(gpux_, {"--state-file", file});
    ASSERT_TRUE(has_vectors(1)) << daemon.log();
    EXPECT_THAT(daemon.log(), HasSubstr("with heuristic features: 64 numbers"));
  }
  const Json made = vectors().at("events 1.json");
  EXPECT_EQ(made.at("metadata").at("model"), "heuristic-features");
  EXPECT_EQ(made.at("metadata").at("level"), "none");
  const Outcome embedded = gpux_.run({"embed", "--level", "none", "--features", "heuristic",
                                      R"({"plugin": "net", "operation": "update", "data": {"dev": "eth0"}})"});
  ASSERT_EQ(embedded.code, 0) << embedded.err;
  EXPECT_EQ(embedded.json().at("vector"), made.at("vector"));
  EXPECT_EQ(embedded.json().at("model"), "heuristic-features");
  // A flag says otherwise.
  Process none(gpux_, {"--state-file", file, "--features", "none"});
  ASSERT_FALSE(none.ready().is_discarded()) << none.log();
  EXPECT_THAT(none.log(), HasSubstr("nothing is watched"));
}

TEST_F(DaemonLevels, GoDownWhileTooManyEventsWaitWhereTheyMay) {
  keep("paraphrase-MiniLM-L3-v2", 384);
  keep("all-mpnet-base-v2", 768);
  Process daemon(gpux_, {"--state-file", state(R"("events": "events")",
                                               R"("level": "high", "model_dir": "models",
                                                  "downgrade": {"level": "low", "above": 400, "below": 0})")});
  ASSERT_FALSE(daemon.ready().is_discarded()) << daemon.log();
  // Held up, so that it falls behind: more wait than the pipeline has begun with.
  fs::rename(path("out/vectors"), path("out/kept"));
  gpux_.folder().write("out/vectors", "in its way");
  for (int i = 0; i < 1200; ++i) add_event(std::to_string(i) + ".json", "{\"data\": " + std::to_string(i) + "}");
  ASSERT_TRUE(status_becomes([](const Json& now) { return now.at("downgraded") == true && now.at("level") == "low"; }))
      << status();
  fs::remove(path("out/vectors"));
  fs::rename(path("out/kept"), path("out/vectors"));
  ASSERT_TRUE(has_vectors(1200)) << daemon.log();
  ASSERT_TRUE(status_becomes([](const Json& now) { return now.at("downgraded") == false; })) << status();
  add_event("last.json", R"({"data": "last"})");
  ASSERT_TRUE(has_vectors(1201)) << daemon.log();
  std::map<std::string, int> levels;
  const auto made = vectors();
  for (const auto& [place, vec] : made) {
    const Json& from = vec.at("metadata");
    ++levels[from.at("level")];
    EXPECT_EQ(from.at("dimension"), from.at("level") == "high" ? 768 : 384);
  }
  EXPECT_GT(levels["low"], 0);
  EXPECT_EQ(made.at("events last.json").at("metadata").at("level"), "high");
  EXPECT_THAT(daemon.log(), AllOf(HasSubstr("level low instead of high"), HasSubstr("level high again")));
}

/// A D-Bus of its own.
class Bus {
 public:
  explicit Bus(const fs::path& folder) {
    const std::string address = "unix:path=" + (folder / "bus.sock").string();
    const fs::path config = folder / "bus.conf";
    write_file_atomically(config, "<busconfig><type>session</type><listen>" + address +
                                      "</listen><policy context=\"default\"><allow send_destination=\"*\"/>"
                                      "<allow eavesdrop=\"true\"/><allow own=\"*\"/></policy></busconfig>");
    address_ = address;
    std::array<int, 2> out{};
    EXPECT_EQ(::pipe2(out.data(), O_CLOEXEC), 0);
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(out[1], 1);
      const std::string file = "--config-file=" + config.string();
      ::execlp("dbus-daemon", "dbus-daemon", file.c_str(), "--nofork", "--print-address=1", nullptr);
      ::_exit(127);
    }
    ::close(out[1]);
    char c = 0;
    while (::read(out[0], &c, 1) == 1 && c != '\n') {
    }
    ::close(out[0]);
    EXPECT_EQ(c, '\n') << "dbus-daemon did not start";
  }

  ~Bus() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

  Bus(const Bus&) = delete;
  Bus& operator=(const Bus&) = delete;

  [[nodiscard]] const std::string& address() const { return address_; }

  void emit(const std::string& member, const std::vector<std::string>& values) const {
    std::vector<std::string> command{"dbus-send", "--bus=" + address_, "--type=signal", "/org/gpux/test",
                                     "org.gpux.Test." + member};
    command.insert(command.end(), values.begin(), values.end());
    EXPECT_EQ(run_process(command).exit_code, 0);
  }

 private:
  std::string address_;
  pid_t child_ = -1;
};

TEST_F(Daemon, TakesSignalsOfDBus) {
  auto bus = std::make_unique<Bus>(gpux_.folder().path());
  const std::string file =
      state(R"("bus": {"match": ["type='signal',interface='org.gpux.Test',member='Changed'",
                                 "type='signal',interface='org.gpux.Test',member='Gone'"], "bus": ")" +
            bus->address() + R"("}, "wrong": {"match": ["type='nonsense'"], "bus": ")" + bus->address() + "\"}");
  Process daemon(gpux_, {"--state-file", file});
  const auto is_watching = [](const Json& now) { return now.at("sources").at(0).at("state") == "watching"; };
  ASSERT_FALSE(daemon.ready().is_discarded());
  ASSERT_TRUE(eventually([&] { return daemon.log().find("bus is watched") != std::string::npos; })) << daemon.log();
  bus->emit("Changed", {"string:eth0", "int32:-5", "boolean:true", "double:0.5", "array:string:a,b",
                        "dict:string:uint32:x,1,a,2", "variant:objpath:/a/b"});
  bus->emit("Other", {"string:no match"});
  bus->emit("Gone", {});
  ASSERT_TRUE(has_vectors(2)) << daemon.log();
  std::multiset<std::string> seen;
  for (const std::string& text : texts()) seen.insert(text.substr(0, text.find("\nmeta.sender: ")));
  EXPECT_THAT(seen, testing::ElementsAre("plugin: org.gpux.Test\noperation: Changed\narg0: eth0\narg1: -5\narg2: true\n"
                                         "arg3: 0.5\narg4: [\"a\",\"b\"]\narg5: {\"a\":2,\"x\":1}\narg6: /a/b\n"
                                         "meta.path: /org/gpux/test",
                                         "plugin: org.gpux.Test\noperation: Gone\nmeta.path: /org/gpux/test"));
  ASSERT_TRUE(status_becomes([](const Json& now) {
    return now.at("sources").at(1).at("state").get<std::string>().find("does not take the match rule") !=
           std::string::npos;
  })) << status();
  // It comes back with the bus.
  bus.reset();
  ASSERT_TRUE(status_becomes([&](const Json& now) { return !is_watching(now); })) << status();
  fs::remove(path("bus.sock"));
  bus = std::make_unique<Bus>(gpux_.folder().path());
  ASSERT_TRUE(status_becomes(is_watching)) << status();
  bus->emit("Changed", {"string:again"});
  ASSERT_TRUE(has_vectors(3)) << daemon.log();
}

}  // namespace
}  // namespace gpux::test
