// Loads libcurl when it is first needed, for packages (MT_STATIC): Debian has no libcurl that can be linked
// statically with its dependencies, and users who never fetch do not need it. Defines the library's own
// names, so that transfers.cc is the same.
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#undef curl_easy_getinfo
#undef curl_easy_setopt

#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace {

void* Library() {
  static void* const library = [] {
    for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
      if (void* found = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return found;
    }
    std::fprintf(stderr,
                 "mtdata: fetching from a server needs libcurl.so.4, which is not installed (Debian: "
                 "apt-get install libcurl4)\n");
    std::exit(1);
  }();
  return library;
}

template <typename Function>
Function* Find(Function*, const char* name) {
  void* const found = dlsym(Library(), name);
  if (found == nullptr) {
    std::fprintf(stderr, "mtdata: this machine's libcurl lacks %s\n", name);
    std::exit(1);
  }
  return reinterpret_cast<Function*>(found);
}

}  // namespace

#define MT_FORWARD(name, ...)                       \
  static auto* const function = Find(&name, #name); \
  return function(__VA_ARGS__)

extern "C" {

CURLcode curl_global_init(long flags) { MT_FORWARD(curl_global_init, flags); }
CURL* curl_easy_init() { MT_FORWARD(curl_easy_init); }
void curl_easy_cleanup(CURL* easy) { MT_FORWARD(curl_easy_cleanup, easy); }
const char* curl_easy_strerror(CURLcode code) { MT_FORWARD(curl_easy_strerror, code); }
curl_version_info_data* curl_version_info(CURLversion version) { MT_FORWARD(curl_version_info, version); }
CURLM* curl_multi_init() { MT_FORWARD(curl_multi_init); }
CURLMcode curl_multi_cleanup(CURLM* multi) { MT_FORWARD(curl_multi_cleanup, multi); }
CURLMcode curl_multi_add_handle(CURLM* multi, CURL* easy) { MT_FORWARD(curl_multi_add_handle, multi, easy); }
CURLMcode curl_multi_remove_handle(CURLM* multi, CURL* easy) {
  MT_FORWARD(curl_multi_remove_handle, multi, easy);
}
CURLMcode curl_multi_perform(CURLM* multi, int* running) { MT_FORWARD(curl_multi_perform, multi, running); }
CURLMcode curl_multi_poll(CURLM* multi, curl_waitfd extra[], unsigned count, int ms, int* ready) {
  MT_FORWARD(curl_multi_poll, multi, extra, count, ms, ready);
}
CURLMsg* curl_multi_info_read(CURLM* multi, int* left) { MT_FORWARD(curl_multi_info_read, multi, left); }
curl_slist* curl_slist_append(curl_slist* list, const char* text) {
  MT_FORWARD(curl_slist_append, list, text);
}
void curl_slist_free_all(curl_slist* list) { MT_FORWARD(curl_slist_free_all, list); }

// The last argument is a long, a pointer or a curl_off_t: always one register on 64-bit machines.
CURLcode curl_easy_setopt(CURL* easy, CURLoption option, ...) {
  static_assert(sizeof(void*) == 8 && sizeof(long) == 8);
  va_list arguments;
  va_start(arguments, option);
  void* const value = va_arg(arguments, void*);
  va_end(arguments);
  MT_FORWARD(curl_easy_setopt, easy, option, value);
}
CURLcode curl_easy_getinfo(CURL* easy, CURLINFO info, ...) {
  va_list arguments;
  va_start(arguments, info);
  void* const value = va_arg(arguments, void*);
  va_end(arguments);
  MT_FORWARD(curl_easy_getinfo, easy, info, value);
}

}  // extern "C"
