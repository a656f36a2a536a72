// SPDX-License-Identifier: Apache-2.0
#include "llm/curl.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace cupel::llm {
namespace {

constexpr unsigned kOldest = 0x075500;  // 7.85.0: CURLOPT_PROTOCOLS_STR

template <typename F>
bool Find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

tl::unexpected<Error> Missing(std::string_view why) {
  return Fail(ErrorCode::kEnvironment, fmt::format("cannot send requests to web services: {}", why),
              "install libcurl 7.85 or later (Debian: libcurl4), or use command: or mailbox:");
}

Result<CurlApi> Open() {
  // Never closed, because libcurl keeps state of threads and TLS libraries until the process ends.
  void* library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Missing("libcurl.so.4 is not installed");
  CurlApi api{};
  decltype(&::curl_version_info) version_info = nullptr;
  const bool all = Find(library, "curl_version_info", version_info) &&
                   Find(library, "curl_global_init", api.global_init) &&
                   Find(library, "curl_easy_init", api.easy_init) &&
                   Find(library, "curl_easy_cleanup", api.easy_cleanup) &&
                   Find(library, "curl_easy_setopt", api.easy_setopt) &&
                   Find(library, "curl_easy_getinfo", api.easy_getinfo) &&
                   Find(library, "curl_easy_strerror", api.easy_strerror) &&
                   Find(library, "curl_multi_init", api.multi_init) &&
                   Find(library, "curl_multi_cleanup", api.multi_cleanup) &&
                   Find(library, "curl_multi_add_handle", api.multi_add_handle) &&
                   Find(library, "curl_multi_remove_handle", api.multi_remove_handle) &&
                   Find(library, "curl_multi_perform", api.multi_perform) &&
                   Find(library, "curl_multi_poll", api.multi_poll) &&
                   Find(library, "curl_multi_info_read", api.multi_info_read) &&
                   Find(library, "curl_slist_append", api.slist_append) &&
                   Find(library, "curl_slist_free_all", api.slist_free_all);
  if (!all) return Missing("libcurl.so.4 lacks functions");
  const auto* version = version_info(CURLVERSION_NOW);
  if (version == nullptr || version->version_num < kOldest) return Missing("libcurl is too old");
  if (api.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return Missing("libcurl cannot be initialised");
  return api;
}

}  // namespace

Result<const CurlApi*> LoadCurl() {
  static const Result<CurlApi> api = Open();
  if (!api) return tl::unexpected(api.error());
  return &*api;
}

}  // namespace cupel::llm
