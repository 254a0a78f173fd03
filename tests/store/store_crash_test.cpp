#include <csignal>
#include <cstdio>
#include <random>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sanitizers.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "store/store.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

/// Stores package after package, moves a tag, removes and prunes, until it is killed. After each package it says so
/// through the pipe: from then on it must be there.
[[noreturn]] void store_forever(const fs::path& root, const fs::path& files, int round, int pipe) {
  try {
    for (int i = 0;; ++i) {
      const std::string label = std::to_string(round) + "-" + std::to_string(i);
      std::ofstream(files / "model.onnx") << "graph " << label;
      std::ofstream(files / "weights") << std::string(300'000, static_cast<char>('a' + i % 26)) << label;
      PackageContent content;
      content.name = "kept";
      content.version = label;
      content.model_file = "model.onnx";
      content.files = {{files / "model.onnx", "model.onnx"}, {files / "weights", "data/weights"}};
      Store store(root);
      const std::vector<Reference> names{{"kept", label}, {"kept", "latest"}, {"gone", label}};
      store.add(content, names);
      if (::write(pipe, (label + "\n").c_str(), label.size() + 1) < 0) ::_exit(1);
      store.remove({"gone", label});
      if (i % 3 == 2) store.prune();
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
    ::_exit(2);
  }
}

std::set<std::string> lines_of(int pipe) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t count = 0; (count = ::read(pipe, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  std::set<std::string> lines;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
    lines.insert(text.substr(0, end));
    text.erase(0, end + 1);
  }
  return lines;
}

/// Runs one such process, kills it after `life`, and gives what it said it had stored.
std::set<std::string> run_and_kill(const fs::path& root, const fs::path& files, int round,
                                   std::chrono::microseconds life) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) throw std::runtime_error("no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipe[0]);
    store_forever(root, files, round, pipe[1]);
  }
  ::close(pipe[1]);
  std::this_thread::sleep_for(life);
  ::kill(child, SIGKILL);
  std::set<std::string> stored = lines_of(pipe[0]);
  ::close(pipe[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the process ended by itself";
  return stored;
}

TEST(StoreCrash, LosesNothingWhenItIsKilled) {
  const test::TemporaryFolder folder;
  const test::TemporaryFolder files;
  const fs::path root = folder.path() / "home";
  std::mt19937 random(20250131);
  std::uniform_int_distribution<int> life(500, 200'000);
  std::set<std::string> stored;
  for (int round = 0; round < 40; ++round) {
    stored.merge(run_and_kill(root, files.path(), round, std::chrono::microseconds(life(random))));
    Store store(root);
    std::set<std::string> found;
    for (const StoredModel& model : store.list()) {
      ASSERT_EQ(model.damage, "");
      if (model.reference.name == "kept") found.insert(model.reference.tag);
      if (round % 8 == 7) {
        ASSERT_THAT(store.verify(model), testing::IsEmpty()) << model.reference.text();
        ASSERT_EQ(test::content_of(store.materialize(model) / "model.onnx"), "graph " + model.package.version);
      }
    }
    ASSERT_TRUE(std::includes(found.begin(), found.end(), stored.begin(), stored.end())) << "in round " << round;
  }
  EXPECT_GT(stored.size(), 10U) << "the processes were killed before they did anything";

  Store store(root);
  store.prune();
  EXPECT_TRUE(fs::is_empty(root / "tmp"));
  for (const auto& entry : fs::directory_iterator(root)) {
    EXPECT_EQ(entry.path().string().find(".part."), std::string::npos) << entry.path();
  }
  for (const StoredModel& model : store.list()) {
    ASSERT_THAT(store.verify(model), testing::IsEmpty());
    if (model.reference.name == "gone") store.remove(model.reference);
  }
  while (!store.list().empty()) store.remove(store.list().front().reference);
  EXPECT_TRUE(fs::is_empty(root / "blobs" / "sha256"));
  EXPECT_TRUE(fs::is_empty(root / "trees"));
}

TEST(StoreCrash, TwoProcessesAtOnceKeepBothTheirPackages) {
  if (test::has_thread_sanitizer)
    GTEST_SKIP() << "ThreadSanitizer ends a process that a thread among others has forked";
  const test::TemporaryFolder folder;
  const fs::path root = folder.path() / "home";
  std::array<std::set<std::string>, 2> stored;
  std::array<test::TemporaryFolder, 2> files;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      stored.at(i) = run_and_kill(root, files.at(i).path(), static_cast<int>(i) + 1, std::chrono::milliseconds(700));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Store store(root);
  for (const std::set<std::string>& labels : stored) {
    EXPECT_FALSE(labels.empty());
    for (const std::string& label : labels) {
      const std::optional<StoredModel> model = store.find({"kept", label});
      ASSERT_TRUE(model) << label;
      ASSERT_THAT(store.verify(*model), testing::IsEmpty());
    }
  }
}

}  // namespace
}  // namespace gpux
