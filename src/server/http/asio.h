#pragma once

// Asio as this folder uses it; only its .cpp files may see this.

#include <chrono>
#include <string>
#include <string_view>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace gpux::http {

namespace net = boost::asio;

using Executor = net::io_context::executor_type;
/// TCP and unix sockets alike.
using Socket = net::basic_stream_socket<net::generic::stream_protocol, Executor>;
using TlsStream = net::ssl::stream<Socket&>;
using Clock = std::chrono::steady_clock;
using Timer = net::basic_waitable_timer<Clock, net::wait_traits<Clock>, Executor>;
template <typename Value>
using Task = net::awaitable<Value, Executor>;
constexpr net::use_awaitable_t<Executor> use_task{};
using ErrorNumber = boost::system::error_code;

}  // namespace gpux::http
