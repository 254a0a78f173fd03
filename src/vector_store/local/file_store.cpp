#include "vector_store/local/file_store.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unordered_map>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/changing_files.h"
#include "base/durability.h"
#include "base/file_lock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/unique_fd.h"
#include "base/write_fully.h"
#include "gpux/error.h"
#include "vector_store/local/file_search.h"

namespace gpux::vector_store {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_segment_points = 65'536, max_segment_bytes = std::size_t{128} << 20;
// More and smaller segments than these are written as few.
constexpr std::size_t max_segments = 64, min_mean_points = 4096;

struct IdHash {
  std::size_t operator()(const PointId& id) const noexcept {
    std::size_t hash = 0;
    std::memcpy(&hash, id.data(), sizeof hash);
    return hash;
  }
};

/// The file as it was when it was read.
struct ReadFile {
  MappedFile mapped;
  VectorsFile content;
  PointsInFile points;
  std::unique_ptr<Graph> graph;  // null: not needed yet
  FileStamp stamp;
};

class FileStore final : public VectorStore {
 public:
  explicit FileStore(StoreUrl url) : url_(std::move(url)), file_(url_.address) {}

  std::optional<CollectionFacts> facts() override { return read() ? facts_ : std::nullopt; }

  void create(const CollectionFacts& facts) override;
  void upsert(std::span<const Point> points) override;

  bool has(const std::string& id) override { return (writes() || read()) && indices().contains(id_bytes(id)); }

  std::uint64_t count() override {
    if (writes()) return indices().size();
    return read() ? read_->points.size() : 0;
  }

  std::vector<FoundPoint> search(const SearchRequest& request) override;
  void finish() override;

  [[nodiscard]] const std::string& shown() const noexcept override { return url_.shown; }

 private:
  /// Whether this process knows what is there without reading: nobody else changes it.
  [[nodiscard]] bool writes() const noexcept { return lock_ && indices_; }

  bool read();
  void require_collection();
  void require_lock();
  template <typename Work>
  void locked(const Work& work);
  void write(std::span<const Point> points);
  std::unordered_map<PointId, std::uint32_t, IdHash>& indices();
  void append(const std::string& segment);
  void write_few_segments();
  void add_graph();

