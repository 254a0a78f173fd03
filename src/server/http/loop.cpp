#include "server/http/loop.h"

#include <algorithm>

#include <boost/asio/post.hpp>

#include "base/failure_of.h"
#include "base/log.h"
#include "server/http/connection.h"

namespace gpux::http {

namespace {

constexpr std::size_t max_spare_buffers = 16;
constexpr std::chrono::milliseconds drain_interval{20};

std::chrono::milliseconds sweep_interval_for(const Limits& limits) {
  const auto shortest =
      std::min({limits.header_timeout, limits.idle_timeout, limits.body_timeout, limits.write_timeout});
  return std::clamp(shortest / 20, std::chrono::milliseconds(5), std::chrono::milliseconds(500));
}

}  // namespace

Loop::Loop(Service& service, std::chrono::microseconds busy_poll)
    : service_(service),
      sweep_interval_(sweep_interval_for(service.limits)),
      buffer_bytes_(std::max<std::size_t>(service.limits.max_header_bytes, 16 << 10)),
      busy_poll_(busy_poll),
      sweep_timer_(context_) {
  work_.emplace(context_.get_executor());
}

Loop::~Loop() {
  end();
}

void Loop::start() {
  schedule_sweep();
  thread_ = std::thread([this] { run(); });
}

void Loop::run() {
  while (!context_.stopped()) {
    // What a handler throws is about its connection: the others go on.
    call_guarded([this] { run_some(); });
  }
}

void Loop::run_some() {
  if (context_.poll() != 0) return;
  const auto time = busy_poll_.time();
  if (time.count() != 0) {
    const bool paid_off = look_out(time);
    busy_poll_.learn(paid_off);
    if (paid_off) return;
  }
  context_.run_one();
}

bool Loop::look_out(std::chrono::microseconds time) {
  const auto end = Clock::now() + time;
  while (!context_.stopped() && Clock::now() < end) {
    if (context_.poll() != 0) return true;
  }
  return false;
}

void Loop::adopt(Arrival arrival) {
  connection_count_.fetch_add(1, std::memory_order_relaxed);
  net::post(context_, [this, arrival = std::move(arrival)]() mutable { welcome(std::move(arrival)); });
}

void Loop::welcome(Arrival arrival) {
  Socket socket(context_);
  ErrorNumber error;
  socket.assign(net::generic::stream_protocol(arrival.family, 0), arrival.socket.get(), error);
  if (!error) arrival.socket.release();
  if (error || ending_) {
    if (error) log::warning("cannot serve a connection: {}", error.message());
    connection_count_.fetch_sub(1, std::memory_order_relaxed);
    service_.connection_ended();
    return;
  }
  Connection::launch(service_, *this, std::move(socket), arrival.tls.get(), std::move(arrival.peer));
}

void Loop::begin_drain() {
  net::post(context_, [this] {
    sweep_interval_ = std::min(sweep_interval_, drain_interval);
    sweep_timer_.expires_after(sweep_interval_);
    schedule_sweep();
  });
}

void Loop::release_memory() {
  // Once for all who ask meanwhile.
  if (is_releasing_.exchange(true)) return;
  net::post(context_, [this] {
    is_releasing_ = false;
    const auto now = Clock::now();
    Connection* slowest = nullptr;
    double lowest = 0;
    for (Connection* connection : connections_) {
      const std::optional<double> rate = connection->slow_rate(now);
      if (!rate || (slowest != nullptr && *rate >= lowest)) continue;
      slowest = connection;
      lowest = *rate;
    }
    if (slowest != nullptr) slowest->shared_from_this()->give_up_transfer();
  });
}

void Loop::end() {
  if (!thread_.joinable()) return;
  net::post(context_, [this] {
    ending_ = true;
    sweep_timer_.cancel();
    for (const auto& connection : all()) connection->end();
    work_.reset();
  });
  thread_.join();
}

std::list<Connection*>::iterator Loop::enter(Connection& connection) {
  return connections_.insert(connections_.end(), &connection);
}

void Loop::leave(std::list<Connection*>::iterator place) {
  connections_.erase(place);
  connection_count_.fetch_sub(1, std::memory_order_relaxed);
}

std::vector<std::shared_ptr<Connection>> Loop::all() {
  std::vector<std::shared_ptr<Connection>> found;
  found.reserve(connections_.size());
  for (Connection* connection : connections_) found.push_back(connection->shared_from_this());
  return found;
}

void Loop::schedule_sweep() {
  sweep_timer_.expires_after(sweep_interval_);
  sweep_timer_.async_wait([this](const ErrorNumber& error) {
    if (error || ending_) return;
    sweep();
    schedule_sweep();
  });
}

void Loop::sweep() {
  const auto now = Clock::now();
  const bool draining = service_.draining.load(std::memory_order_relaxed);
  // A connection that is told may end and leave the list.
  std::vector<std::shared_ptr<Connection>> due;
  for (Connection* connection : connections_) {
    if (connection->is_due(now, draining)) due.push_back(connection->shared_from_this());
  }
  for (const auto& connection : due) connection->remind(now, draining);
}

std::string_view Loop::date() {
  constexpr std::size_t length = 29;
  const std::time_t now = std::time(nullptr);
  if (now != date_second_) {
    // The names of days and months are English in HTTP, whatever the locale.
    static constexpr std::array<const char*, 7> days{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static constexpr std::array<const char*, 12> months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    std::tm parts{};
    gmtime_r(&now, &parts);
    fmt::format_to_n(date_.data(), date_.size(), "{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
                     days[static_cast<std::size_t>(parts.tm_wday)], parts.tm_mday,
                     months[static_cast<std::size_t>(parts.tm_mon)], parts.tm_year + 1900, parts.tm_hour, parts.tm_min,
                     parts.tm_sec);
    date_second_ = now;
  }
  return {date_.data(), length};
}

Loop::Buffer Loop::take_buffer() {
  if (spare_buffers_.empty()) return Buffer(new char[buffer_bytes_]);
  Buffer buffer = std::move(spare_buffers_.back());
  spare_buffers_.pop_back();
  return buffer;
}

void Loop::give_buffer(Buffer buffer) {
  if (buffer && spare_buffers_.size() < max_spare_buffers) spare_buffers_.push_back(std::move(buffer));
}

}  // namespace gpux::http
