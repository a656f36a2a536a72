// Loads libcurl at run time. cupel also starts on machines without libcurl; only web services are
// unavailable there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define CURL_DISABLE_TYPECHECK 1
#include <curl/curl.h>

#include "base/result.h"

namespace cupel::llm {

struct CurlApi {
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_cleanup) easy_cleanup;
  decltype(&::curl_easy_setopt) easy_setopt;
  decltype(&::curl_easy_getinfo) easy_getinfo;
  decltype(&::curl_easy_strerror) easy_strerror;
  decltype(&::curl_multi_init) multi_init;
  decltype(&::curl_multi_cleanup) multi_cleanup;
  decltype(&::curl_multi_add_handle) multi_add_handle;
  decltype(&::curl_multi_remove_handle) multi_remove_handle;
  decltype(&::curl_multi_perform) multi_perform;
  decltype(&::curl_multi_poll) multi_poll;
  decltype(&::curl_multi_info_read) multi_info_read;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;
};

/// Loaded once for the process. Error kEnvironment: the library is missing or too old (7.85).
Result<const CurlApi*> LoadCurl();

}  // namespace cupel::llm
