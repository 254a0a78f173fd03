// Where the server listens: ports, unix sockets, TLS, and what happens when there are too many clients.
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "gpux/error.h"
#include "server/certificate.h"
#include "server/raw_client.h"

namespace gpux::http {
namespace {

namespace fs = std::filesystem;
using test::write_certificate;
using testing::HasSubstr;

fs::path scratch(const std::string& name) {
  const fs::path folder = fs::path(testing::TempDir()) / ("gpux-http-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  return folder / name;
}

ErrorCode code_of(const ServerOptions& options, std::string* message = nullptr) {
  try {
    const Server server(options, echo);
  } catch (const Error& error) {
    if (message != nullptr) *message = error.message();
    return error.code();
  }
  return ErrorCode{};
}

TEST(HttpListening, APortInUseIsSaid) {
  const RunningServer running(echo);
  ServerOptions options;
  options.port = running.port();
  std::string message;
  EXPECT_EQ(code_of(options, &message), ErrorCode::network);
  EXPECT_EQ(message, "port " + std::to_string(running.port()) + " of host 127.0.0.1 is in use by process " +
                         std::to_string(::getpid()) + " (test_http)");
}

TEST(HttpListening, AddressesThatAreNotHereAreRefused) {
  ServerOptions options;
  options.port = 0;
  for (const char* host : {"192.0.2.1", "no such host"}) {
    options.host = host;
    EXPECT_EQ(code_of(options), ErrorCode::usage) << host;
  }
  options.host = "127.0.0.1";
  options.port.reset();
  EXPECT_EQ(code_of(options), ErrorCode::usage);
}

TEST(HttpListening, NamesAndIpv6AreUnderstood) {
  for (const char* host : {"localhost", "0.0.0.0", "::", "::1"}) {
    try {
      const RunningServer running(echo, [&](ServerOptions& options) { options.host = host; });
      EXPECT_GT(running.port(), 0);
      if (std::string_view(host) == "::1") continue;
      EXPECT_EQ(RawClient(running.port()).ask(get("/")).status, 200) << host;
    } catch (const Error& error) {
      EXPECT_THAT(host, HasSubstr("::")) << error.what();  // a machine without IPv6
    }
  }
}

TEST(HttpListening, ConnectionsMadeBeforeTheStartAreServed) {
  ServerOptions options;
  options.port = 0;
  Server server(options, echo);
  RawClient client(server.port());
  client.send(get("/early"));
  server.start();
  EXPECT_EQ(client.receive().body, "/early");
}

TEST(HttpListening, AServerThatNeverStartedEnds) {
  ServerOptions options;
  options.port = 0;
  Server server(options, echo);
  const RawClient client(server.port());
  EXPECT_TRUE(server.drain(std::chrono::steady_clock::now()));
}

TEST(HttpListening, AUnixSocketServesAndGoesWithTheServer) {
  const fs::path path = scratch("served.sock");
  {
    const RunningServer running(
        [](std::shared_ptr<Exchange> exchange) {
          EXPECT_EQ(*exchange->request().peer, "unix");
          echo(std::move(exchange));
        },
        [&](ServerOptions& options) {
          options.port.reset();
          options.unix_path = path;
        });
    EXPECT_EQ(running.port(), 0);
    RawClient client(path);
    EXPECT_EQ(client.ask(post("/", "abc")).body, "abc");
    EXPECT_EQ(client.ask(get("/d")).body, "/d");
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(HttpListening, OnlyAUnixSocketThatNobodyListensOnIsReplaced) {
  const fs::path path = scratch("contested.sock");
  ServerOptions options;
  options.port.reset();
  options.unix_path = path;
  {
    const int stale = ::socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_GE(stale, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.string().copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(stale, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::close(stale);
  }
  ASSERT_TRUE(fs::exists(path));
  {
    auto server = std::make_unique<Server>(options, echo);
    server->start();
    EXPECT_EQ(RawClient(path).ask(get("/a")).body, "/a");
    EXPECT_EQ(code_of(options), ErrorCode::network);
    EXPECT_EQ(RawClient(path).ask(get("/b")).body, "/b");
    // Another's socket in its place is not removed.
    fs::remove(path);
    Server successor(options, echo);
    successor.start();
    server.reset();
    EXPECT_EQ(RawClient(path).ask(get("/c")).body, "/c");
  }
  std::ofstream(path) << "precious";
  EXPECT_EQ(code_of(options), ErrorCode::usage);
  EXPECT_EQ(fs::file_size(path), 8U);
  options.unix_path = scratch(std::string(200, 'x'));
  EXPECT_EQ(code_of(options), ErrorCode::usage);
  options.unix_path = scratch("missing") / "a.sock";
  EXPECT_EQ(code_of(options), ErrorCode::storage);
}

TEST(HttpListening, TooManyConnectionsAreTurnedAway) {
  const RunningServer running(echo, [](ServerOptions& options) { options.limits.max_connections = 2; });
  auto first = std::make_unique<RawClient>(running.port());
  RawClient second(running.port());
  EXPECT_EQ(first->ask(get("/")).status, 200);
  EXPECT_EQ(second.ask(get("/")).status, 200);
  const Answered refused = RawClient(running.port()).receive();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_TRUE(refused.complete);
  EXPECT_THAT(refused.body, testing::MatchesRegex("\\{\"error\": \".*\"\\}\n"));
  EXPECT_EQ(running.server->counters().connections_refused, 1U);
  first.reset();
  EXPECT_TRUE(eventually([&] { return running.server->counters().connections_open == 1; }));
  EXPECT_EQ(RawClient(running.port()).ask(get("/")).status, 200);
  EXPECT_EQ(second.ask(get("/")).status, 200);
}

TEST(HttpListening, WithoutFileDescriptorsAcceptingRestsAndRecovers) {
  const RunningServer running(echo);
  RawClient early(running.port());
  EXPECT_EQ(early.ask(get("/")).status, 200);
  // Descriptors for the clients are opened ahead; then no number is left for the server's side.
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const int highest = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  auto late = std::make_unique<RawClient>(running.port());
  ASSERT_TRUE(eventually([&] { return running.server->counters().connections_accepted == 2; }));
  const int reserved = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const rlimit low{static_cast<rlim_t>(reserved) + 1, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  ::close(reserved);  // one left, for the client
  RawClient waiting(running.port());
  waiting.send(get("/waiting"));
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  EXPECT_EQ(running.server->counters().connections_accepted, 2U);
  EXPECT_EQ(early.ask(get("/early")).body, "/early");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(waiting.receive().body, "/waiting");
  ::close(highest);
}

// ---- TLS ----

class TlsClient {
 public:
  /// `certificate`, `key`: of the client; empty: it has none.
  explicit TlsClient(std::uint16_t port, int max_version = 0, const fs::path& certificate = {},
                     const fs::path& key = {})
      : context_(SSL_CTX_new(TLS_client_method())) {
    if (!certificate.empty()) {
      SSL_CTX_use_certificate_file(context_, certificate.c_str(), SSL_FILETYPE_PEM);
      SSL_CTX_use_PrivateKey_file(context_, key.c_str(), SSL_FILETYPE_PEM);
    }
    if (max_version != 0) {
      SSL_CTX_set_security_level(context_, 0);
      SSL_CTX_set_max_proto_version(context_, max_version);
    }
    bio_ = BIO_new_ssl_connect(context_);
    BIO_set_conn_hostname(bio_, ("127.0.0.1:" + std::to_string(port)).c_str());
    connected_ = BIO_do_connect(bio_) == 1 && BIO_do_handshake(bio_) == 1;
  }

  ~TlsClient() {
    BIO_free_all(bio_);
    SSL_CTX_free(context_);
  }

  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }

  [[nodiscard]] std::string certificate_name() const {
    SSL* ssl = nullptr;
    BIO_get_ssl(bio_, &ssl);
    X509* certificate = SSL_get1_peer_certificate(ssl);
    char name[256] = "";
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof name);
    X509_free(certificate);
    return name;
  }

  /// The answer's text to a request with "Connection: close".
  std::string ask_last(std::string_view request) {
    send(request);
    std::string text;
    char portion[16384];
    for (int count = 0; (count = BIO_read(bio_, portion, sizeof portion)) > 0;) {
      text.append(portion, static_cast<std::size_t>(count));
    }
    return text;
  }

  void send(std::string_view text) {
    while (!text.empty()) {
      const int sent = BIO_write(bio_, text.data(), static_cast<int>(text.size()));
      if (sent <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

 private:
  SSL_CTX* context_;
  BIO* bio_ = nullptr;
  bool connected_ = false;
};

struct TlsPaths {
  fs::path certificate = scratch("certificate.pem");
  fs::path key = scratch("key.pem");

  void operator()(ServerOptions& options) const {
    options.tls_certificate = certificate;
    options.tls_key = key;
    options.limits.header_timeout = std::chrono::milliseconds(300);
  }
};

TEST(HttpTls, ServesWithItsOwnCertificate) {
  const TlsPaths paths;
  write_certificate("first", paths.certificate, paths.key);
  const RunningServer running(echo, paths);
  TlsClient client(running.port());
  ASSERT_TRUE(client.connected());
  EXPECT_EQ(client.certificate_name(), "first");
  const std::string body(300'000, 'b');
  client.send(post("/", body));
  client.send(get("/second"));
  const std::string text = client.ask_last(get("/last", "Connection: close\r\n"));
  EXPECT_THAT(text, HasSubstr(body));
  EXPECT_THAT(text, HasSubstr("\r\n\r\n/second"));
  EXPECT_THAT(text, testing::EndsWith("\r\n\r\n/last"));
}

TEST(HttpTls, RefusesWhatIsNotTls) {
  const TlsPaths paths;
  write_certificate("first", paths.certificate, paths.key);
  const RunningServer running(echo, paths);
  EXPECT_EQ(RawClient(running.port()).ask(get("/")).status, 0);
  EXPECT_FALSE(TlsClient(running.port(), TLS1_1_VERSION).connected());
  RawClient silent(running.port());
  EXPECT_TRUE(silent.ended(std::chrono::seconds(2)));
  EXPECT_TRUE(TlsClient(running.port()).connected());
}

TEST(HttpTls, AClientThatLeavesIsNoticed) {
  const TlsPaths paths;
  write_certificate("first", paths.certificate, paths.key);
  std::shared_ptr<Exchange> held;
  std::atomic<bool> there{false};
  std::atomic<int> told{0};
  const RunningServer running(
      [&](std::shared_ptr<Exchange> exchange) {
        held = std::move(exchange);
        held->on_gone([&] { ++told; });
        there = true;
      },
      paths);
  {
    TlsClient client(running.port());
    client.send(get("/"));
    ASSERT_TRUE(eventually([&] { return there.load(); }));
    EXPECT_EQ(told, 0);
  }
  EXPECT_TRUE(eventually([&] { return told == 1; }));
}

TEST(HttpTls, ServesClientsWithACertificateOfTheAuthorityAlone) {
  const TlsPaths paths;
  write_certificate("server", paths.certificate, paths.key);
  const fs::path authority = scratch("ca.pem"), authority_key = scratch("ca.key"), robot = scratch("robot.pem"),
                 robot_key = scratch("robot.key"), stranger = scratch("stranger.pem"),
                 stranger_key = scratch("stranger.key");
  write_certificate("authority", authority, authority_key);
  write_certificate("robot", robot, robot_key, authority, authority_key);
  write_certificate("stranger", stranger, stranger_key);
  std::mutex mutex;
  std::vector<std::string> names;
  const RunningServer running(
      [&](const std::shared_ptr<Exchange>& exchange) {
        {
          const std::lock_guard lock(mutex);
          const auto& name = exchange->request().certificate_name;
          names.push_back(name == nullptr ? "none" : *name);
        }
        exchange->respond(Response::json(200, "{}"));
      },
      [&](ServerOptions& options) {
        paths(options);
        options.tls_client_ca = authority;
      });
  const auto ask = [&](int version, const fs::path& certificate, const fs::path& key) {
    return TlsClient(running.port(), version, certificate, key).ask_last(get("/", "Connection: close\r\n"));
  };
  for (const int version : {0, TLS1_2_VERSION}) {
    EXPECT_THAT(ask(version, robot, robot_key), HasSubstr("200 OK"));
    EXPECT_EQ(ask(version, stranger, stranger_key), "");
    EXPECT_EQ(ask(version, {}, {}), "");
  }
  EXPECT_EQ(names, std::vector<std::string>(2, "robot"));

  // Of another authority from then on.
  write_certificate("other", authority, authority_key);
  EXPECT_TRUE(eventually([&] { return ask(0, robot, robot_key).empty(); }));

  ServerOptions options;
  options.port = 0;
  paths(options);
  options.tls_client_ca = robot_key;
  std::string message;
  EXPECT_EQ(code_of(options, &message), ErrorCode::invalid_config);
  EXPECT_THAT(message, HasSubstr("robot.key"));
}

TEST(HttpTls, ReadsTheCertificateAgainWhenItChanges) {
  const TlsPaths paths;
  write_certificate("first", paths.certificate, paths.key);
  const RunningServer running(echo, paths);
  EXPECT_EQ(TlsClient(running.port()).certificate_name(), "first");
  const fs::path other_key = scratch("other-key.pem");
  write_certificate("second", paths.certificate, other_key);
  std::this_thread::sleep_for(std::chrono::milliseconds(1050));
  EXPECT_EQ(TlsClient(running.port()).certificate_name(), "first") << "a certificate without its key was taken";
  fs::rename(other_key, paths.key);
  EXPECT_TRUE(eventually([&] { return TlsClient(running.port()).certificate_name() == "second"; }));
}

TEST(HttpTls, ReadsFilesAgainThatWereReplacedByOnesOfTheSameTime) {
  const TlsPaths paths;
  write_certificate("first", paths.certificate, paths.key);
  const RunningServer running(echo, paths);
  EXPECT_EQ(TlsClient(running.port()).certificate_name(), "first");
  const auto of_certificate = fs::last_write_time(paths.certificate), of_key = fs::last_write_time(paths.key);
  write_certificate("second", paths.certificate, paths.key);
  // As a tool does that unpacks files with their times.
  fs::last_write_time(paths.certificate, of_certificate);
  fs::last_write_time(paths.key, of_key);
  EXPECT_TRUE(eventually([&] { return TlsClient(running.port()).certificate_name() == "second"; }));
}

TEST(HttpTls, UnusableFilesAreRefusedAtTheStart) {
  ServerOptions options;
  options.port = 0;
  options.tls_certificate = scratch("none.pem");
  EXPECT_EQ(code_of(options), ErrorCode::usage);
  options.tls_key = scratch("none.key");
  EXPECT_EQ(code_of(options), ErrorCode::invalid_config);
  const TlsPaths paths;
  write_certificate("first", paths.certificate, paths.key);
  options.tls_certificate = paths.certificate;
  EXPECT_EQ(code_of(options), ErrorCode::invalid_config);
  write_certificate("other", scratch("other.pem"), scratch("other.key"));
  options.tls_key = scratch("other.key");
  std::string message;
  EXPECT_EQ(code_of(options, &message), ErrorCode::invalid_config);
  EXPECT_THAT(message, HasSubstr("other.key"));
}

}  // namespace
}  // namespace gpux::http