  StoreUrl url_;
  fs::path file_;
  std::optional<FileLock> lock_;
  std::unique_ptr<ReadFile> read_;  // null: not read, or changed since
  // Of this process's own view, also of what it has appended since.
  std::optional<std::unordered_map<PointId, std::uint32_t, IdHash>> indices_;
  std::optional<CollectionFacts> facts_;  // of the file that was read; nobody else changes it while it is locked
  std::size_t points_ = 0;                // in the file, with those that were replaced
  std::uint64_t bytes_ = 0;               // whole
};

// False: there is no file.
bool FileStore::read() {
  // What another process has stored since is found, too.
  if (read_ && !lock_ && read_->stamp != stamp_of(file_)) {
    read_.reset();
    indices_.reset();
  }
  if (read_) return true;
  std::error_code missing;
  if (!fs::exists(file_, missing)) {
    if (missing) throw_file_error("open", file_, missing.value());
    return false;
  }
  auto file = std::make_unique<ReadFile>();
  file->stamp = stamp_of(file_);
  file->mapped = MappedFile(file_);
  file->content = read_vectors_file(file->mapped.bytes(), url_.shown);
  file->points = PointsInFile(file->content);
  facts_ = file->content.facts;
  points_ = file->content.points;
  bytes_ = file->content.bytes;
  read_ = std::move(file);
  return true;
}

void FileStore::require_collection() {
  if (read()) return;
  throw Error(ErrorCode::not_found, fmt::format("'{}': there is no such file", url_.shown));
}

void FileStore::require_lock() {
  if (lock_) return;
  // One lock of a file, by whichever links it is named; and a folder for it.
  std::error_code error;
  file_ = fs::weakly_canonical(fs::absolute(file_), error);
  if (error) throw_file_error("open", url_.address, error.value());
  error = make_folders(file_.parent_path());
  if (error) throw_file_error("make the folder", file_.parent_path(), error.value());
  lock_ = FileLock::try_exclusive(file_.string() + ".lock");
  if (!lock_) throw Error(ErrorCode::storage, fmt::format("'{}': another process writes it", url_.shown));
  // What was read before may have grown.
  read_.reset();
  indices_.reset();
  facts_.reset();
}

std::unordered_map<PointId, std::uint32_t, IdHash>& FileStore::indices() {
  if (!indices_) {
    indices_.emplace();
    indices_->reserve(read_->content.points);
    for (std::uint32_t index = 0; index < read_->content.points; ++index) {
      if (read_->points.is_current(index)) (*indices_)[read_->points.id(index)] = index;
    }
  }
  return *indices_;
}

// A refusal does not keep others from writing.
template <typename Work>
void FileStore::locked(const Work& work) {
  const bool was_locked = lock_.has_value();
  require_lock();
  try {
    work();
  } catch (...) {
    if (!was_locked) lock_.reset();
    throw;
  }
}

void FileStore::create(const CollectionFacts& facts) {
  locked([&] {
    if (!facts_ && !read()) {
      write_file_atomically(file_, file_header(facts));
      require_collection();
      return;
    }
    accept_vectors(*facts_, facts, url_.shown);  // NOLINT(bugprone-unchecked-optional-access): read() has set it
  });
}

void FileStore::append(const std::string& segment) {
  UniqueFd file(::open(file_.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) throw_file_error("write", file_, errno);
  // What a process that was killed had begun.
  if (::ftruncate(file.get(), static_cast<off_t>(bytes_)) != 0) throw_file_error("write", file_, errno);
  int error = write_fully(file.get(), std::as_bytes(std::span(segment)), bytes_);
  if (error == 0) error = sync_file(file.get());
  if (error == 0) error = file.close();
  if (error != 0) throw_file_error("write", file_, error);
  bytes_ += segment.size();
  read_.reset();
}

void FileStore::upsert(std::span<const Point> points) {
  if (!points.empty()) locked([&] { write(points); });
}

void FileStore::write(std::span<const Point> points) {
  if (!indices_) require_collection();
  auto& known = indices();
  std::unordered_map<PointId, const Point*, IdHash> last;
  for (const Point& point : points) last[id_bytes(point.id)] = &point;
  std::vector<const Point*> written;
  std::vector<std::uint32_t> replaced;
  for (const auto& [id, point] : last) {
    written.push_back(point);
    if (const auto before = known.find(id); before != known.end()) replaced.push_back(before->second);
  }
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): require_collection() has set it
  append(point_segment(written, facts_->dimension, replaced));
  for (const Point* point : written) known[id_bytes(point->id)] = static_cast<std::uint32_t>(points_++);
}

std::vector<FoundPoint> FileStore::search(const SearchRequest& request) {
  require_collection();
  if (!read_->graph && follows_graph(read_->content, request)) {
    read_->graph = Graph::read(read_->content.graph, read_->content.indexed, url_.shown);
  }
  const SearchedFile searched{.file = read_->content,
                              .points = read_->points,
                              .graph = read_->graph.get(),
                              .threads = usable_processors(Machine::this_one()),
                              .shown = url_.shown};
  std::vector<FoundPoint> found;
  for (const embedding::Match& match : search_file(searched, request)) {
    const auto index = static_cast<std::uint32_t>(match.index);
    const PointSegment& segment = read_->points.segment_of(index);
    StoredEntry entry = read_entry(segment, index - segment.first, url_.shown);
    found.push_back({.id = id_text(read_->points.id(index)),
                     .score = double{match.score},
                     .text = std::move(entry.text),
                     .payload = std::move(entry.payload)});
  }
  return found;
}

// The points that count, in a new file.
void FileStore::write_few_segments() {
  FileReplacement file(file_);
  const auto put = [&](const std::string& bytes) { file.append(std::as_bytes(std::span(bytes))); };
  put(file_header(read_->content.facts));
  std::vector<Point> points;
  std::size_t bytes = 0;
  const auto put_points = [&] {
    std::vector<const Point*> pointers;
    for (const Point& point : points) pointers.push_back(&point);
    if (!points.empty()) put(point_segment(pointers, read_->content.facts.dimension, {}));
    points.clear();
    bytes = 0;
  };
  for (std::uint32_t index = 0; index < read_->content.points; ++index) {
    if (!read_->points.is_current(index)) continue;
    const PointSegment& segment = read_->points.segment_of(index);
    const std::size_t point = index - segment.first;
    StoredEntry entry = read_entry(segment, point, url_.shown);
    bytes += segment.offsets[point + 1] - segment.offsets[point] + read_->content.facts.dimension * sizeof(float);
    const float* const vector = read_->points.vector(index);
    points.push_back({.id = id_text(read_->points.id(index)),
                      .vector = {vector, vector + read_->content.facts.dimension},
                      .sparse = std::move(entry.sparse),
                      .text = std::move(entry.text),
                      .payload = std::move(entry.payload)});
    if (points.size() == max_segment_points || bytes >= max_segment_bytes) put_points();
  }
  put_points();
  file.commit();
  read_.reset();
  indices_.reset();
  require_collection();
}

void FileStore::add_graph() {
  std::vector<std::uint32_t> current;
  for (std::uint32_t index = 0; index < read_->content.points; ++index) {
    if (read_->points.is_current(index)) current.push_back(index);
  }
  const auto graph = Graph::build(current, read_->points.vectors(),
                                  distance_of(read_->content.facts.distance, read_->content.facts.is_normalized),
                                  read_->content.facts.dimension, usable_processors(Machine::this_one()));
  append(graph_segment(graph->bytes(), read_->content.points));
}

void FileStore::finish() {
  require_lock();
  require_collection();
  const std::size_t segments = read_->content.segments.size(), points = read_->content.points;
  const bool has_small_segments = segments > max_segments && points / segments < min_mean_points;
  // A tenth may lie behind the index, and is compared.
  const bool needs_graph =
      read_->points.size() >= min_indexed_points && read_->content.indexed < read_->content.points * 9 / 10;
  // A new file has no graph: small segments alone are not worth a new one.
  const bool joins = has_small_segments && (read_->content.indexed == 0 || needs_graph);
  const bool drops = read_->points.replaced() > points / 4;
  if (joins || drops) write_few_segments();
  if (needs_graph || (drops && read_->points.size() >= min_indexed_points)) add_graph();
}

}  // namespace

std::unique_ptr<VectorStore> open_file_store(const StoreUrl& url) {
  return std::make_unique<FileStore>(url);
}

}  // namespace gpux::vector_store
