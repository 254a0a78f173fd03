#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "generation/prompt_choice.h"
#include "generation/prompt_file.h"
#include "generation/prompt_folder.h"
#include "generation/prompt_statistics.h"
#include "generation/row_memory.h"

namespace gpux::generation {

/// Keys and values of prompts, kept in a folder for later processes. Files are read and written on threads of its own:
/// the memory for both is limited, and a disk that is slow delays no text but the one that waits for its rows.
/// Thread-safe.
class PromptStore {
 public:
  struct Options {
    std::filesystem::path folder;
    std::uint64_t max_bytes = 0;  ///< of all files in the folder
    std::string identity;         ///< StoredPrompt::identity
    CacheLayout layout;
  };

  /// `on_block` is called, on another thread, when take() has something new. Errors of PromptFolder.
  PromptStore(const Options& options, std::function<void()> on_block);
  /// Ends writes that take longer than some seconds.
  ~PromptStore();
  PromptStore(const PromptStore&) = delete;
  PromptStore& operator=(const PromptStore&) = delete;

  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_.path(); }

  /// The keyed hash of a scope, which all else takes for it.
  [[nodiscard]] std::string scope_of(std::string_view scope) const;

  /// Rows of tokens, as a block of the file has them.
  struct Block {
    std::size_t first = 0, tokens = 0;
    RowMemory rows;
  };

  /// A file that is being read for a prompt. Its blocks come in order, four of them ahead of take(), and sixteen of
  /// all files.
  class Reading;

  /// Begins to read the tokens from `known` on, which are in memory already, to before `end`. Null, where no file of
  /// the scope has the prompt's beginning up to `end` and enough tokens more than the known ones. `end_of`: how many
  /// tokens of the prompt can be used where so many are stored.
  [[nodiscard]] std::shared_ptr<Reading> read(std::string_view scope, std::span<const std::uint32_t> prompt,
                                              std::size_t known, const std::function<std::size_t(std::size_t)>& end_of);

  /// The prompt whose file was used last, of those that were there when the store was made.
  struct Latest {
    std::string scope;
    std::vector<std::uint32_t> tokens;  ///< the first ones, an even number
    std::shared_ptr<Reading> reading;
  };

  /// Begins to read it, up to so many tokens. Empty: there is none.
  [[nodiscard]] std::optional<Latest> read_latest(std::size_t max_tokens);

  struct Taken {
    std::optional<Block> block;  ///< the next one; its first token may be one that is known
    std::size_t end = 0;         ///< of the tokens of the block that belong to the prompt
    bool is_over = false;        ///< no block comes behind it: all were read, or one cannot be used
  };

  [[nodiscard]] Taken take(Reading& reading);

  /// How many of the first tokens of a computed prompt are worth a file; 0: none. `shared`: as of ComputedPrompt.
  [[nodiscard]] std::size_t tokens_to_store(std::string_view scope, std::span<const std::uint32_t> prompt,
                                            std::size_t shared) const;

  /// A file to be. `rows` has the size of all blocks of its tokens, and is to be filled.
  struct Draft {
    std::string scope;
    std::vector<std::uint32_t> tokens;
    RowMemory rows;
  };

  /// Empty, and counted as skipped, where too much is on its way to the disk until then.
  [[nodiscard]] std::optional<Draft> begin_write(std::string_view scope, std::span<const std::uint32_t> tokens,
                                                 std::chrono::steady_clock::time_point deadline);
  /// The draft is written soon.
  void write(Draft draft);
  /// The draft is given up, and counted as skipped.
  void drop(const Draft& draft) noexcept;

  [[nodiscard]] PromptStoreStatistics statistics() const;

 private:
  struct File {
    std::string name;
    StoredPrompt prompt;
  };

  [[nodiscard]] std::vector<StoredBeginning> beginnings() const;
  [[nodiscard]] std::shared_ptr<const File> read_head_of(const std::string& name) const;
  void ignore_damaged(const std::string& name, std::string_view reason) const;
  void refresh();
  void forget(const std::string& name);

  void read_blocks(const std::stop_token& stop);
  [[nodiscard]] std::shared_ptr<Reading> next_reading();
  [[nodiscard]] std::optional<Block> read_block(Reading& reading);

  void write_drafts(const std::stop_token& stop);
  void write_file(const Draft& draft, const std::stop_token& stop);
  void give_back(const Draft& draft) noexcept;

  const Options options_;
  const std::function<void()> on_block_;
  PromptFolder folder_;
  std::int64_t stamp_ = 0;  // of the folder when files_ were listed; of the thread that reads
  std::string secret_;
  std::stop_source end_of_writes_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  // Under the mutex.
  std::vector<std::shared_ptr<const File>> files_;
  std::shared_ptr<const File> latest_;
  bool has_to_refresh_ = false;
  std::deque<std::weak_ptr<Reading>> readings_;  // the next one first
  std::deque<Draft> drafts_;
  std::vector<std::pair<std::string, std::vector<std::uint32_t>>> pending_;  // scope and tokens of those on their way
  std::uint64_t pending_bytes_ = 0;
  bool is_ending_ = false, has_warned_ = false;
  PromptStoreStatistics counts_;

  std::jthread reader_, writer_;  // last: they use the rest
};

}  // namespace gpux::generation
