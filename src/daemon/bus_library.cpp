#include "daemon/bus_library.h"

#include <fmt/format.h>

#include "base/dynamic_library.h"
#include "gpux/error.h"

namespace gpux::daemon {
namespace {

constexpr const char* file_name = "libdbus-1.so.3";

template <typename Function>
void find(const DynamicLibrary& library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(library.symbol(name));
  if (function == nullptr) throw Error(ErrorCode::not_found, fmt::format("{} has no {}", file_name, name));
}

BusLibrary opened() {
  std::string failure;
  const auto library = DynamicLibrary::open(file_name, failure);
  if (!library) {
    throw Error(ErrorCode::not_found, fmt::format("D-Bus needs {}, of Debian's libdbus-1-3: {}", file_name, failure));
  }
  BusLibrary bus{};
  find(*library, bus.threads_init_default, "dbus_threads_init_default");
  find(*library, bus.error_init, "dbus_error_init");
  find(*library, bus.error_free, "dbus_error_free");
  find(*library, bus.bus_get_private, "dbus_bus_get_private");
  find(*library, bus.bus_register, "dbus_bus_register");
  find(*library, bus.bus_add_match, "dbus_bus_add_match");
  find(*library, bus.bus_get_unique_name, "dbus_bus_get_unique_name");
  find(*library, bus.connection_open_private, "dbus_connection_open_private");
  find(*library, bus.connection_set_exit_on_disconnect, "dbus_connection_set_exit_on_disconnect");
  find(*library, bus.connection_read_write, "dbus_connection_read_write");
  find(*library, bus.connection_pop_message, "dbus_connection_pop_message");
  find(*library, bus.connection_close, "dbus_connection_close");
  find(*library, bus.connection_unref, "dbus_connection_unref");
  find(*library, bus.message_unref, "dbus_message_unref");
  find(*library, bus.message_get_type, "dbus_message_get_type");
  find(*library, bus.message_get_interface, "dbus_message_get_interface");
  find(*library, bus.message_get_member, "dbus_message_get_member");
  find(*library, bus.message_get_path, "dbus_message_get_path");
  find(*library, bus.message_get_sender, "dbus_message_get_sender");
  find(*library, bus.message_get_destination, "dbus_message_get_destination");
  find(*library, bus.message_iter_init, "dbus_message_iter_init");
  find(*library, bus.message_iter_next, "dbus_message_iter_next");
  find(*library, bus.message_iter_get_arg_type, "dbus_message_iter_get_arg_type");
  find(*library, bus.message_iter_get_element_type, "dbus_message_iter_get_element_type");
  find(*library, bus.message_iter_recurse, "dbus_message_iter_recurse");
  find(*library, bus.message_iter_get_basic, "dbus_message_iter_get_basic");
  bus.threads_init_default();
  return bus;
}

}  // namespace

const BusLibrary& BusLibrary::get() {
  static const BusLibrary library = opened();
  return library;
}

}  // namespace gpux::daemon
