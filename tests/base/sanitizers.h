#pragma once

namespace gpux::test {

// g++ has macros for them, clang asks for features.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool has_address_sanitizer = true;
#elif defined(__has_feature)
inline constexpr bool has_address_sanitizer = __has_feature(address_sanitizer);
#else
inline constexpr bool has_address_sanitizer = false;
#endif

#if defined(__SANITIZE_THREAD__)
inline constexpr bool has_thread_sanitizer = true;
#elif defined(__has_feature)
inline constexpr bool has_thread_sanitizer = __has_feature(thread_sanitizer);
#else
inline constexpr bool has_thread_sanitizer = false;
#endif

/// One that keeps memory of its own beside that of the program, and ends the process where it gets none.
inline constexpr bool has_sanitizer = has_address_sanitizer || has_thread_sanitizer;

}  // namespace gpux::test
