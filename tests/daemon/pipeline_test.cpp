// What is embedded, what is tried again and what is set aside; which sources wait and go on.
#include "daemon/pipeline.h"

#include <cerrno>
#include <cmath>
#include <map>
#include <optional>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/eventually.h"
#include "base/files.h"
#include "base/temporary_folder.h"
#include "daemon/directory_source.h"
#include "daemon/socket_source.h"
#include "gpux/error.h"

namespace gpux::daemon {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using test::eventually;
using testing::HasSubstr;

constexpr auto short_pause = 1ms;

/// Keeps what it is given in memory.
class MemorySink final : public EventSink {
 public:
  [[nodiscard]] bool has(const std::string& hash) const override {
    const std::scoped_lock lock(mutex_);
    return known_.contains(hash);
  }

  void write(std::span<const EmbeddedEvent> embedded, std::span<const RefusedEvent> refused) override {
    const std::scoped_lock lock(mutex_);
    for (const EmbeddedEvent& event : embedded) embedded_.push_back(event.event.text);
    for (const RefusedEvent& event : refused) reasons_[event.position] = event.reason;
  }

  void know(const std::string& hash) {
    const std::scoped_lock lock(mutex_);
    known_.insert(hash);
  }

  [[nodiscard]] std::vector<std::string> embedded() const {
    const std::scoped_lock lock(mutex_);
    return embedded_;
  }

  /// By position.
  [[nodiscard]] std::map<std::string, std::string> reasons() const {
    const std::scoped_lock lock(mutex_);
    return reasons_;
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::string> known_;
  std::vector<std::string> embedded_;
  std::map<std::string, std::string> reasons_;
};

/// A model by its name that calls `failure` for each text, and fails where that gives an error. Counts its calls.
class CountedModel {
 public:
  explicit CountedModel(std::function<std::optional<Error>(const std::string& text)> failure)
      : failure_(std::move(failure)) {}

  [[nodiscard]] std::shared_ptr<const OpenModel> open() {
    auto model = std::make_shared<OpenModel>();
    model->name = "fake";
    model->embed = [this](const std::string& text) {
      const std::scoped_lock lock(mutex_);
      ++calls_[text];
      if (const std::optional<Error> error = failure_(text)) throw Error(*error);
      return std::vector<float>{1, 0};
    };
    return model;
  }

  [[nodiscard]] int calls(const std::string& text) const {
    const std::scoped_lock lock(mutex_);
    const auto found = calls_.find(text);
    return found == calls_.end() ? 0 : found->second;
  }

 private:
  std::function<std::optional<Error>(const std::string&)> failure_;
  mutable std::mutex mutex_;
  std::map<std::string, int> calls_;
};

/// Puts events into a pipeline and waits for their ends.
class Events {
 public:
  void put(EventPipeline& pipeline, const std::string& position, const std::string& json) {
    WaitingEvent event;
    event.source = "source";
    event.position = position;
    event.content = json;
    event.ended = [this, position](Outcome outcome) {
      const std::scoped_lock lock(mutex_);
      outcomes_[position] = outcome;
      ended_.notify_all();
    };
    ASSERT_EQ(pipeline.put(event, {}, 60s), EventPipeline::Put::taken);
  }

