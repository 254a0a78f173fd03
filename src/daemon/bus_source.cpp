#include "daemon/bus_source.h"

#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "daemon/bus_library.h"
#include "gpux/error.h"

namespace gpux::daemon {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

template <typename Number>
Json number_at(const BusLibrary& bus, DBusMessageIter& at) {
  Number value{};
  bus.message_iter_get_basic(&at, &value);
  return value;
}

std::string text_at(const BusLibrary& bus, DBusMessageIter& at) {
  const char* text = nullptr;
  bus.message_iter_get_basic(&at, static_cast<void*>(&text));
  return text;
}

Json value_at(const BusLibrary& bus, DBusMessageIter& at);

std::string key_of(const Json& key) {
  return key.is_string() ? key.get<std::string>() : key.dump();
}

// An array of dictionary entries is an object. D-Bus bounds how deep these stand in each other, at 64.
Json array_at(const BusLibrary& bus, DBusMessageIter& at) {
  const bool is_dictionary = bus.message_iter_get_element_type(&at) == DBUS_TYPE_DICT_ENTRY;
  DBusMessageIter inside;
  bus.message_iter_recurse(&at, &inside);
  Json all = is_dictionary ? Json::object() : Json::array();
  for (; bus.message_iter_get_arg_type(&inside) != DBUS_TYPE_INVALID; bus.message_iter_next(&inside)) {
    if (!is_dictionary) {
      all.push_back(value_at(bus, inside));
      continue;
    }
    DBusMessageIter entry;
    bus.message_iter_recurse(&inside, &entry);
    const std::string key = key_of(value_at(bus, entry));
    bus.message_iter_next(&entry);
    all[key] = value_at(bus, entry);
  }
  return all;
}

Json value_at(const BusLibrary& bus, DBusMessageIter& at) {
  DBusMessageIter inside;
  switch (bus.message_iter_get_arg_type(&at)) {
    case DBUS_TYPE_BYTE:
      return number_at<unsigned char>(bus, at);
    case DBUS_TYPE_BOOLEAN:
      return number_at<dbus_bool_t>(bus, at) != 0;
    case DBUS_TYPE_INT16:
      return number_at<dbus_int16_t>(bus, at);
    case DBUS_TYPE_UINT16:
      return number_at<dbus_uint16_t>(bus, at);
    case DBUS_TYPE_INT32:
      return number_at<dbus_int32_t>(bus, at);
    case DBUS_TYPE_UINT32:
      return number_at<dbus_uint32_t>(bus, at);
    case DBUS_TYPE_INT64:
      return number_at<dbus_int64_t>(bus, at);
    case DBUS_TYPE_UINT64:
      return number_at<dbus_uint64_t>(bus, at);
    case DBUS_TYPE_DOUBLE:
      return number_at<double>(bus, at);
    case DBUS_TYPE_STRING:
    case DBUS_TYPE_OBJECT_PATH:
    case DBUS_TYPE_SIGNATURE:
      return text_at(bus, at);
    case DBUS_TYPE_ARRAY:
      return array_at(bus, at);
    case DBUS_TYPE_VARIANT:
      bus.message_iter_recurse(&at, &inside);
      return value_at(bus, inside);
    case DBUS_TYPE_STRUCT: {
      Json members = Json::array();
      bus.message_iter_recurse(&at, &inside);
      for (; bus.message_iter_get_arg_type(&inside) != DBUS_TYPE_INVALID; bus.message_iter_next(&inside)) {
        members.push_back(value_at(bus, inside));
      }
      return members;
    }
    default:
      return nullptr;  // a file descriptor
  }
}

Json text_or_null(const char* text) {
  return text == nullptr ? Json(nullptr) : Json(text);
}

std::string event_of(const BusLibrary& bus, DBusMessage* message) {
  Json data = Json::object();
  DBusMessageIter at;
  if (bus.message_iter_init(message, &at) != 0) {
    for (std::size_t i = 0; bus.message_iter_get_arg_type(&at) != DBUS_TYPE_INVALID; ++i) {
      data[fmt::format("arg{}", i)] = value_at(bus, at);
      bus.message_iter_next(&at);
    }
  }
  const Json event{{"plugin", text_or_null(bus.message_get_interface(message))},
                   {"operation", text_or_null(bus.message_get_member(message))},
                   {"data", std::move(data)},
                   {"metadata",
                    {{"path", text_or_null(bus.message_get_path(message))},
                     {"sender", text_or_null(bus.message_get_sender(message))}}}};
  return event.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

/// A connection to the bus with the match rules of a source.
class BusSource::Connection {
 public:
  explicit Connection(const DeclaredSource& declared) : bus_(BusLibrary::get()) {
    DBusError error;
    bus_.error_init(&error);
    const auto fail = [&](const std::string& what) {
      const std::string reason = error.message == nullptr ? "no reason given" : error.message;
      bus_.error_free(&error);
      close();
      throw Error(ErrorCode::network, fmt::format("{}: {}", what, reason));
    };
    if (declared.bus == "system" || declared.bus == "session") {
      connection_ = bus_.bus_get_private(declared.bus == "system" ? DBUS_BUS_SYSTEM : DBUS_BUS_SESSION, &error);
      if (connection_ == nullptr) fail(fmt::format("no connection to the {} bus", declared.bus));
    } else {
      connection_ = bus_.connection_open_private(declared.bus.c_str(), &error);
      if (connection_ == nullptr) fail(fmt::format("no connection to the bus '{}'", declared.bus));
      if (bus_.bus_register(connection_, &error) == 0) fail(fmt::format("the bus '{}' refuses", declared.bus));
    }
    bus_.connection_set_exit_on_disconnect(connection_, 0);
    for (const std::string& rule : declared.match) {
      bus_.bus_add_match(connection_, rule.c_str(), &error);
      if (error.message != nullptr) fail(fmt::format("the bus does not take the match rule \"{}\"", rule));
    }
  }

  ~Connection() { close(); }

  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Waits for more; false where the bus has gone.
  bool read(std::chrono::milliseconds time) {
    return bus_.connection_read_write(connection_, static_cast<int>(time.count())) != 0;
  }

  /// The next signal that has come, as an event; false: there is none.
  bool next(std::string& event) {
    for (;;) {
      DBusMessage* message = bus_.connection_pop_message(connection_);
      if (message == nullptr) return false;
      const bool wanted =
          bus_.message_get_type(message) == DBUS_MESSAGE_TYPE_SIGNAL && !is_own_name(message) && !is_local(message);
      if (wanted) event = event_of(bus_, message);
      bus_.message_unref(message);
      if (wanted) return true;
    }
  }

 private:
  // The bus tells everybody which names they have got, asked for or not.
  bool is_own_name(DBusMessage* message) const {
    const char* sender = bus_.message_get_sender(message);
    const char* destination = bus_.message_get_destination(message);
    return sender != nullptr && destination != nullptr && std::strcmp(sender, DBUS_SERVICE_DBUS) == 0 &&
           std::strcmp(destination, bus_.bus_get_unique_name(connection_)) == 0;
  }

  // libdbus's own word that the connection has ended.
  bool is_local(DBusMessage* message) const {
    const char* interface = bus_.message_get_interface(message);
    return interface != nullptr && std::strcmp(interface, DBUS_INTERFACE_LOCAL) == 0;
  }

  void close() {
    if (connection_ == nullptr) return;
    bus_.connection_close(connection_);
    bus_.connection_unref(connection_);
    connection_ = nullptr;
  }

  const BusLibrary& bus_;
  DBusConnection* connection_ = nullptr;
};

void BusSource::accept(const std::stop_token& stop) {
  Connection connection(declared());
  wait_for({});
  while (!stop.stop_requested()) {
    const bool is_there = connection.read(200ms);
    take(connection, stop);
    if (!is_there) throw Error(ErrorCode::network, fmt::format("the bus '{}' has gone", declared().bus));
  }
}

void BusSource::take(Connection& connection, const std::stop_token& stop) {
  constexpr std::size_t max_together = 1000;
  for (;;) {
    std::vector<std::string> events;
    const bool full = is_full();
    bool ended = false;
    while (events.size() < max_together) {
      std::string event;
      ended = !connection.next(event);
      if (ended) break;
      if (event.size() > around().limits.event_bytes) {
        log::warning("{}: a signal of {} bytes is refused: the limit 'event_bytes' is {}", declared().name,
                     event.size(), around().limits.event_bytes);
        count(Outcome::refused);
      } else if (full) {
        count_lost();
      } else {
        events.push_back(std::move(event));
      }
    }
    wait_for(
        full ? fmt::format("{} bytes wait, the limit 'journal_bytes': signals are lost", around().limits.journal_bytes)
             : std::string());
    const std::vector<std::string_view> lines(events.begin(), events.end());
    while (!lines.empty()) {
      try {
        (void)keep(lines);
        break;
      } catch (const Error& error) {
        wait_for(error.message());
      }
      if (stop.stop_requested()) return;
      accept_waker().sleep(1s);
    }
    if (ended) return;
  }
}

}  // namespace gpux::daemon
