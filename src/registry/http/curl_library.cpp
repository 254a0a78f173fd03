#include "registry/http/curl_library.h"

#include <array>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/dynamic_library.h"
#include "gpux/error.h"

namespace gpux::registry {
namespace {

// The builds with OpenSSL and with GnuTLS.
constexpr std::array<const char*, 2> file_names{"libcurl.so.4", "libcurl-gnutls.so.4"};

template <typename Function>
void find(const DynamicLibrary& library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(library.symbol(name));
  if (function == nullptr) {
    throw Error(ErrorCode::network,
                fmt::format("downloads need libcurl 7.66 or newer; this machine's has no {}", name));
  }
}

CurlLibrary opened() {
  std::optional<DynamicLibrary> library;
  std::string failure, first_failure;
  for (const char* name : file_names) {
    if ((library = DynamicLibrary::open(name, failure))) break;
    if (first_failure.empty()) first_failure = failure;
  }
  if (!library) {
    throw Error(ErrorCode::network,
                fmt::format("downloads need {}, of Debian's package libcurl4: {}", file_names.front(), first_failure));
  }
  CurlLibrary curl{};
  find(*library, curl.global_init, "curl_global_init");
  find(*library, curl.easy_init, "curl_easy_init");
  find(*library, curl.easy_setopt, "curl_easy_setopt");
  find(*library, curl.easy_getinfo, "curl_easy_getinfo");
  find(*library, curl.easy_reset, "curl_easy_reset");
  find(*library, curl.easy_cleanup, "curl_easy_cleanup");
  find(*library, curl.easy_strerror, "curl_easy_strerror");
  find(*library, curl.multi_init, "curl_multi_init");
  find(*library, curl.multi_add_handle, "curl_multi_add_handle");
  find(*library, curl.multi_remove_handle, "curl_multi_remove_handle");
  find(*library, curl.multi_perform, "curl_multi_perform");
  find(*library, curl.multi_poll, "curl_multi_poll");
  find(*library, curl.multi_info_read, "curl_multi_info_read");
  find(*library, curl.multi_cleanup, "curl_multi_cleanup");
  find(*library, curl.multi_strerror, "curl_multi_strerror");
  find(*library, curl.slist_append, "curl_slist_append");
  find(*library, curl.slist_free_all, "curl_slist_free_all");
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) throw Error(ErrorCode::network, "libcurl cannot be started");
  return curl;
}

}  // namespace

const CurlLibrary& CurlLibrary::get() {
  static const CurlLibrary library = opened();
  return library;
}

}  // namespace gpux::registry
