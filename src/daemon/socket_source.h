#pragma once

#include <list>
#include <string>

#include "base/unique_fd.h"
#include "daemon/spooled_source.h"

namespace gpux::daemon {

/// A unix socket of its user alone that takes JSON lines and answers each with a line, in their order:
/// {"accepted": true, "hash": "…"} once the event is safe on disk, or {"error": "…"}. What was accepted becomes a
/// vector whatever happens to this process. A line that was not answered may be sent again.
class SocketSource final : public SpooledSource {
 public:
  using SpooledSource::SpooledSource;

  /// How often a client could not be taken, for lack of descriptors or memory. From any thread.
  [[nodiscard]] std::uint64_t failed_accepts() const noexcept { return failed_accepts_; }

 private:
  class Listener;

  struct Client {
    UniqueFd descriptor;
    std::string in, out;
    bool skips = false;  // the rest of a line that is too long
    bool ended = false;  // it sends no more
  };

  /// The answer to a line of a client: accepted, or the error.
  struct Answer {
    Client* client;
    std::string error;     // empty: it is accepted
    std::size_t line = 0;  // of those accepted
  };

  void accept(const std::stop_token& stop) override;
  /// False where none can be taken for now.
  bool take_clients(const Listener& listener, std::list<Client>& clients);
  void read(Client& client);
  void take_lines(Client& client, std::vector<std::string>& lines, std::vector<Event>& events,
                  std::vector<Answer>& answers);
  void check_line(std::string line, Client& client, std::vector<std::string>& lines, std::vector<Event>& events,
                  std::vector<Answer>& answers);
  /// False where it was stopped before that could be done.
  bool keep_and_answer(const std::vector<std::string>& lines, const std::vector<Event>& events,
                       const std::vector<Answer>& answers, const std::stop_token& stop);
  static void write(Client& client);

  std::atomic<std::uint64_t> failed_accepts_ = 0;
};

}  // namespace gpux::daemon