  /// Once so many have ended; fewer, and a failed test, where that takes a minute.
  std::map<std::string, Outcome> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(ended_.wait_for(lock, 60s, [&] { return outcomes_.size() >= count; }));
    return outcomes_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::map<std::string, Outcome> outcomes_;
};

std::optional<Error> not_finite_where_bad(const std::string& text) {
  if (text.find("bad") == std::string::npos) return std::nullopt;
  return Error(ErrorCode::invalid_model, "output 'last' has NaN or infinite numbers");
}

TEST(EventPipeline, EmbedsNothingTwice) {
  MemorySink sink;
  CountedModel model([](const std::string&) { return std::nullopt; });
  Events events;
  sink.know(event_hash("source", "1", read_event(R"({"data": "known"})", {})));
  EventPipeline pipeline(sink, {}, model.open(), 1, short_pause);
  events.put(pipeline, "1", R"({"data": "known"})");
  events.put(pipeline, "2", R"({"data": "new"})");
  const auto outcomes = events.wait_for(2);
  EXPECT_EQ(outcomes.at("1"), Outcome::known);
  EXPECT_EQ(outcomes.at("2"), Outcome::written);
  EXPECT_EQ(model.calls("data: known"), 0);
  EXPECT_EQ(model.calls("data: new"), 1);
  EXPECT_THAT(sink.embedded(), testing::ElementsAre("data: new"));
}

TEST(EventPipeline, SetsAnEventAsideWhoseVectorIsNotFinite) {
  for (const unsigned workers : {1U, 3U}) {
    MemorySink sink;
    CountedModel model(not_finite_where_bad);
    Events events;
    EventPipeline pipeline(sink, {}, model.open(), workers, short_pause);
    // As many as there are workers, and none that is good, so that nothing else can succeed meanwhile.
    for (unsigned i = 0; i < workers; ++i) events.put(pipeline, std::to_string(i), R"({"data": "bad"})");
    const auto refused = events.wait_for(workers);
    for (unsigned i = 0; i < workers; ++i) EXPECT_EQ(refused.at(std::to_string(i)), Outcome::refused);
    events.put(pipeline, "good", R"({"data": "good"})");
    EXPECT_EQ(events.wait_for(workers + 1).at("good"), Outcome::written);
    EXPECT_EQ(model.calls("data: bad"), 2 * static_cast<int>(workers));
    EXPECT_THAT(sink.reasons().at("0"), HasSubstr("NaN"));
    EXPECT_EQ(pipeline.counts().model_problem, "");
  }
}

TEST(EventPipeline, SetsNothingAsideWhileTheModelFailsOnEveryText) {
  for (const ErrorCode code : {ErrorCode::invalid_model, ErrorCode::resource_exhausted, ErrorCode::internal}) {
    MemorySink sink;
    int failures_left = 16;  // more than it takes to blame an event
    CountedModel model([&](const std::string&) -> std::optional<Error> {
      if (failures_left-- <= 0) return std::nullopt;
      return Error(code, "no device");
    });
    Events events;
    EventPipeline pipeline(sink, {}, model.open(), 2, short_pause);
    for (const char* name : {"1", "2", "3"}) events.put(pipeline, name, std::string(R"({"data": ")") + name + "\"}");
    for (const auto& [name, outcome] : events.wait_for(3)) EXPECT_EQ(outcome, Outcome::written) << name;
    EXPECT_THAT(sink.reasons(), testing::IsEmpty());
    EXPECT_EQ(pipeline.counts().model_problem, "");
  }
}

TEST(EventPipeline, TriesAnEventOftenBeforeItIsToBlameForAShortage) {
  MemorySink sink;
  CountedModel model([](const std::string& text) -> std::optional<Error> {
    if (text.find("long") == std::string::npos) return std::nullopt;
    return Error(ErrorCode::resource_exhausted, "out of memory");
  });
  Events events;
  EventPipeline pipeline(sink, {}, model.open(), 1, short_pause);
  events.put(pipeline, "1", R"({"data": "long"})");
  EXPECT_EQ(events.wait_for(1).at("1"), Outcome::refused);
  EXPECT_EQ(model.calls("data: long"), attempts_before_blame(ErrorCode::resource_exhausted));
  EXPECT_EQ(sink.reasons().at("1"), "out of memory");
}

TEST(EventPipeline, BlamesTheEventAtOnceForBadInputOnly) {
  EXPECT_EQ(attempts_before_blame(ErrorCode::invalid_input), 1);
  EXPECT_EQ(attempts_before_blame(ErrorCode::invalid_model), 2);
  for (const ErrorCode code : {ErrorCode::internal, ErrorCode::resource_exhausted, ErrorCode::deadline_exceeded,
                               ErrorCode::provider_unavailable, ErrorCode::storage}) {
    EXPECT_EQ(attempts_before_blame(code), 5) << to_string(code);
  }
}

TEST(DirectorySource, KnowsTroubleThatPasses) {
  for (const int error : {EMFILE, ENFILE, ENOMEM, EIO, ESTALE, ETIMEDOUT, EHOSTDOWN, EINTR, EAGAIN}) {
    EXPECT_TRUE(is_passing_trouble(error)) << error;
  }
  for (const int error : {EACCES, EPERM, ELOOP, ENXIO, EISDIR}) EXPECT_FALSE(is_passing_trouble(error)) << error;
}

/// This process has as many files open as it may for as long as the object lives.
class NoMoreDescriptors {
 public:
  NoMoreDescriptors() {
    // UBSan looks at an object's type with a pipe, and remembers what it found: it has to see these errors before there
    // are none.
    try {
      throw_file_error("open", "a file", EMFILE);
    } catch (const std::exception& error) {
      EXPECT_NE(std::string_view(error.what()), "");
    }
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{.rlim_cur = 200, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int file = ::open("/dev/null", O_RDONLY | O_CLOEXEC); file >= 0;) {
      files_.push_back(file);
      file = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    EXPECT_EQ(errno, EMFILE);
  }

  ~NoMoreDescriptors() {
    for (const int file : files_) ::close(file);
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }

  NoMoreDescriptors(const NoMoreDescriptors&) = delete;
  NoMoreDescriptors& operator=(const NoMoreDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<int> files_;
};

class SourceTest : public testing::Test {
 protected:
  [[nodiscard]] std::shared_ptr<Source> start(DeclaredSource::Kind kind, const fs::path& path) {
    const std::shared_ptr<Source> source = make_source(
        {.name = "source", .kind = kind, .path = path, .match = {}},
        {.pipeline = pipeline_, .limits = {}, .state_folder = folder_.path(), .rescan = std::chrono::minutes(10)});
    source->start();
    EXPECT_TRUE(eventually([&] { return source->status().state == "watching"; }));
    return source;
  }

  test::TemporaryFolder folder_;
  MemorySink sink_;
  CountedModel model_{[](const std::string&) { return std::nullopt; }};
  EventPipeline pipeline_{sink_, {}, model_.open(), 1, short_pause};
};

TEST_F(SourceTest, ReadsAFileLaterThatCannotBeReadNow) {
  fs::create_directories(folder_.path() / "events");
  const fs::path prepared = folder_.write("prepared", R"({"data": 1})");
  const auto source = start(DeclaredSource::Kind::directory, folder_.path() / "events");
  {
    const NoMoreDescriptors none;
    fs::rename(prepared, folder_.path() / "events/1.json");
    EXPECT_TRUE(eventually([&] { return source->status().state.find("1.json") != std::string::npos; }));
    EXPECT_THAT(source->status().state, HasSubstr("cannot read '1.json', which is tried again: Too many open files"));
    EXPECT_EQ(source->status().waiting, 1U);
  }
  EXPECT_TRUE(eventually([&] { return source->status().written == 1; }));
  EXPECT_EQ(source->status().refused, 0U);
  EXPECT_EQ(source->status().state, "watching");
  EXPECT_THAT(sink_.reasons(), testing::IsEmpty());
  source->stop();
  pipeline_.stop();
}

class LineClient {
 public:
  explicit LineClient(const fs::path& path) : descriptor_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(path.native().begin(), path.native().end(), address.sun_path);
    is_connected_ = ::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }

  ~LineClient() { ::close(descriptor_); }

  LineClient(const LineClient&) = delete;
  LineClient& operator=(const LineClient&) = delete;

  /// The answer to a line; empty where the connection has ended.
  [[nodiscard]] std::string ask(const std::string& line) const {
    if (!is_connected_ || ::send(descriptor_, (line + "\n").data(), line.size() + 1, MSG_NOSIGNAL) < 0) return {};
    std::string answer;
    for (char c = 0; ::recv(descriptor_, &c, 1, 0) == 1 && c != '\n';) answer += c;
    return answer;
  }

 private:
  int descriptor_;
  bool is_connected_ = false;
};

TEST_F(SourceTest, RestsWhereNoClientCanBeTaken) {
  const fs::path path = folder_.path() / "socket";
  const auto source = std::static_pointer_cast<SocketSource>(start(DeclaredSource::Kind::socket, path));
  const LineClient early(path);
  EXPECT_THAT(early.ask(R"({"data": 0})"), HasSubstr("accepted"));
  constexpr std::uint64_t lines = 300;
  const int waiting = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  {
    const NoMoreDescriptors none;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(path.native().begin(), path.native().end(), address.sun_path);
    ASSERT_EQ(::connect(waiting, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_TRUE(eventually([&] { return source->failed_accepts() > 0; }));
    EXPECT_THAT(source->status().state, HasSubstr("no client can be accepted"));
    // Each wakes the thread that would accept; it serves the clients that it has.
    const std::uint64_t before = source->failed_accepts();
    for (std::uint64_t i = 1; i <= lines; ++i) {
      ASSERT_THAT(early.ask(R"({"data": )" + std::to_string(i) + "}"), HasSubstr("accepted"));
    }
    EXPECT_LT(source->failed_accepts() - before, lines / 2);
  }
  const std::string line = "{\"data\": \"waited\"}\n";
  ASSERT_EQ(::send(waiting, line.data(), line.size(), MSG_NOSIGNAL), static_cast<ssize_t>(line.size()));
  char first = 0;
  EXPECT_EQ(::recv(waiting, &first, 1, 0), 1) << "it is taken and answered";
  EXPECT_EQ(source->status().state, "watching");
  ::close(waiting);
  source->stop();
  pipeline_.stop();
}

}  // namespace
}  // namespace gpux::daemon
