#pragma once

#include <dbus/dbus.h>

namespace gpux::daemon {

/// The functions of libdbus that are needed; it is opened when they first are, so that a machine without it does
/// without D-Bus alone.
struct BusLibrary {
  /// The loaded D-Bus library. Error not_found if it is not installed.
  static const BusLibrary& get();

  decltype(&::dbus_threads_init_default) threads_init_default;
  decltype(&::dbus_error_init) error_init;
  decltype(&::dbus_error_free) error_free;
  decltype(&::dbus_bus_get_private) bus_get_private;
  decltype(&::dbus_bus_register) bus_register;
  decltype(&::dbus_bus_add_match) bus_add_match;
  decltype(&::dbus_bus_get_unique_name) bus_get_unique_name;
  decltype(&::dbus_connection_open_private) connection_open_private;
  decltype(&::dbus_connection_set_exit_on_disconnect) connection_set_exit_on_disconnect;
  decltype(&::dbus_connection_read_write) connection_read_write;
  decltype(&::dbus_connection_pop_message) connection_pop_message;
  decltype(&::dbus_connection_close) connection_close;
  decltype(&::dbus_connection_unref) connection_unref;
  decltype(&::dbus_message_unref) message_unref;
  decltype(&::dbus_message_get_type) message_get_type;
  decltype(&::dbus_message_get_interface) message_get_interface;
  decltype(&::dbus_message_get_member) message_get_member;
  decltype(&::dbus_message_get_path) message_get_path;
  decltype(&::dbus_message_get_sender) message_get_sender;
  decltype(&::dbus_message_get_destination) message_get_destination;
  decltype(&::dbus_message_iter_init) message_iter_init;
  decltype(&::dbus_message_iter_next) message_iter_next;
  decltype(&::dbus_message_iter_get_arg_type) message_iter_get_arg_type;
  decltype(&::dbus_message_iter_get_element_type) message_iter_get_element_type;
  decltype(&::dbus_message_iter_recurse) message_iter_recurse;
  decltype(&::dbus_message_iter_get_basic) message_iter_get_basic;
};

}  // namespace gpux::daemon
